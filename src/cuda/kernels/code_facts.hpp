// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "image.hpp"

namespace gpemu::cuda {

/// What is known of a kernel besides its name.
struct CodeFacts {
  std::vector<ParameterPlace> places;  ///< of its parameters.
  std::string_view ptx;                ///< what it was made of; may be empty.
};

/// Asked only where a name leaves the sizes of parameters open, because it takes milliseconds.
using FindCode = std::function<CodeFacts()>;

}  // namespace gpemu::cuda
