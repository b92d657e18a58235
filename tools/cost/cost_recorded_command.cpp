// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_recorded_command.hpp"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/step/host_times.hpp"
#include "gpemu/step/phase_time.hpp"

#include "cli/command.hpp"
#include "cost/recorded_gpus.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct RecordedOptions {
  std::string recordings;
  std::vector<std::string> gpus;
  std::vector<int> batches;
  bool as_json = false;
};

constexpr std::array kPhaseNames = {"forward", "backward"};

/// A phase of a model at a batch on a GPU, in ms.
struct PhaseCost {
  double device = 0;  ///< its operations alone.
  double with_host =
      0;  ///< with the launches and the wait of the host on which the GPU was calibrated.
};

/// `wait` is the host's time to start the phase and to notice its end, in seconds.
PhaseCost cost_of(const calibrate::JoinedRecordings& recorded, const step::Phase& phase, int batch,
                  const cost::OperationCostModel& model, const step::HostTimes& host, double wait) {
  step::PhaseTimes times{.wait = wait};
  for (const step::Launch& launch : phase) {
    const step::RecordedOperation& operation = recorded.operations[launch.operation];
    times.operations.push_back(to_seconds(model.price(operation.at(batch)).estimate.time));
    times.launches.push_back(host.launch(launch.host_cost));
  }
  const double device = std::accumulate(times.operations.begin(), times.operations.end(), 0.0);
  return {.device = 1e3 * device, .with_host = 1e3 * times.seconds()};
}

Result<void> tell(const RecordedOptions& options, const World& world) {
  GPEMU_ASSIGN(const calibrate::JoinedRecordings recorded,
               read_joined_recordings(options.recordings, options.batches));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  report::TextTable table({"GPU", "model", "batch", "phase", "device ms", "with its host ms"});
  OrderedJson rows = OrderedJson::array();
  for (const std::string& name : options.gpus) {
    GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(name));
    if (!spec.calibration) {
      return fail(ErrorCode::kUnsupported, "the GPU file of {} has no calibration", name);
    }
    const cost::OperationCostModel model(spec);
    const step::HostTimes host(spec);
    for (std::size_t i = 0; i < recorded.models.size(); ++i) {
      for (const int batch : options.batches) {
        OrderedJson row = {{"gpu", spec.name}, {"model", recorded.models[i]}, {"batch", batch}};
        for (std::size_t j = 0; j < kPhaseNames.size(); ++j) {
          const PhaseCost cost =
              cost_of(recorded, recorded.steps[i][j], batch, model, host, host.wait(j == 0));
          row[kPhaseNames.at(j)] = {{"device_ms", cost.device}, {"with_host_ms", cost.with_host}};
          table.add_row({spec.name, recorded.models[i], std::to_string(batch), kPhaseNames.at(j),
                         fmt::format("{:.3f}", cost.device),
                         fmt::format("{:.3f}", cost.with_host)});
        }
        rows.push_back(std::move(row));
      }
    }
  }
  report::print_out(
      "{}", options.as_json ? report::json_text(rows) : table.str(world.terminal().output_columns));
  return {};
}

}  // namespace

void add_cost_recorded_command(Command cost, const World& world) {
  Command command = cost.subcommand(
      "recorded",
      "Report the costs of recorded models on GPUs, according to the operation cost model");
  auto options = std::make_shared<RecordedOptions>();
  command
      .option("recordings", options->recordings,
              "Folder of recordings, e.g. evidence/packs/gpemu-vldb25/operations")
      .required();
  command.option("--gpu", options->gpus, "Kinds of GPU, e.g. V100-PCIE-32GB")
      .required()
      .separated_by(',');
  command.option("--batch", options->batches, "Batch sizes, e.g. 32,64")
      .required()
      .separated_by(',')
      .range(1, 1 << 20);
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "\"with its host\" adds the time of the host of the measured GPU, or of its substitute:\n"
      "launches for which the GPU waits, and the wait at the end of a phase.\n"
      "Example:\n"
      "  gpemu cost recorded evidence/packs/gpemu-vldb25/operations --gpu V100-PCIE-32GB --batch "
      "32,64");
  command.on_run([options, &world] { return tell(*options, world); });
}

}  // namespace gpemu::tools
