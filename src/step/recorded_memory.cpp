// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/recorded_memory.hpp"

#include <algorithm>

namespace gpemu::step {
namespace {

// Source: PyTorch 1.8 to 2.8, c10/cuda/CUDACachingAllocator.cpp, where they are called
// kMinBlockSize, kSmallSize, kMinLargeAlloc and kRoundLarge.
constexpr Bytes kUnit = 512;
constexpr Bytes kLeastRest = kMiB;  ///< of a large block: a smaller one is not split off.
constexpr Bytes kOwnSegment = 10 * kMiB;
constexpr Bytes kSegmentUnit = 2 * kMiB;

constexpr Bytes rounded(Bytes bytes, Bytes unit) {
  return (bytes + unit - 1) / unit * unit;
}

Bytes total(const std::vector<TensorGroup>& groups, std::int64_t batch) {
  Bytes sum = 0;
  for (const TensorGroup& group : groups) {
    sum += static_cast<Bytes>(group.count) *
           allocated_bytes(static_cast<Bytes>(group.bytes.at(batch)));
  }
  return sum;
}

}  // namespace

Bytes allocated_bytes(Bytes bytes) {
  const Bytes block = rounded(bytes, kUnit);
  if (block < kOwnSegment) return block;  // It is cut from a shared segment.
  const Bytes segment = rounded(block, kSegmentUnit);
  return segment - block > kLeastRest ? block : segment;
}

AllocatedMemory allocated_at(const RecordedMemory& memory, std::int64_t batch) {
  AllocatedMemory result{.persistent = total(memory.after, batch)};
  for (const auto& moment : memory.fullest)
    result.peak = std::max(result.peak, total(moment, batch));
  return result;
}

}  // namespace gpemu::step
