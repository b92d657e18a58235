// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/element_count.hpp"
#include "kernels/kernel_name.hpp"
#include "kernels/kernel_work.hpp"

namespace gpemu::cuda {

/// A parameter through which a kernel writes, as a table of kernels has it.
struct KnownWrite {
  std::size_t argument = 0;
  Uncomputed how = Uncomputed::kWritten;
  /// Of a pointer; of a tensor that the parameter describes, nothing: it has its own sizes.
  std::optional<ElementCount> count;
  /// A dimension that the tensor's own sizes leave out: elements, and their distance in elements.
  std::optional<ElementCount> size, stride;
};

/// Returns what a kernel of PyTorch, or of CUB, writes, with the exact extents; nothing for other
/// kernels, or if the parameters are not as expected.
[[nodiscard]] std::optional<std::vector<KnownWrite>> known_writes(const KernelName& name);

}  // namespace gpemu::cuda
