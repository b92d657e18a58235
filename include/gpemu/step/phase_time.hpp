// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/cost/operation_time.hpp"
#include "gpemu/step/recording.hpp"

namespace gpemu::step {

/// One operation of a phase, as the host asks for it.
struct Launch {
  int operation = 0;  ///< index among operations.
  int host_cost = 0;  ///< index of the parameter with the host's time to launch it.
};

/// A part of a training step at whose end the host waits for the GPU, as a profiler that measures
/// it does: forward, or backward with the optimizer.
using Phase = std::vector<Launch>;

/// Returns the phases of a recorded training step, forward and backward. Errors: kInvalidArgument
/// for a recording without them.
[[nodiscard]] Result<std::vector<Phase>> step_phases(const Recording& recording);

/// Returns how long a phase takes, in seconds: the host launches one operation after the other, and
/// the GPU runs them in that order as soon as it has them. `launches` and `operations` have the
/// host's and the GPU's time of each. The result is the maximum, over all operations, of the
/// launches up to that operation plus the GPU's time from it on without a gap.
///
/// `critical`, if given, gets the index of the operation from which on the GPU has no gap.
[[nodiscard]] double phase_seconds(std::span<const double> launches,
                                   std::span<const double> operations,
                                   std::size_t* critical = nullptr);

/// Factors for a phase's times: the host's, and the device's.
struct PhaseScale {
  double host = 1;
  double device = 1;
};

/// A phase at one batch on one GPU, in seconds.
struct PhaseTimes {
  std::vector<double> launches;    ///< of the host, one for each operation.
  std::vector<double> operations;  ///< of the device.
  double wait = 0;                 ///< of the host, to start the phase and to notice its end.

  /// Returns how long the phase takes with its parts scaled.
  [[nodiscard]] double seconds(const PhaseScale& scale = {}) const;
};

/// Returns the smallest change of both logarithms with which a phase takes the measured time. Each
/// changes in proportion to its share of the time: a phase limited by launches corrects the
/// launches, one limited by the device the operations. Requires: measured > 0.
[[nodiscard]] PhaseScale scale_to(const PhaseTimes& phase, double measured);

/// Returns how long a phase takes, given the scale_to() of a measured batch that is `doublings`
/// away, above or below. Half of the change is taken to be the model's error; the other half is
/// taken to be particular to that batch, for example because the library changes its algorithm, and
/// halves with each doubling. With 0 doublings, the result is the measured time.
[[nodiscard]] double corrected_seconds(const PhaseTimes& phase, const PhaseScale& scale,
                                       double doublings);

}  // namespace gpemu::step
