// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/terminal_plot.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command.hpp"
#include "profile/curve_selection.hpp"
#include "profile/gpu_spec_table.hpp"
#include "profile/profile_commands.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct ShowOptions {
  CurveSelection selection;
  std::filesystem::path plot;
  bool as_json = false;
};

std::string_view unit_label(profile::Quantity quantity) {
  return profile::quantity_unit(quantity) == "mib" ? "MiB" : "ms";
}

void print_spec(const profile::GpuSpec& spec, const World& world) {
  report::print_out("{}: {}, {}\n", spec.name, spec.product_name, spec.architecture);
  if (!spec.aliases.empty()) report::print_out("also called {}\n", fmt::join(spec.aliases, ", "));
  // Sources are long and few: the table names them by number.
  std::map<std::string_view, std::size_t> numbers;
  std::vector<std::string_view> sources;
  report::TextTable table({"", "value", "source"});
  const auto add = [&](std::string path, std::string value, std::string_view source) {
    const auto [entry, is_new] = numbers.try_emplace(source, sources.size() + 1);
    if (is_new) sources.push_back(source);
    table.add_row({std::move(path), std::move(value), fmt::format("[{}]", entry->second)});
  };
  for (const SpecNumber& number : spec_numbers(spec)) {
    add(std::string(number.path), fmt::format("{:.10g}", number.value), number.source);
  }
  for (const profile::FactText& fact : profile::fact_texts(spec.generation)) {
    const std::string path = fmt::format("generation.{}", fact.key);
    const auto source = spec.sources.find(path);
    if (source != spec.sources.end()) add(path, fact.value, source->second);
  }
  report::print_out("\n{}\n", table.str(world.terminal().output_columns));
  for (std::size_t i = 0; i < sources.size(); ++i)
    report::print_out("[{}] {}\n", i + 1, sources[i]);
  if (!spec.calibration) return;
  const profile::Calibration& calibration = *spec.calibration;
  report::print_out("\noperations are priced as fitted to {} steps of {} models on {} (pack {})\n",
                    calibration.steps, calibration.models, calibration.gpu, calibration.pack);
}

json describe_spec(const profile::GpuSpec& spec) {
  json numbers = json::object();
  for (const SpecNumber& number : spec_numbers(spec)) {
    numbers[std::string(number.path)] = {{"value", number.value}, {"source", number.source}};
  }
  json facts = json::object();
  for (const profile::FactText& fact : profile::fact_texts(spec.generation)) {
    const auto source = spec.sources.find(fmt::format("generation.{}", fact.key));
    if (source == spec.sources.end()) continue;
    json value =
        json::parse(fact.value, nullptr, false);  // A number or a truth value; else a word.
    if (value.is_discarded()) value = fact.value;
    facts[std::string(fact.key)] = {{"value", std::move(value)}, {"source", source->second}};
  }
  return {{"name", spec.name},
          {"product_name", spec.product_name},
          {"aliases", spec.aliases},
          {"architecture", spec.architecture},
          {"numbers", std::move(numbers)},
          {"generation", std::move(facts)}};
}

Result<void> show_spec(const ShowOptions& options, const World& world) {
  if (options.selection.gpu.empty()) {
    return fail(ErrorCode::kInvalidArgument, "give --gpu, and --model for its measurements");
  }
  if (!options.plot.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--plot draws measurements: give a --model");
  }
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(options.selection.gpu));
  if (options.as_json) {
    report::print_out("{}", report::json_text(describe_spec(spec)));
  } else {
    print_spec(spec, world);
  }
  return {};
}

/// A plot has one axis for values, so it draws the curves that share the first one's unit.
report::LinePlot plot_of(const std::vector<profile::Curve>& curves) {
  const profile::CurveKey& first = curves.front().key;
  const std::string_view unit = unit_label(first.quantity);
  report::LinePlot plot;
  plot.title = fmt::format("{} on {}, {}", first.model, first.gpu, first.precision);
  plot.x_label = "batch size";
  plot.y_label = unit == "MiB" ? "memory (MiB)" : "time (ms)";
  for (const profile::Curve& curve : curves) {
    if (unit_label(curve.key.quantity) != unit) continue;
    report::LineSeries series{.name = std::string(profile::quantity_name(curve.key.quantity)),
                              .points = {},
                              .markers = true,
                              .colour = report::colour_at(plot.series.size())};
    // 95 % of the measurements between two points are within this error.
    const double factor = 1 + curve.p95_relative_error;
    for (const profile::CurvePoint& point : curve.points) {
      series.points.push_back({.x = static_cast<double>(point.batch),
                               .y = point.value,
                               .low = point.value / factor,
                               .high = point.value * factor});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

void print_summary(const std::vector<profile::Curve>& curves, const World& world) {
  report::TextTable table({"quantity", "unit", "batches", "measured rows", "points kept",
                           "mean error / %", "p95 / %", "max / %", "pack"});
  for (const profile::Curve& curve : curves) {
    table.add_row({std::string(profile::quantity_name(curve.key.quantity)),
                   std::string(unit_label(curve.key.quantity)),
                   fmt::format("{}-{}", curve.points.front().batch, curve.points.back().batch),
                   fmt::to_string(curve.measured_rows), fmt::to_string(curve.points.size()),
                   fmt::format("{:.2f}", 100 * curve.mean_relative_error),
                   fmt::format("{:.2f}", 100 * curve.p95_relative_error),
                   fmt::format("{:.2f}", 100 * curve.max_relative_error), curve.pack});
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
}

// One row per batch size that any of the curves keeps.
void print_points(const std::vector<profile::Curve>& curves, const World& world) {
  std::vector<std::string> header = {"batch"};
  std::map<int, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const profile::Quantity quantity = curves[i].key.quantity;
    header.push_back(
        fmt::format("{} / {}", profile::quantity_name(quantity), unit_label(quantity)));
    for (const profile::CurvePoint& point : curves[i].points) {
      const auto row = rows.try_emplace(point.batch, curves.size()).first;
      row->second[i] = fmt::format("{:.6g}", point.value);
    }
  }
  report::TextTable table(std::move(header));
  for (auto& [batch, cells] : rows) {
    cells.insert(cells.begin(), fmt::to_string(batch));
    table.add_row(std::move(cells));
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
}

std::string limit_sentence(const profile::MemoryLimit& limit) {
  if (!limit.first_batch_out_of_memory) {
    return fmt::format("Every batch that was tried ran, up to {}.", limit.largest_batch_measured);
  }
  return fmt::format("Measured to fit up to batch {}; out of memory at {}.",
                     limit.largest_batch_measured, *limit.first_batch_out_of_memory);
}

json describe_curves(const std::vector<profile::Curve>& curves,
                     const std::optional<profile::MemoryLimit>& limit) {
  json list = json::array();
  for (const profile::Curve& curve : curves) {
    json points = json::array();
    for (const profile::CurvePoint& point : curve.points) {
      points.push_back({point.batch, point.value});
    }
    list.push_back({{"quantity", profile::quantity_name(curve.key.quantity)},
                    {"unit", unit_label(curve.key.quantity)},
                    {"pack", curve.pack},
                    {"measured_rows", curve.measured_rows},
                    {"relative_error",
                     {{"mean", curve.mean_relative_error},
                      {"p90", curve.p90_relative_error},
                      {"p95", curve.p95_relative_error},
                      {"max", curve.max_relative_error}}},
                    {"points", std::move(points)}});
  }
  const profile::CurveKey& key = curves.front().key;
  json document = {{"gpu", key.gpu},
                   {"model", key.model},
                   {"precision", key.precision},
                   {"curves", std::move(list)}};
  if (limit) {
    document["largest_batch_measured"] = limit->largest_batch_measured;
    document["first_batch_out_of_memory"] =
        limit->first_batch_out_of_memory ? json(*limit->first_batch_out_of_memory) : json();
  }
  return document;
}

Result<void> check_plot_name(const std::filesystem::path& plot) {
  if (plot.empty() || plot.extension() == ".svg") return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "--plot {}: plots are SVG, so the name must end in .svg; rsvg-convert converts one to PNG",
      plot.string());
}

Result<void> show_curves(const ShowOptions& options, const World& world) {
  GPEMU_TRY(check_plot_name(options.plot));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const std::vector<profile::Curve> curves,
               select_curves(database, options.selection));
  const profile::CurveKey& key = curves.front().key;
  GPEMU_ASSIGN(const std::optional<profile::MemoryLimit> limit,
               database.memory_limit(key.model, key.gpu, key.precision));
  const report::LinePlot plot = plot_of(curves);
  if (options.as_json) {
    report::print_out("{}", report::json_text(describe_curves(curves, limit)));
  } else {
    report::print_out("{}\n\n", plot.title);
    print_summary(curves, world);
    if (limit) report::print_out("{}\n", limit_sentence(*limit));
    report::print_out("\n{}\n", report::terminal_plot(plot, world.terminal().output_columns));
    print_points(curves, world);
  }
  if (options.plot.empty()) return {};
  GPEMU_TRY(write_file_atomically(options.plot, report::line_plot_svg(plot)));
  if (!options.as_json) report::print_out("\nwrote {}\n", options.plot.string());
  return {};
}

}  // namespace

void add_profile_show_command(Command profile, const World& world) {
  Command command =
      profile.subcommand("show", "Show measured curves, or the specification of a GPU");
  auto options = std::make_shared<ShowOptions>();
  add_selection_options(command, options->selection);
  command.option("--plot", options->plot, "Write the plot to this SVG file");
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "Without --model it prints the GPU's specification and the source of each number.\n"
      "Plots draw the curves in the unit of the first one: ms, or MiB if only memory is selected.\n"
      "Examples:\n"
      "  gpemu profile show --gpu V100-PCIE-32GB\n"
      "  gpemu profile show --gpu V100-PCIE-32GB --model resnet50 --plot resnet50.svg\n"
      "  gpemu profile show --gpu K80 --model resnet50 --quantity peak_memory --json");
  command.on_run([options, &world] {
    return options->selection.model.empty() ? show_spec(*options, world)
                                            : show_curves(*options, world);
  });
}

}  // namespace gpemu::tools
