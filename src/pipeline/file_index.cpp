// SPDX-License-Identifier: Apache-2.0
#include "file_index.hpp"

#include <utility>

namespace gpemu::pipeline {

std::size_t FileIndex::slot_of(std::uint32_t file) const {
  std::size_t slot = first_slot_of(file);
  while (slots_[slot].place != kNone && slots_[slot].file != file) slot = after(slot);
  return slot;
}

void FileIndex::put(std::uint32_t file, std::uint32_t place) {
  std::size_t slot = slot_of(file);
  if (slots_[slot].place == kNone && 2 * ++used_ > slots_.size()) {
    grow();
    slot = slot_of(file);
  }
  slots_[slot] = {.file = file, .place = place};
}

void FileIndex::erase(std::uint32_t file) {
  std::size_t hole = slot_of(file);
  // What follows moves up if it may stand there, so that no search ends too early.
  for (std::size_t slot = after(hole); slots_[slot].place != kNone; slot = after(slot)) {
    const std::size_t first = first_slot_of(slots_[slot].file);
    const std::size_t mask = slots_.size() - 1;
    if (((slot - first) & mask) < ((slot - hole) & mask)) continue;
    slots_[hole] = slots_[slot];
    hole = slot;
  }
  slots_[hole].place = kNone;
  --used_;
}

void FileIndex::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  --shift_;
  for (const Slot& slot : old) {
    if (slot.place != kNone) slots_[slot_of(slot.file)] = slot;
  }
}

}  // namespace gpemu::pipeline
