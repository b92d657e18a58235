// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/cost/recorded_memory.hpp"

namespace gpemu::cost {

/// Finds constant and slope of numbers at batches, two or more; nothing when they have none that
/// are whole.
[[nodiscard]] std::optional<AffineEntry> affine(std::span<const int> batches,
                                                std::span<const std::int64_t> values);

/// Memory that a program took; negative bytes: gave back.
struct MemoryChange {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

/// What a program held at a moment.
struct Moment {
  const std::vector<MemoryChange>* history = nullptr;  ///< of the process.
  std::size_t changes = 0;                             ///< how many of them came before.
  std::int64_t held = 0;                               ///< bytes.
};

/// What a step held at one batch.
struct HeldMemory {
  std::vector<Moment> moments;  ///< one for each operation.
  Moment end;
};

/// Joins what a step held at ascending batches: as many moments at each. Nothing where the tensors
/// of a moment that is the fullest at some batch are no function of the batch.
[[nodiscard]] std::optional<RecordedMemory> join_memory(std::span<const int> batches,
                                                        std::span<const HeldMemory> steps);

}  // namespace gpemu::cost
