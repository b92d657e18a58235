// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cost/phase_time.hpp"

namespace gpemu::cost {

/// A recording that the operation model prices on one GPU.
///
/// Immutable. Thread safety: const members may be called concurrently.
class PricedRecording {
 public:
  enum PhaseIndex : std::uint8_t { kForwardPhase, kBackwardPhase };
  static constexpr int kPhases = 2;

  /// Errors: kInvalidArgument for a recording without both phases.
  [[nodiscard]] static Result<PricedRecording> create(Recording recording,
                                                      const profile::GpuSpec& gpu);

  /// Returns a phase's times at a batch. Complexity: linear in its operations, some 100 us.
  [[nodiscard]] PhaseTimes phase(int index, int batch) const;

  /// Returns a phase's operations, in the order of phase(); they belong to this object.
  [[nodiscard]] std::vector<const RecordedOperation*> operations(int index) const;

 private:
  PricedRecording(Recording recording, std::vector<Phase> phases, const profile::GpuSpec& gpu);

  Recording recording_;
  std::vector<Phase> phases_;
  OperationCostModel model_;
  profile::OperationParameters host_{};
};

}  // namespace gpemu::cost
