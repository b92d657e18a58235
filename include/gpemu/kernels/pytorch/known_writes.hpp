// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/element_count.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::kernels {

/// A parameter through which a kernel writes, as a table of kernels has it.
struct KnownWrite {
  std::size_t argument = 0;
  Uncomputed how = Uncomputed::kWritten;
  /// The elements behind a pointer. Absent if the parameter describes a tensor, with its sizes.
  std::optional<ElementCount> count;
  /// A dimension that the tensor's own sizes leave out: elements, and their distance in elements.
  std::optional<ElementCount> size, stride;
};

/// Indices in memory for which a kernel asserts that they are in bounds.
struct KnownCheck {
  std::size_t argument = 0;              ///< their address, or a tensor that describes them.
  std::optional<ElementCount> count;     ///< of indices behind an address.
  std::size_t size = 0;                  ///< the argument with the size of the dimension,
  std::optional<std::size_t> dimension;  ///< or with a tensor, which has it as this dimension.
  std::optional<std::size_t> ignored;    ///< that with an index that is allowed.
};

struct KnownWrites {
  std::vector<KnownWrite> writes;
  std::vector<KnownCheck> checks;
};

/// Returns what a kernel of PyTorch, or of CUB, writes, with the exact extents, and what it
/// asserts; nothing for other kernels, or if the parameters are not as expected.
[[nodiscard]] std::optional<KnownWrites> known_writes(const KernelName& name);

}  // namespace gpemu::kernels
