// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/step/host_times.hpp"
#include "gpemu/step/phase_time.hpp"

namespace gpemu::step {

/// A recording that the operation model prices on one GPU.
///
/// Immutable. Thread safety: const members may be called concurrently.
class PricedRecording {
 public:
  enum PhaseIndex : std::uint8_t { kForwardPhase, kBackwardPhase };
  static constexpr int kPhases = 2;

  /// A host whose programs update parameters in lists asks for less than was recorded, if the
  /// recorded model has so many `parameters` (parameter_lists.hpp).
  ///
  /// Errors: kInvalidArgument for a recording without both phases.
  [[nodiscard]] static Result<PricedRecording> create(Recording recording,
                                                      const profile::GpuSpec& gpu,
                                                      std::uint64_t parameters);

  /// Returns a phase's times at a batch. Complexity: linear in its operations, some 100 us.
  [[nodiscard]] PhaseTimes phase(int index, int batch) const;

  /// Returns a phase's operations, in the order of phase(); they belong to this object. Operations
  /// for which this host does not ask are still among them, without any time.
  [[nodiscard]] std::vector<const RecordedOperation*> operations(int index) const;

 private:
  /// An operation, and the host's time to launch it.
  struct PricedLaunch {
    int operation = 0;
    double seconds = 0;
    bool dropped = false;  ///< in this host: it takes no time.
  };

  PricedRecording(Recording recording, const std::vector<Phase>& phases,
                  const profile::GpuSpec& gpu);
  void use_lists(std::uint64_t parameters, double seconds_per_tensor);

  Recording recording_;
  std::array<std::vector<PricedLaunch>, kPhases> phases_;
  cost::OperationCostModel model_;
  HostTimes host_;
};

}  // namespace gpemu::step
