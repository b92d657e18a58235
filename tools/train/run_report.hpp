// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/units.hpp"
#include "gpemu/profile/fault_plan.hpp"
#include "gpemu/report/colour.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/train/trainer.hpp"

#include "train/node_data.hpp"
#include "train/run_options.hpp"
#include "train/service_data.hpp"

namespace gpemu::tools {

/// The data that a run with a data path read.
struct DataFacts {
  std::size_t images = 0;
  Bytes bytes = 0;
  std::vector<std::string> corrupt_files;  ///< the first few.
  Bytes not_locked = 0;                    ///< of pinned buffers, beyond the user's limit.
  std::string format = "folder";           ///< empty: only remote workers know it.
  std::optional<StorageFacts> storage;     ///< of the described device, if there is one.
  int described_cores = 0;                 ///< of all described hosts; 0 without.
  std::optional<NodeFacts> nodes;          ///< of a run with a cache, or several nodes.
  std::optional<ServiceFacts> service;     ///< of a run with remote workers.
};

/// Everything that is reported about a run of `gpemu train`.
struct RunReport {
  RunOptions options;
  std::string gpu;
  std::string model;
  std::string precision;
  train::StepPlan plan;
  train::TrainResult result;
  std::vector<profile::Fault> faults;  ///< of the node.
  std::optional<DataFacts> data;
  report::Provenance provenance;
  Duration loop_cpu{};                           ///< CPU time of the training loop's thread.
  Duration spun{};                               ///< of it, spent spinning for deadlines.
  std::vector<train::ObservedStep> first_steps;  ///< for the plot of the pipeline.
};

/// One part of the time breakdown.
struct TimePart {
  std::string_view key;    ///< in JSON.
  std::string_view label;  ///< for people.
  Duration train::TimeBreakdown::* time;
  report::Colour colour;
};
inline constexpr std::array<TimePart, 6> kTimeParts = {{
    {"compute", "compute", &train::TimeBreakdown::compute, report::Colour::kCompute},
    {"communication", "communication", &train::TimeBreakdown::communication,
     report::Colour::kOthers},
    {"copy", "copy", &train::TimeBreakdown::copy, report::Colour::kCopy},
    {"fetch_wait", "waiting for storage", &train::TimeBreakdown::fetch_wait,
     report::Colour::kHostWait},
    {"prep_wait", "waiting for preprocessing", &train::TimeBreakdown::prep_wait,
     report::Colour::kHostWork},
    {"other", "other", &train::TimeBreakdown::other, report::Colour::kUnknown},
}};

/// Returns the GPUs of a run, e.g. "16 x V100-SXM2-32GB in 2 nodes, ddp".
[[nodiscard]] std::string gpus_text(const GpuOptions& options, std::string_view gpu);

/// Returns `part` as a share of `whole`; zero if `whole` is zero.
[[nodiscard]] double share(Duration part, Duration whole);

/// Returns how long a step takes by the plan if nothing is late. `copied`: batches come from the
/// host.
[[nodiscard]] Duration planned_step(const train::StepPlan& plan, const GpuOptions& options,
                                    bool copied);

/// Returns which data a run read, e.g. "photos", or "imagenette-87k on the host dgx-1".
[[nodiscard]] std::string data_text(const RunOptions& options);

/// Returns the evidence of the emulated time, e.g. "97.2 % measured, 2.8 % analytic".
[[nodiscard]] std::string evidence_text(const train::TrainResult& result);

/// Returns how far off the percentiles of a run's steps may be, as text that follows them; empty if
/// they are exact.
[[nodiscard]] std::string sketch_text(const train::TrainResult& result);

/// Returns what a fault that ended a run did, e.g. "GPU 2 was killed at 10.000 s". Requires: one
/// did.
[[nodiscard]] std::string failure_text(const train::TrainResult& result);

/// Returns what limits the run after its first step, and what to do about it, in one sentence.
[[nodiscard]] std::string run_verdict(const RunReport& report);

/// Returns the result for the terminal.
[[nodiscard]] std::string run_text(const RunReport& report, const report::Terminal& terminal);

/// Returns the result in the format of docs/reference/results-format.md.
[[nodiscard]] nlohmann::ordered_json run_json(const RunReport& report);

/// Parts that `analyze` has as well.
[[nodiscard]] nlohmann::ordered_json gpu_options_json(const GpuOptions& options);
[[nodiscard]] nlohmann::ordered_json data_options_json(const RunOptions& options);
[[nodiscard]] nlohmann::ordered_json planned_step_json(const train::StepPlan& plan,
                                                       const GpuOptions& options, bool copied);

}  // namespace gpemu::tools
