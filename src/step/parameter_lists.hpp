// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/step/recording.hpp"

namespace gpemu::step {

/// Returns the elements of the gradient that an operation adds to that of earlier batches; 0 for
/// any other operation.
[[nodiscard]] std::uint64_t gradient_elements(const RecordedOperation& operation);

/// A recorded phase of the backward pass and the optimizer, as a framework asks for it that drops
/// gradients between steps, and whose optimizer handles lists of tensors. PyTorch has done both by
/// default since 2.0; the recorded programs zero gradients, add to them, and update one tensor
/// after the other, as programs of 2021 did.
struct ListedPhase {
  /// Of the phase's operations before the optimizer: those that clear gradients or add to them,
  /// which nobody asks for.
  std::vector<bool> dropped;
  /// What the optimizer asks for: each a pass over all parameters. PyTorch divides a list among a
  /// few kernels, which take as long together.
  std::vector<RecordedOperation> passes;
  std::size_t tensors = 0;  ///< that the optimizer handles.
};

/// Returns a phase in lists; nothing if its operations are not those of a program that adds to the
/// gradients of so many parameters and then updates each tensor with the same operations.
[[nodiscard]] std::optional<ListedPhase> in_lists(std::span<const RecordedOperation* const> phase,
                                                  std::uint64_t parameters);

}  // namespace gpemu::step
