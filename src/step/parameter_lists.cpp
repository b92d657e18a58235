// SPDX-License-Identifier: Apache-2.0
#include "parameter_lists.hpp"

#include <algorithm>

namespace gpemu::step {
namespace {

/// Returns whether an operation is element-wise and the same at every batch.
bool is_constant(const RecordedOperation& operation) {
  return operation.kind == GPEMU_OPERATION_ELEMENTWISE && operation.shape[0].slope == 0 &&
         operation.shape[1].slope == 0;
}

/// Returns the elements that an operation writes without reading any, whatever the batch.
std::uint64_t cleared_elements(const RecordedOperation& operation) {
  const bool clears = is_constant(operation) && operation.shape[0].constant == 0;
  return clears ? static_cast<std::uint64_t>(operation.shape[1].constant) : 0;
}

/// Marks the first operations whose elements, by `elements`, are `wanted` in all, and returns the
/// index after the last of them; 0 if there are none.
template <typename Elements>
std::size_t mark(std::span<const RecordedOperation* const> phase, std::uint64_t wanted,
                 Elements elements, std::vector<bool>& marked) {
  std::vector<bool> found = marked;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < phase.size() && sum < wanted; ++i) {
    const std::uint64_t own = elements(*phase[i]);
    if (own == 0) continue;
    sum += own;
    found[i] = true;
    if (sum != wanted) continue;
    marked = std::move(found);
    return i + 1;
  }
  return 0;
}

}  // namespace

/// It reads both and writes the sum, whatever the batch. Source: AccumulateGrad in PyTorch, when
/// gradients are set to zero between steps, as the recorded programs do.
std::uint64_t gradient_elements(const RecordedOperation& operation) {
  const AffineEntry& read = operation.shape[0];
  const AffineEntry& written = operation.shape[1];
  const bool adds = is_constant(operation) && read.constant == 2 * written.constant;
  return adds ? static_cast<std::uint64_t>(written.constant) : 0;
}

std::optional<ListedPhase> in_lists(std::span<const RecordedOperation* const> phase,
                                    std::uint64_t parameters) {
  ListedPhase listed;
  listed.dropped.resize(phase.size());
  const std::size_t optimizer = mark(phase, parameters, gradient_elements, listed.dropped);
  if (optimizer == 0) return std::nullopt;
  listed.tensors = static_cast<std::size_t>(std::ranges::count(listed.dropped, true));
  const std::span updates = phase.subspan(optimizer);
  if (updates.empty() || updates.size() % listed.tensors != 0) return std::nullopt;
  const std::size_t passes = updates.size() / listed.tensors;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const RecordedOperation& update = *updates[i];
    if (!is_constant(update)) return std::nullopt;
    if (i < passes) {
      listed.passes.push_back(update);
      continue;
    }
    RecordedOperation& pass = listed.passes[i % passes];
    pass.shape[0].constant += update.shape[0].constant;
    pass.shape[1].constant += update.shape[1].constant;
  }
  const bool complete = std::ranges::all_of(listed.passes, [&](const RecordedOperation& pass) {
    return static_cast<std::uint64_t>(pass.shape[1].constant) == parameters;
  });
  if (!complete) return std::nullopt;
  mark(phase.first(optimizer), parameters, cleared_elements, listed.dropped);
  listed.dropped.resize(optimizer);
  return listed;
}

}  // namespace gpemu::step
