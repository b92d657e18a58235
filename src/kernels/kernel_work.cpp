// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/kernel_work.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace gpemu::kernels {

void KernelWork::clear() {
  writer = 0;
  ranges.clear();
  scattered.clear();
  compute = nullptr;
  moves.clear();
  checks.clear();
  reads.clear();
  fill_address = 0;
  later = {};
}

void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how) {
  if (address == 0 || bytes == 0) return;
  work->ranges.push_back({address, bytes, how});
}

void add_tensor(KernelWork* work, std::uint64_t address, const Places& places, Bytes element_bytes,
                Uncomputed how) {
  if (address == 0 || element_bytes == 0 || places.count() == 0) return;
  KernelWork::Scattered tensor{.address = address - places.before(),
                               .places = places.in_order(),
                               .element_bytes = element_bytes,
                               .how = how};
  if (Walk(tensor.places, element_bytes).pieces() == 1) {
    return add_range(work, tensor.address, tensor.span(), how);
  }
  work->scattered.push_back(tensor);
}

void add_check(KernelWork* work, const IndexCheck& check) {
  work->reads.push_back({.start = check.address, .bytes = bytes_of(check), .writes = false});
  work->checks.push_back(check);
}

void sort_ranges(KernelWork* work) {
  // A range that seems to reach into another parameter's memory must not hide where that begins.
  std::ranges::stable_sort(work->ranges, {}, &KernelWork::Range::address);
}

namespace {

/// Returns whether no stride is negative and the extent has 64 bits.
bool goes_forward(const Places& places) {
  Bytes sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(places.dimensions); ++i) {
    Bytes steps = 0;
    if (places.sizes[i] != 0 &&
        (__builtin_mul_overflow(places.sizes[i] - 1, places.strides[i], &steps) ||
         __builtin_add_overflow(sum, steps, &sum))) {
      return false;
    }
  }
  return places.before() == 0;
}

}  // namespace

bool add_plain_moves(std::vector<PlainMove> moves, KernelWork* work) {
  std::erase_if(moves, [](const PlainMove& move) { return move.to_places.count() == 0; });
  for (const PlainMove& move : moves) {
    if (!goes_forward(move.to_places) || !goes_forward(move.from_places)) return false;
  }
  for (const PlainMove& move : moves) {
    add_tensor(work, move.to, move.to_places, move.element_bytes, Uncomputed::kWritten);
    if (move.from == 0) continue;
    const Bytes bytes = move.from_places.extent() + move.element_bytes;
    work->reads.push_back({.start = move.from, .bytes = bytes, .writes = false});
  }
  std::ranges::move(moves, std::back_inserter(work->moves));
  return true;
}

}  // namespace gpemu::kernels
