// SPDX-License-Identifier: Apache-2.0
#include "experiment/experiment_report.hpp"

#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/report/page.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/report/wrapped_text.hpp"

namespace gpemu::tools {
namespace {

using experiment::ExperimentResult;

/// Returns a number with four digits; a dash for one that is not known.
std::string number_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.4g}", value);
}

std::string_view outcome_of(const ExperimentResult& result, std::size_t check) {
  if (result.checks[check].met) return "met";
  return result.spec.checks[check].reason.empty() ? "missed" : "missed, with a reason";
}

std::vector<std::string> header_of(const ExperimentResult& result) {
  std::vector<std::string> header{""};
  for (const auto& column : result.spec.columns) header.push_back(column.title);
  header.insert(header.begin() + 2, {"paper", "GPEmu"});
  return header;
}

/// Returns a row's cells: the numbers of others follow the first column, to which they belong.
std::vector<std::string> cells_of(const ExperimentResult& result, std::size_t row) {
  std::vector<std::string> cells{result.spec.rows[row].label};
  for (const double value : result.rows[row].columns) cells.push_back(number_text(value));
  cells.insert(cells.begin() + 2, {number_text(result.spec.rows[row].paper),
                                   number_text(result.spec.rows[row].gpemu)});
  return cells;
}

nlohmann::ordered_json number_json(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json row_json(const ExperimentResult& result, std::size_t row) {
  const auto& spec = result.spec;
  nlohmann::ordered_json json{{"name", spec.rows[row].name}, {"label", spec.rows[row].label}};
  json["values"] = nlohmann::ordered_json::array();
  for (const double value : result.rows[row].columns) json["values"].push_back(number_json(value));
  json["paper"] = number_json(spec.rows[row].paper);
  json["gpemu"] = number_json(spec.rows[row].gpemu);
  for (std::size_t i = 0; i < spec.variants.size(); ++i) {
    for (const auto& [name, value] : result.rows[row].runs[i].values()) {
      json["runs"][spec.variants[i]][std::string(name)] = number_json(value);
    }
  }
  return json;
}

nlohmann::ordered_json experiment_json(const ExperimentResult& result) {
  nlohmann::ordered_json json{{"name", result.spec.name},
                              {"title", result.spec.title},
                              {"paper", result.spec.paper},
                              {"columns", nlohmann::ordered_json::array()},
                              {"rows", nlohmann::ordered_json::array()},
                              {"checks", nlohmann::ordered_json::array()}};
  for (const auto& column : result.spec.columns) {
    json["columns"].push_back(
        {{"name", column.name}, {"title", column.title}, {"value", column.value}});
  }
  for (std::size_t i = 0; i < result.rows.size(); ++i) json["rows"].push_back(row_json(result, i));
  for (std::size_t i = 0; i < result.checks.size(); ++i) {
    json["checks"].push_back({{"text", result.spec.checks[i].text},
                              {"test", result.spec.checks[i].test},
                              {"compared", result.checks[i].sides},
                              {"met", result.checks[i].met},
                              {"reason", result.spec.checks[i].reason}});
  }
  return json;
}

/// A part of a bar.
struct BarPart {
  std::string_view name;
  std::string_view quantity;
  report::Colour colour;
};
constexpr auto kEpochParts = std::to_array<BarPart>({
    {"computing", "step_s", report::Colour::kCompute},
    {"copying", "copy_s", report::Colour::kCopy},
    {"waiting for batches", "wait_s", report::Colour::kHostWait},
    {"waiting for other nodes", "others_s", report::Colour::kOthers},
});
constexpr auto kScheduleParts = std::to_array<BarPart>({
    {"running", "average_run_s", report::Colour::kCompute},
    {"waiting for GPUs", "average_wait_s", report::Colour::kHostWait},
});

report::StackedBars time_bars(const ExperimentResult& result) {
  const bool schedules = !result.spec.rows.front().runs.front().policy.empty();
  const std::span<const BarPart> parts =
      schedules ? std::span<const BarPart>(kScheduleParts) : std::span(kEpochParts);
  report::StackedBars bars{
      .title = schedules ? "Where a job's time goes, on average" : "Where an epoch's time goes",
      .x_label = "time",
      .unit = "s",
      .parts = {},
      .bars = {}};
  for (const BarPart& part : parts) bars.parts.push_back({std::string(part.name), part.colour});
  for (std::size_t row = 0; row < result.rows.size(); ++row) {
    for (std::size_t i = 0; i < result.spec.variants.size(); ++i) {
      const std::string& label = result.spec.rows[row].label;
      report::StackedBar bar{.label = result.spec.variants.size() == 1
                                          ? label
                                          : fmt::format("{}: {}", label, result.spec.variants[i])};
      for (const BarPart& part : parts) {
        bar.values.push_back(result.rows[row].runs[i].value(part.quantity).value_or(0));
      }
      bars.bars.push_back(std::move(bar));
    }
  }
  return bars;
}

void add_experiment(report::Page& page, const ExperimentResult& result) {
  page.heading(result.spec.title);
  page.paragraph(result.spec.paper);
  report::Page::Rows rows;
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const std::vector<std::string> cells = cells_of(result, i);
    rows.emplace_back(cells.begin(), cells.end());
  }
  page.table(header_of(result), rows);
  const bool has_times = result.spec.rows.front().runs.front().placement.empty();
  if (has_times) page.plot(time_bars(result));
  report::Page::Rows checks;
  for (std::size_t i = 0; i < result.checks.size(); ++i) {
    checks.push_back({result.spec.checks[i].text, result.checks[i].sides,
                      std::string(outcome_of(result, i)),
                      result.checks[i].met ? "" : result.spec.checks[i].reason});
  }
  page.table({"check", "compared", "outcome", "reason"}, checks);
}

}  // namespace

CheckCounts count_checks(std::span<const ExperimentResult> results) {
  CheckCounts counts;
  for (const ExperimentResult& result : results) {
    for (std::size_t i = 0; i < result.checks.size(); ++i) {
      const bool explained = !result.spec.checks[i].reason.empty();
      ++(result.checks[i].met ? counts.met : explained ? counts.explained : counts.missed);
    }
  }
  return counts;
}

std::string counts_text(const CheckCounts& counts) {
  std::string text = fmt::format("{} {} met", counts.met, counts.met == 1 ? "check" : "checks");
  if (counts.explained > 0) text += fmt::format(", {} missed with a reason", counts.explained);
  if (counts.missed > 0) text += fmt::format(", {} missed", counts.missed);
  return text;
}

std::string experiment_text(const ExperimentResult& result, const report::Terminal& terminal) {
  const auto columns = static_cast<std::size_t>(terminal.output_columns);
  std::string text = fmt::format("{}\n{}\n\n", report::wrapped(result.spec.title, 0, columns),
                                 report::wrapped(result.spec.paper, 0, columns));
  report::TextTable table(header_of(result));
  for (std::size_t i = 0; i < result.rows.size(); ++i) table.add_row(cells_of(result, i));
  return text + table.str(terminal.output_columns) + "\n" + checks_text(result);
}

std::string checks_text(const ExperimentResult& result) {
  std::string text;
  for (std::size_t i = 0; i < result.checks.size(); ++i) {
    const bool met = result.checks[i].met;
    const std::string& reason = result.spec.checks[i].reason;
    text += fmt::format("{}: {} ({}){}\n", met ? "met" : "missed", result.spec.checks[i].text,
                        result.checks[i].sides,
                        met || reason.empty() ? "" : fmt::format("; {}", reason));
  }
  return text;
}

nlohmann::ordered_json experiments_json(std::span<const ExperimentResult> results,
                                        const report::Provenance& provenance) {
  const CheckCounts counts = count_checks(results);
  nlohmann::ordered_json json{{"format", "gpemu-experiments-1"}};
  report::add_provenance(json, provenance);
  json["met"] = counts.met;
  json["missed_with_reason"] = counts.explained;
  json["missed"] = counts.missed;
  json["experiments"] = nlohmann::ordered_json::array();
  for (const ExperimentResult& result : results) {
    json["experiments"].push_back(experiment_json(result));
  }
  return json;
}

std::string experiments_page(std::span<const ExperimentResult> results,
                             const report::Provenance& provenance) {
  report::Page page("Results of papers, on described hosts and fleets");
  page.verdict(counts_text(count_checks(results)));
  for (const ExperimentResult& result : results) add_experiment(page, result);
  report::add_provenance(page, provenance);
  return page.html();
}

}  // namespace gpemu::tools
