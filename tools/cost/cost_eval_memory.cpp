// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_eval_memory.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/calibrate/joined_recordings.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/step/step_cost.hpp"

namespace gpemu::tools {
namespace {

/// A step whose memory was measured.
struct MemoryStep {
  std::string gpu;
  std::string model;
  int batch = 0;
  double measured_mib = 0;
  double predicted_mib = 0;

  [[nodiscard]] double error() const { return predicted_mib / measured_mib - 1; }
};

/// Returns the steps of a recording that were measured on a GPU, or lie between measured batches.
Result<std::vector<MemoryStep>> measured_memory(const step::Recording& recording,
                                                const profile::Database& database,
                                                const std::string& gpu) {
  std::vector<MemoryStep> steps;
  if (!recording.memory) return steps;
  GPEMU_ASSIGN(const auto precisions, database.precisions(recording.model, gpu));
  if (precisions.empty()) return steps;
  GPEMU_ASSIGN(const auto model,
               step::StepCostModel::create(database, recording.model, gpu, precisions.front()));
  for (const int batch : calibrate::kBatches) {
    const Result<step::StepCost> step = model.step(batch);
    if (!step || step->memory.evidence > cost::Evidence::kInterpolated) continue;
    steps.push_back({.gpu = gpu,
                     .model = recording.model,
                     .batch = batch,
                     .measured_mib = to_mib(step->memory.peak),
                     .predicted_mib = to_mib(allocated_at(*recording.memory, batch).peak)});
  }
  return steps;
}

/// Adds a row for the steps of one GPU. Requires: there are some.
void add_row(report::TextTable& table, std::vector<MemoryStep> steps) {
  double size = 0, bias = 0;
  for (const MemoryStep& step : steps) {
    size += std::abs(step.error());
    bias += step.error();
  }
  std::ranges::sort(steps, {}, [](const MemoryStep& step) { return std::abs(step.error()); });
  const auto count = static_cast<double>(steps.size());
  const MemoryStep& worst = steps.back();
  table.add_row({worst.gpu, std::to_string(steps.size()), report::percent(size / count, 2),
                 report::percent(std::abs(steps[steps.size() / 2].error()), 2),
                 fmt::format("{:+.2f}", 100 * worst.error()),
                 fmt::format("{} at {}", worst.model, worst.batch),
                 fmt::format("{:+.2f}", 100 * bias / count)});
}

void print_json(const std::vector<std::vector<MemoryStep>>& by_gpu) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& steps : by_gpu) {
    for (const MemoryStep& step : steps) {
      rows.push_back({{"gpu", step.gpu},
                      {"model", step.model},
                      {"batch", step.batch},
                      {"measured_mib", step.measured_mib},
                      {"predicted_mib", step.predicted_mib},
                      {"error", step.error()}});
    }
  }
  report::print_out("{}", report::json_text(rows));
}

}  // namespace

Result<void> evaluate_memory(std::span<const step::Recording> recordings,
                             const profile::Database& database, bool as_json, const World& world) {
  GPEMU_ASSIGN(const std::vector<std::string> gpus, database.gpu_names());
  std::vector<std::vector<MemoryStep>> by_gpu;
  for (const std::string& gpu : gpus) {
    std::vector<MemoryStep> of_gpu;
    for (const step::Recording& recording : recordings) {
      GPEMU_ASSIGN(const std::vector<MemoryStep> steps, measured_memory(recording, database, gpu));
      of_gpu.insert(of_gpu.end(), steps.begin(), steps.end());
    }
    if (!of_gpu.empty()) by_gpu.push_back(std::move(of_gpu));
  }
  if (by_gpu.empty()) {
    return fail(ErrorCode::kNotFound, "no recording has memory that is both known and measured");
  }
  if (as_json) {
    print_json(by_gpu);
    return {};
  }
  report::TextTable table({"gpu", "steps", "mean %", "median", "worst", "which is", "bias"});
  for (auto& steps : by_gpu) add_row(table, std::move(steps));
  report::print_out("peak memory\n{}", table.str(world.terminal().output_columns));
  return {};
}

}  // namespace gpemu::tools
