// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/step/recorded_memory.hpp"

namespace gpemu::step {

/// Finds constant and slope of numbers at two or more batches; returns nothing unless both are
/// whole numbers.
[[nodiscard]] std::optional<AffineEntry> affine(std::span<const int> batches,
                                                std::span<const std::int64_t> values);

/// Memory that a program allocated or, with negative bytes, freed.
struct MemoryChange {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

/// The memory that a program held at a moment.
struct Moment {
  const std::vector<MemoryChange>* history = nullptr;  ///< of the process.
  std::size_t changes = 0;                             ///< how many changes came before.
  std::int64_t held = 0;                               ///< bytes.
};

/// The memory that a step held at one batch.
struct HeldMemory {
  std::vector<Moment> moments;  ///< one for each operation.
  Moment end;
};

/// Joins the memory that a step held at ascending batches, with the same number of moments at each.
/// Returns nothing if the tensors at the fullest moment of some batch are not a function of the
/// batch.
[[nodiscard]] std::optional<RecordedMemory> join_memory(std::span<const int> batches,
                                                        std::span<const HeldMemory> steps);

}  // namespace gpemu::step
