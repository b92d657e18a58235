// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/step/recording.hpp"
#include "gpemu/step/step_cost.hpp"

#include "cli/command_line.hpp"
#include "cost/cost_collectives_command.hpp"
#include "cost/cost_eval_command.hpp"
#include "cost/cost_fit_command.hpp"
#include "cost/cost_pairs_command.hpp"
#include "cost/cost_recorded_command.hpp"
#include "cost/cost_transformer_command.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct CostOptions {
  std::string gpu;
  std::string model;
  std::string precision;
  std::string host;
  std::vector<int> batches;
  bool as_json = false;
};

/// The cost of one batch size, or why there is none.
struct CostRow {
  int batch = 0;
  Result<step::StepCost> cost;
};

json describe(const cost::Estimate& estimate) {
  return {{"ms", to_milliseconds(estimate.time)},
          {"evidence", cost::evidence_name(estimate.evidence)},
          {"relative_error", estimate.relative_error}};
}

json describe(const CostRow& row) {
  if (!row.cost)
    return {{"batch", row.batch}, {"fits", false}, {"reason", row.cost.error().message}};
  const step::StepCost& cost = *row.cost;
  return {{"batch", row.batch},
          {"fits", true},
          {"forward", describe(cost.forward)},
          {"backward_optimizer", describe(cost.backward_optimizer)},
          {"copy_pinned", describe(cost.copy_pinned)},
          {"copy_pageable", describe(cost.copy_pageable)},
          {"memory",
           {{"peak_mib", to_mib(cost.memory.peak)},
            {"persistent_mib", to_mib(cost.memory.persistent)},
            {"reserved_mib", to_mib(cost.memory.reserved)},
            {"evidence", cost::evidence_name(cost.memory.evidence)},
            {"relative_error", cost.memory.relative_error}}}};
}

void print_json(const step::StepCostModel& model, const std::vector<CostRow>& rows,
                const World& world) {
  json costs = json::array();
  for (const CostRow& row : rows) costs.push_back(describe(row));
  nlohmann::ordered_json document = {{"format", "gpemu-cost-1"}};
  report::add_provenance(document, report::provenance_at(world.time_of_day()));
  document["gpu"] = model.gpu().name;
  document["model"] = model.model().name;
  document["precision"] = model.precision();
  document["parameters"] = model.model().parameters;
  document["capacity_mib"] = to_mib(model.gpu().memory_bytes);
  document["largest_batch"] = model.largest_batch();
  document["costs"] = costs;
  report::print_out("{}", report::json_text(document));
}

std::string cell(const cost::Estimate& estimate) {
  return fmt::format("{:.3f}", to_milliseconds(estimate.time));
}

std::vector<std::string> cells(const CostRow& row) {
  if (!row.cost) return {std::to_string(row.batch), "-", "-", "-", "-", "-", "-", "no", "-", "-"};
  const step::StepCost& cost = *row.cost;
  const cost::Evidence weaker = std::max(cost.forward.evidence, cost.backward_optimizer.evidence);
  return {std::to_string(row.batch),
          cell(cost.forward),
          cell(cost.backward_optimizer),
          fmt::format("{:.1f}%", 100 * cost.compute_relative_error()),
          cell(cost.copy_pinned),
          cell(cost.copy_pageable),
          fmt::format("{:.0f}", to_mib(cost.memory.peak)),
          "yes",
          std::string(cost::evidence_name(weaker)),
          std::string(cost::evidence_name(cost.memory.evidence))};
}

void print_table(const step::StepCostModel& model, const std::vector<CostRow>& rows,
                 const World& world) {
  report::print_out("{} on {} at {}: fits up to batch {}\n\n", model.model().name, model.gpu().name,
                    model.precision(), model.largest_batch());
  report::TextTable table({"batch", "forward ms", "backward+optimizer ms",
                           std::string(world.terminal().plus_minus()), "pinned copy ms",
                           "pageable copy ms", "peak MiB", "fits", "times are", "memory is"});
  for (const CostRow& row : rows) table.add_row(cells(row));
  report::print_out("{}", table.str(world.terminal().output_columns));
}

Result<void> tell_cost(const CostOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const step::StepCostModel model,
               step::StepCostModel::create(database, options.model, options.gpu, options.precision,
                                           options.host));
  std::vector<CostRow> rows;
  rows.reserve(options.batches.size());
  for (const int batch : options.batches) rows.push_back({batch, model.step(batch)});
  if (options.as_json) {
    print_json(model, rows, world);
  } else {
    print_table(model, rows, world);
  }
  const auto fits = [](const CostRow& row) { return row.cost.has_value(); };
  if (std::ranges::none_of(rows, fits)) return std::unexpected(rows.front().cost.error());
  return {};
}

struct CondenseOptions {
  std::vector<std::string> files;
  std::string folder;
};

Result<void> write_recordings(const CondenseOptions& options) {
  GPEMU_ASSIGN(const std::vector<step::Recording> recordings,
               step::condense({options.files.begin(), options.files.end()}));
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    return fail(ErrorCode::kIo, "cannot create {}: {}", options.folder, error.message());
  }
  for (const step::Recording& recording : recordings) {
    const auto path = std::filesystem::path(options.folder) / (recording.model + ".json");
    GPEMU_TRY(write_file_atomically(path, step::write_recording(recording)));
    report::print_out(
        "{}: {} operations, {} of them different; {}\n", path.string(),
        std::transform_reduce(
            recording.phases.begin(), recording.phases.end(), std::size_t{0}, std::plus<>(),
            [](const step::RecordedPhase& phase) { return phase.operations.size(); }),
        recording.operations.size(),
        recording.memory ? "memory" : "no memory: it cannot be derived from the batch size");
  }
  return {};
}

void add_condense_command(Command app) {
  Command command = app.subcommand(
      "condense", "Make recordings of models, for any batch, from files of `gpemu run --ops`");
  auto options = std::make_shared<CondenseOptions>();
  command.option("files", options->files, "Files of operations").required();
  command.option("--output", options->folder, "Folder in which to write one file per model")
      .placeholder("FOLDER")
      .required();
  command.notes(
      "Only operations in NVTX ranges \"MODEL batch=BATCH PHASE\" count; give three batch sizes\n"
      "or more.\n"
      "Example:\n"
      "  gpemu cost condense resnet50.ops --output recordings");
  command.on_run([options] { return write_recordings(*options); });
}

}  // namespace

void add_cost_command(Command app, const World& world) {
  Command command =
      app.subcommand("cost", "Report the time and memory of a training step, and its evidence");
  auto options = std::make_shared<CostOptions>();
  command.option("--gpu", options->gpu, "Kind of GPU, e.g. V100-PCIE-32GB");
  command.option("--model", options->model, "Model, e.g. resnet50");
  command.option("--batch", options->batches, "Batch sizes, e.g. 32,64,128")
      .separated_by(',')
      .range(1, 1 << 20);
  command.option("--precision", options->precision, "Precision, e.g. fp32; default: as measured");
  command
      .option(
          "--host-of", options->host,
          "The GPU in whose host launch times were measured, e.g. H200-SXM-141GB (a host of "
          "2025 with PyTorch 2.11); default: that of the GPU's own measurements, or of its time")
      .placeholder("GPU");
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "An error bar of 10 % means that in 9 of 10 cases the truth is between time / 1.1 and\n"
      "time x 1.1. The exit code is 4, out of memory, if none of the batches fits.\n"
      "Examples:\n"
      "  gpemu cost --gpu V100-PCIE-32GB --model resnet50 --batch 64\n"
      "  gpemu cost --gpu A100-SXM4-40GB --model vgg16 --batch 32,64,128,256 --json\n"
      "  gpemu cost --gpu A100-SXM4-40GB --host-of H200-SXM-141GB --model resnet50 --batch 8");
  add_condense_command(command);
  add_cost_fit_command(command, world);
  add_cost_eval_command(command, world);
  add_cost_recorded_command(command, world);
  add_cost_collectives_command(command, world);
  add_cost_transformer_command(command, world);
  add_cost_pairs_command(command, world);
  command.options_exclude_subcommands();
  command.on_run([command, options, &world]() -> Result<void> {
    for (const char* const option : {"--gpu", "--model", "--batch"}) {
      if (!command.given(option)) {
        return fail(ErrorCode::kInvalidArgument, "{} is required", option);
      }
    }
    return tell_cost(*options, world);
  });
}

}  // namespace gpemu::tools
