// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_work.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::cuda {

void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how) {
  if (address == 0 || bytes == 0) return;
  if (how == Uncomputed::kOpen) bytes = to_unit(address, bytes);
  work->ranges.push_back({address, bytes, how});
}

void sort_ranges(KernelWork* work) {
  // A range that seems to reach into another parameter's memory must not hide where that begins.
  std::ranges::stable_sort(work->ranges, {}, &KernelWork::Range::address);
}

KernelWork work_on_anything(WriterId writer) {
  KernelWork work;
  work.writer = writer;
  work.reads.push_back({.start = 0, .bytes = ~Bytes{0}, .writes = true});
  return work;
}

void perform_now(const KernelWork& work) {
  if (work.compute && work.compute()) return;
  for (const KernelWork::Range& range : work.ranges) {
    leave_uncomputed(range.address, range.bytes, range.how, work.writer);
  }
  if (work.fill_address != 0) {
    fill_by_kernel(work.fill_address, work.fill_value.data(), work.fill_value.size(),
                   work.fill_count, work.writer);
  }
}

void perform(const KernelWork& work) {
  if (!mover().busy()) return perform_now(work);
  std::vector<Access> accesses = work.reads;
  for (const KernelWork::Range& range : work.ranges) {
    accesses.push_back({.start = range.address, .bytes = range.bytes, .writes = true});
  }
  if (work.fill_address != 0) {
    accesses.push_back({.start = work.fill_address,
                        .bytes = work.fill_value.size() * work.fill_count,
                        .writes = true});
  }
  mover().in_order(accesses, [work] { perform_now(work); });
}

}  // namespace gpemu::cuda
