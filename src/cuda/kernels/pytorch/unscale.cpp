// SPDX-License-Identifier: Apache-2.0
#include "kernels/pytorch/unscale.hpp"

#include <cstdint>
#include <utility>

#include "kernel_memory.hpp"
#include "kernels/names.hpp"
#include "kernels/pytorch/tensor_work.hpp"

namespace gpemu::cuda {

void describe_unscale(const void* lambda, NumberType type, KernelWork* work) {
  Unscale unscale{.type = type,
                  .gradients = {},
                  .found = read<std::uint64_t>(lambda),
                  .factor = read<std::uint64_t>(lambda, 8)};
  bool known = true;
  for (const KernelWork::Range& range : work->ranges) {
    unscale.gradients.push_back({.address = range.address, .bytes = range.bytes});
    work->reads.push_back({.start = range.address, .bytes = range.bytes, .writes = false});
    known = known && (!work->at_once || known_to_kernel(range.address, range.bytes));
  }
  work->reads.push_back({.start = unscale.factor, .bytes = 4, .writes = false});
  add_range(work, unscale.found, 4, Uncomputed::kUpdated);
  if (known) work->compute = [unscale = std::move(unscale)] { return compute_unscale(unscale); };
}

}  // namespace gpemu::cuda
