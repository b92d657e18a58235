// SPDX-License-Identifier: Apache-2.0
#include "part_buffers.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::data {
namespace {

/// So that parts of about the same size can use each other's memory.
constexpr Bytes kCapacityStep = 64 * kKiB;
/// A part does not take memory of more than so many times its size.
constexpr Bytes kMostWaste = 4;

}  // namespace

std::shared_ptr<std::byte[]> PartBuffers::get(Bytes bytes) {
  Bytes capacity = (std::max<Bytes>(bytes, 1) + kCapacityStep - 1) / kCapacityStep * kCapacityStep;
  std::unique_ptr<std::byte[]> memory;
  {
    const Lock lock(spare_->mutex);
    const auto found = spare_->by_capacity.lower_bound(capacity);
    if (found != spare_->by_capacity.end() && found->first <= kMostWaste * capacity) {
      capacity = found->first;
      memory = std::move(found->second);
      spare_->by_capacity.erase(found);
    }
  }
  if (!memory) memory = std::make_unique_for_overwrite<std::byte[]>(capacity);
  return {memory.release(), [spare = spare_, capacity](std::byte* used) {
            spare->put(std::unique_ptr<std::byte[]>(used), capacity);
          }};
}

void PartBuffers::Spare::put(std::unique_ptr<std::byte[]> memory, Bytes capacity) {
  std::unique_ptr<std::byte[]> dropped;
  const Lock lock(mutex);
  by_capacity.emplace(capacity, std::move(memory));
  if (by_capacity.size() <= kept) return;
  dropped = std::move(by_capacity.begin()->second);
  by_capacity.erase(by_capacity.begin());
}

}  // namespace gpemu::data
