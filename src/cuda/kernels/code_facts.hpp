// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "image.hpp"

namespace gpemu::cuda {

/// What is known about a kernel in addition to its name.
struct CodeFacts {
  std::vector<ParameterPlace> places;  ///< of its parameters.
  std::string_view ptx;                ///< its source in PTX; may be empty.
  MemoryAccess access;
  /// Whether the program has kernels of PyTorch 2.5 or older, which compiles some in another way.
  bool old_pytorch = false;
};

/// Called only if a name leaves the sizes of parameters open, because it takes milliseconds.
using FindCode = std::function<CodeFacts()>;

}  // namespace gpemu::cuda
