// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpemu/cost/operation_time.hpp"
#include "gpemu/cost/recording.hpp"

namespace gpemu::cost {

/// One operation of a phase, as the host asks for it.
struct Launch {
  int operation = 0;  ///< index among operations.
  int host_cost = 0;  ///< index of the parameter that tells what the host takes to launch it.
};

/// A part of a training step after which the host waits for the GPU, as a profiler does that
/// measures it: forward, or backward with the optimizer.
using Phase = std::vector<Launch>;

/// Returns which parameter tells what the host takes to launch an operation. `previous` is the
/// operation before it, or null.
[[nodiscard]] OperationParameter host_cost(const RecordedOperation& operation,
                                           const RecordedOperation* previous, bool forward);

/// Returns a training step's phases, forward and backward, whose operations are those of the
/// recording. Errors: kInvalidArgument for a recording without them.
[[nodiscard]] Result<std::vector<Phase>> step_phases(const Recording& recording);

/// Returns how long a phase takes, in seconds: the host launches one operation after the other, and
/// the GPU runs them in that order as soon as it has them. `launches` and `operations` have the
/// host's and the GPU's time of each. That is the longest of: the launches up to one, then the GPU
/// without a gap from that one on.
///
/// `critical`, when given, gets the index of the operation from which the GPU has no gap.
[[nodiscard]] double phase_seconds(std::span<const double> launches,
                                   std::span<const double> operations,
                                   std::size_t* critical = nullptr);

/// What a phase's times are multiplied with: the host's, and the device's.
struct PhaseScale {
  double host = 1;
  double device = 1;
};

/// A phase at one batch on one GPU, in seconds.
struct PhaseTimes {
  std::vector<double> launches;    ///< of the host, one for each operation.
  std::vector<double> operations;  ///< of the device.
  double wait = 0;                 ///< of the host, to begin the phase and to notice its end.

  /// Returns how long it takes with its parts scaled.
  [[nodiscard]] double seconds(const PhaseScale& scale = {}) const;
};

/// Returns the least change of both logarithms that has a phase take what was measured: each
/// changes in proportion to its share of the time, so that a phase which launches bound corrects
/// these, and one that the device bounds its operations. Requires: measured > 0.
[[nodiscard]] PhaseScale scale_to(const PhaseTimes& phase, double measured);

/// Returns how long a phase takes that was measured at a batch `doublings` from this one, above or
/// below, and has the scale_to() of that. Half of the change is the model's; the other half is
/// taken to be that batch's own, as where a library changes its algorithms, and halves with each
/// doubling. Meets what was measured where `doublings` is 0.
[[nodiscard]] double corrected_seconds(const PhaseTimes& phase, const PhaseScale& scale,
                                       double doublings);

}  // namespace gpemu::cost
