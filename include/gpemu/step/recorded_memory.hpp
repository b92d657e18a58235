// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::step {

/// A number of a recording as a function of the batch: constant + slope * batch.
struct AffineEntry {
  std::int64_t constant = 0;
  std::int64_t slope = 0;

  [[nodiscard]] std::int64_t at(std::int64_t batch) const { return constant + slope * batch; }
  friend bool operator==(const AffineEntry&, const AffineEntry&) = default;
};

/// Tensors of one size that exist at the same time.
struct TensorGroup {
  std::int64_t count = 0;
  AffineEntry bytes;  ///< of each.

  friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
};

/// The tensors that a recorded step holds, for any batch.
struct RecordedMemory {
  /// At each moment that is the fullest for some batch, with ascending batches.
  std::vector<std::vector<TensorGroup>> fullest;
  std::vector<TensorGroup> after;  ///< when the step is done.

  friend bool operator==(const RecordedMemory&, const RecordedMemory&) = default;
};

/// The memory that PyTorch's allocator counts as allocated, without context and workspaces.
struct AllocatedMemory {
  Bytes peak = 0;        ///< most during a step.
  Bytes persistent = 0;  ///< between steps.
};

/// Returns how many bytes PyTorch's caching allocator counts for a tensor with its own memory.
[[nodiscard]] Bytes allocated_bytes(Bytes bytes);

/// Returns the memory of a recorded step at a batch, with each tensor as allocated_bytes() counts
/// it. Requires: batch >= 1.
[[nodiscard]] AllocatedMemory allocated_at(const RecordedMemory& memory, std::int64_t batch);

}  // namespace gpemu::step
