// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/predict/step_prediction.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/program_run.hpp"

namespace gpemu::tools {

/// The prediction for a job on a number of GPUs.
struct ScalingAnswer {
  int gpus = 1;
  int machines = 1;
  std::shared_ptr<const run::ProgramRun> program_run;  ///< of rank 0.
  predict::ParallelStep step;
};

/// The answers for one kind of GPU at one batch per GPU.
struct ScalingCurve {
  profile::GpuSpec gpu;
  int batch = 0;                       ///< per GPU; 0: not known.
  std::vector<ScalingAnswer> answers;  ///< the first one is that of one GPU.
};

/// A value with the interval in which it lies.
struct Interval {
  double value = 0, low = 0, high = 0;
};

/// Returns the step's time on one GPU divided by that on so many.
[[nodiscard]] Interval efficiency_of(const ScalingCurve& curve, const ScalingAnswer& answer);

/// Returns the price of collectives of `gpus` ranks: on GPUs of one kind without a machine, or on
/// the first ones of as many machines as are needed.
///
/// Errors: kInvalidArgument for numbers of GPUs that machines cannot have equally, kUnsupported for
/// several machines without adapters.
[[nodiscard]] Result<predict::PriceCollective> prices_of(const profile::GpuSpec& gpu,
                                                         const profile::TopologySpec* machine,
                                                         int gpus);
/// Returns the number of machines that so many GPUs need.
[[nodiscard]] int machines_for(const profile::TopologySpec* machine, int gpus);

struct ScalingReport {
  std::vector<std::string> words;  ///< the program.
  std::string topology;            ///< name of the machine, empty if none is described.
  report::Provenance provenance;
  std::vector<ScalingCurve> curves;
};

/// Returns the answers as a table.
[[nodiscard]] std::string scaling_text(const ScalingReport& report,
                                       const report::Terminal& terminal);
/// Returns the answers as JSON; docs/reference/results-format.md.
[[nodiscard]] nlohmann::ordered_json scaling_json(const ScalingReport& report);
/// Returns a plot of the speed-ups.
[[nodiscard]] report::LinePlot scaling_plot(const ScalingReport& report);
/// Returns the answers as a self-contained page with that plot.
[[nodiscard]] std::string scaling_page(const ScalingReport& report);

}  // namespace gpemu::tools
