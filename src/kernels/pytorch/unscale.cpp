// SPDX-License-Identifier: Apache-2.0
#include "pytorch/unscale.hpp"

#include <cstdint>
#include <utility>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/pytorch/tensor_work.hpp"

namespace gpemu::kernels {

void describe_unscale(const void* lambda, NumberType type, const Memory& memory, KernelWork* work) {
  Unscale unscale{.type = type,
                  .gradients = {},
                  .found = read<std::uint64_t>(lambda),
                  .factor = read<std::uint64_t>(lambda, 8)};
  bool known = true;
  for (const KernelWork::Range& range : work->ranges) {
    unscale.gradients.push_back({.address = range.address, .bytes = range.bytes});
    work->reads.push_back({.start = range.address, .bytes = range.bytes, .writes = false});
    known = known && (!work->at_once || memory.is_known(range.address, range.bytes));
  }
  work->reads.push_back({.start = unscale.factor, .bytes = 4, .writes = false});
  add_range(work, unscale.found, 4, Uncomputed::kUpdated);
  if (known)
    work->compute = [unscale = std::move(unscale)](Memory& to) {
      return compute_unscale(unscale, to);
    };
}

}  // namespace gpemu::kernels
