// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_published.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/calibrate/published.hpp"
#include "gpemu/profile/calibration_file.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/step/published_steps.hpp"

namespace gpemu::tools {
namespace {

using calibrate::PublishedAnswer;
using step::PublishedStep;

/// A step on one GPU, and the groups to which it belongs.
struct PublishedRow {
  const PublishedStep* step = nullptr;
  PublishedAnswer answer;
};

std::string phase_of(const PublishedStep& step) {
  if (step.is_operation) return "operation";
  return step.training ? "training" : "inference";
}

/// Whether a step takes no part in any fit. Single operations belong to no family.
bool is_held_out(const PublishedStep& step) {
  return !step.is_operation && calibrate::is_held_out(calibrate::published_family(step.model));
}

/// E.g. "matmul bf16" for an operation of 4096 x 4096.
std::string operation_of(const PublishedStep& step) {
  return fmt::format("{} {}", step.model.substr(0, step.model.find(' ')), step.precision);
}

std::string split_of(const PublishedStep& step) {
  return fmt::format("{} {}", phase_of(step), is_held_out(step) ? "held out" : "fitted");
}

std::string arithmetic_of(const PublishedStep& step) {
  return fmt::format("{} {}{}{}", phase_of(step), step.precision, step.layout.empty() ? "" : " ",
                     step.layout);
}

/// The groups that the report has a table for.
struct Grouping {
  const char* name;
  std::string (*of)(const PublishedRow& row);
};
constexpr std::array kGroupings = {
    Grouping{"split", [](const PublishedRow& row) { return split_of(*row.step); }},
    Grouping{"source",
             [](const PublishedRow& row) {
               return fmt::format("{} {}", row.step->source, phase_of(*row.step));
             }},
    Grouping{"gpu", [](const PublishedRow& row) { return row.answer.gpu; }},
    Grouping{"arithmetic", [](const PublishedRow& row) { return arithmetic_of(*row.step); }},
    Grouping{"family", [](const PublishedRow& row) {
               return row.step->is_operation
                          ? operation_of(*row.step)
                          : std::string(calibrate::published_family(row.step->model));
             }}};

std::filesystem::path gpus_in(const std::string& folder) {
  return std::filesystem::path(folder) / "gpus";
}

Result<std::vector<PublishedStep>> read_steps(const std::string& folder) {
  return step::read_published_steps(std::filesystem::path(folder) / "operations");
}

/// Returns a GPU of the steps in a folder: one that the folder describes, or one of the database's.
Result<profile::GpuSpec> gpu_of(const std::string& folder, std::string_view name,
                                const profile::Database& database) {
  const std::filesystem::path file = gpus_in(folder) / fmt::format("{}.toml", name);
  std::error_code error;
  const bool is_there = std::filesystem::exists(file, error);
  return database.gpu(is_there ? file.string() : std::string(name));
}

Result<std::vector<PublishedRow>> answers(const std::vector<PublishedStep>& steps,
                                          const std::string& folder, bool gpu_out,
                                          const profile::Database& database) {
  std::map<std::string, profile::GpuSpec> gpus;
  std::vector<PublishedRow> rows;
  for (const PublishedStep& step : steps) {
    for (const auto& [gpu, seconds] : step.seconds) {
      if (!gpus.contains(gpu)) {
        GPEMU_ASSIGN(profile::GpuSpec spec, gpu_of(folder, gpu, database));
        if (gpu_out) {
          GPEMU_ASSIGN(spec,
                       calibrate::without_own_steps(std::move(spec), [&](std::string_view name) {
                         return gpu_of(folder, name, database);
                       }));
        }
        gpus.emplace(gpu, std::move(spec));
      }
      PublishedRow& row = rows.emplace_back(
          PublishedRow{.step = &step, .answer = calibrate::predict_published(step, gpus.at(gpu))});
      row.answer.gpu = gpu;
      row.answer.measured_seconds = seconds;
    }
  }
  return rows;
}

void add_row(report::TextTable& table, const std::string& name,
             const std::vector<const PublishedRow*>& rows) {
  const auto count = static_cast<double>(rows.size());
  double mean = 0, bias = 0, bar = 0, within = 0;
  std::vector<double> sizes;
  for (const PublishedRow* const row : rows) {
    sizes.push_back(std::abs(row->answer.error()));
    mean += sizes.back() / count;
    bias += row->answer.error() / count;
    bar += row->answer.bar / count;
    within += (row->answer.miss() <= row->answer.bar ? 1 : 0) / count;
  }
  std::ranges::sort(sizes);
  table.add_row({name, std::to_string(rows.size()), report::percent(mean, 1),
                 report::percent(sizes[sizes.size() / 2], 1),
                 report::percent(sizes[sizes.size() * 9 / 10], 1), report::percent(sizes.back(), 1),
                 fmt::format("{:+.1f}", 100 * bias), report::percent(bar, 1),
                 report::percent(within, 1)});
}

void print_tables(const std::vector<PublishedRow>& rows, const World& world) {
  for (const Grouping& grouping : kGroupings) {
    std::map<std::string, std::vector<const PublishedRow*>> groups;
    for (const PublishedRow& row : rows) groups[grouping.of(row)].push_back(&row);
    report::TextTable table({grouping.name, "steps", "mean %", "median", "90th", "worst", "bias",
                             fmt::format("{} bar", world.terminal().plus_minus()), "within"});
    for (const auto& [name, of_group] : groups) add_row(table, name, of_group);
    report::print_out("{}\n", table.str(world.terminal().output_columns));
  }
}

void print_json(const std::vector<PublishedRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const PublishedRow& row : rows) {
    list.push_back({{"source", row.step->source},
                    {"model", row.step->model},
                    {"gpu", row.answer.gpu},
                    {"precision", row.step->precision},
                    {"layout", row.step->layout},
                    {"phase", phase_of(*row.step)},
                    {"batch", row.step->batch},
                    {"size", row.step->size},
                    {"split", split_of(*row.step)},
                    {"measured_ms", 1e3 * row.answer.measured_seconds},
                    {"predicted_ms", 1e3 * row.answer.predicted_seconds},
                    {"parts", row.answer.parts},
                    {"host_share", row.answer.host_share},
                    {"busy_share", row.answer.busy_share},
                    {"error", row.answer.error()},
                    {"bar", row.answer.bar}});
  }
  report::print_out("{}", report::json_text(list));
}

}  // namespace

Result<void> evaluate_published(const std::string& folder, const profile::Database& database,
                                bool gpu_out, bool as_json, const World& world) {
  GPEMU_ASSIGN(const std::vector<PublishedStep> steps, read_steps(folder));
  GPEMU_ASSIGN(const std::vector<PublishedRow> rows, answers(steps, folder, gpu_out, database));
  if (as_json) {
    print_json(rows);
  } else {
    print_tables(rows, world);
  }
  return {};
}

Result<void> fit_published(const std::string& folder, const std::string& gpu_name,
                           const profile::Database& database, const std::string& gpus_folder,
                           const World& world) {
  GPEMU_ASSIGN(const std::vector<PublishedStep> steps, read_steps(folder));
  GPEMU_ASSIGN(profile::GpuSpec gpu, gpu_of(folder, gpu_name, database));
  GPEMU_ASSIGN(const profile::GpuSpec start_gpu,
               calibrate::start_of_fit(
                   gpu, [&](std::string_view name) { return gpu_of(folder, name, database); }));
  const profile::Calibration& start = *start_gpu.calibration;
  const auto chosen = [](const PublishedStep& step) { return !is_held_out(step); };
  GPEMU_ASSIGN(profile::Calibration calibration,
               calibrate::calibrate_published(steps, gpu, start, chosen));
  calibration.command = fmt::format("gpemu cost fit {} --published --gpu {}", folder, gpu.name);
  calibration.pack = fmt::format("steps in {}", folder);
  profile::GpuSpec fitted = gpu;
  fitted.calibration = calibration;
  GPEMU_ASSIGN(calibration.bars, calibrate::published_bars(steps, fitted, start));
  report::TextTable table({"parameter", start_gpu.name, gpu.name, "TF32", "FP32"});
  for (int i = 0; i < profile::kFirstHostParameter; ++i) {
    const auto value = [i](const auto& parameters) {
      return parameters && i < profile::kFirstCommonParameter
                 ? fmt::format("{:.4g}", parameters->at(i))
                 : std::string();
    };
    table.add_row({std::string(profile::kOperationParameters.at(i).name),
                   fmt::format("{:.4g}", start.parameters.at(i)),
                   fmt::format("{:.4g}", calibration.parameters.at(i)), value(calibration.tf32),
                   value(calibration.fp32)});
  }
  report::print_out("{}{} steps of {} models, mean error {} %\n",
                    table.str(world.terminal().output_columns), calibration.steps,
                    calibration.models, report::percent(calibration.error, 1));
  if (gpus_folder.empty()) return {};
  const auto path = std::filesystem::path(gpus_folder) / (gpu.name + ".toml");
  GPEMU_ASSIGN(const std::string old, read_file(path));
  // FP32 is priced as on the GPU of the A100's other arithmetic.
  GPEMU_ASSIGN(
      const std::string text,
      profile::replace_calibration(old, path.string(), calibration,
                                   calibration.has_all_arithmetic()
                                       ? std::string_view()
                                       : std::string_view(start_gpu.other_arithmetic_like)));
  GPEMU_TRY(write_file_atomically(path, text));
  report::print_error("gpemu: wrote {}\n", path.string());
  return {};
}

}  // namespace gpemu::tools
