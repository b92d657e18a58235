// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::kernels {

/// The offset and size of a kernel's parameter.
struct ParameterPlace {
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// What the instructions of a kernel move to and from memory of the GPU.
struct MemoryAccess {
  bool known = false;            ///< whether the code can be read, and stores by threads only.
  Bytes widest = 0;              ///< the most that a thread stores by one instruction; 0: no store.
  Bytes stored = 0, loaded = 0;  ///< by a thread, by each instruction once.
};

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

}  // namespace gpemu::kernels
