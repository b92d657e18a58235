// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule_report.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/report/page.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Job;
using scheduling::JobState;
using scheduling::ScheduleMetrics;

/// A plot has so many points of a distribution.
constexpr std::size_t kQuantiles = 200;
constexpr double kSecondsPerHour = 3600;
/// More lines than these cannot be told apart.
constexpr std::size_t kMostLines = 8;

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string seconds(double value) {
  return fmt::format("{:.1f}", value);
}

std::string hours(double value) {
  return fmt::format("{:.2f}", value / kSecondsPerHour);
}

std::vector<std::string> figures_of(const ScheduleMetrics& metrics) {
  return {seconds(metrics.average_jct_s),
          seconds(metrics.median_jct_s),
          seconds(metrics.p95_jct_s),
          seconds(metrics.p99_jct_s),
          seconds(metrics.makespan_s),
          seconds(metrics.average_wait_s),
          report::percent(metrics.utilization, 1),
          fmt::format("{:.0f}", metrics.preemptions)};
}

const std::vector<std::string> kFigureNames{"JCT (s)",      "median",   "p95",      "p99",
                                            "makespan (s)", "wait (s)", "held (%)", "preempted"};

report::Colour colour_of(std::size_t line) {
  // The last nine are classes of operations, which look different from each other.
  constexpr auto kFirst = std::to_underlying(report::Colour::kMatmul);
  return static_cast<report::Colour>(kFirst + line % (report::kColourCount - kFirst));
}

report::LinePlot distribution_plot(std::span<const ScheduleRow> rows) {
  report::LinePlot plot{.title = "How many of the jobs have ended after a time",
                        .x_label = "time from arrival to end (h)",
                        .y_label = "jobs (%)",
                        .series = {}};
  for (const ScheduleRow& row : rows.first(std::min(rows.size(), kMostLines))) {
    report::LineSeries series{
        .name = row.policy, .points = {}, .colour = colour_of(plot.series.size())};
    for (std::size_t i = 0; i <= kQuantiles; ++i) {
      const double share = static_cast<double>(i) / kQuantiles;
      const auto last = static_cast<double>(row.jct_s.size() - 1);
      series.points.push_back(
          {.x = row.jct_s[static_cast<std::size_t>(share * last)] / kSecondsPerHour,
           .y = 100 * share});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

report::LinePlot use_plot(std::span<const ScheduleRow> rows) {
  report::LinePlot plot{
      .title = "How many GPUs jobs have", .x_label = "time (h)", .y_label = "GPUs", .series = {}};
  for (const ScheduleRow& row : rows.first(std::min(rows.size(), kMostLines))) {
    report::LineSeries series{
        .name = row.policy, .points = {}, .colour = colour_of(plot.series.size())};
    for (const auto& interval : row.use.intervals()) {
      series.points.push_back({.x = interval.begin_s / kSecondsPerHour, .y = interval.gpus});
      series.points.push_back({.x = interval.end_s / kSecondsPerHour, .y = interval.gpus});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

report::StackedBars time_plot(std::span<const ScheduleRow> rows) {
  report::StackedBars plot{
      .title = "Where a job's time goes, on average",
      .x_label = "time",
      .unit = "s",
      .parts = {{"with GPUs", report::Colour::kCompute}, {"without", report::Colour::kHostWait}},
      .bars = {}};
  for (const ScheduleRow& row : rows) {
    const ScheduleMetrics& metrics = row.metrics;
    plot.bars.push_back(
        {.label = row.policy,
         .values = {metrics.average_jct_s - metrics.average_wait_s, metrics.average_wait_s},
         .note = {}});
  }
  return plot;
}

/// Adds rows of the same table and fleet.
void add_rows(report::Page& page, std::span<const ScheduleRow> rows) {
  const ScheduleRow& first = rows.front();
  page.heading(fmt::format("{} on {} ({} jobs, {} GPUs)", file_name(first.table), first.fleet,
                           first.jobs, first.gpus));
  const auto best = std::ranges::min_element(
      rows, {}, [](const ScheduleRow& row) { return row.metrics.average_jct_s; });
  page.verdict(fmt::format("{} has the shortest average time from arrival to end: {} s.",
                           best->policy, seconds(best->metrics.average_jct_s)));
  report::Page::Rows cells;
  for (const ScheduleRow& row : rows) {
    const ScheduleMetrics& metrics = row.metrics;
    cells.push_back({row.policy, hours(metrics.average_jct_s), hours(metrics.median_jct_s),
                     hours(metrics.p95_jct_s), hours(metrics.p99_jct_s), hours(metrics.makespan_s),
                     report::percent(metrics.utilization, 1),
                     fmt::format("{:.0f}", metrics.preemptions)});
  }
  page.table({"policy", "JCT (h)", "median (h)", "p95 (h)", "p99 (h)", "makespan (h)", "held (%)",
              "preempted"},
             cells);
  page.plot(time_plot(rows));
  page.plot(distribution_plot(rows));
  page.plot(use_plot(rows));
  if (rows.size() > kMostLines) {
    page.paragraph(fmt::format("The lines are of the first {} policies; --policy chooses others.",
                               kMostLines));
  }
}

/// Calls `add` with each span of rows of the same table and fleet.
template <typename Add>
void for_each_group(std::span<const ScheduleRow> rows, Add add) {
  while (!rows.empty()) {
    const auto end = std::ranges::find_if(rows, [&](const ScheduleRow& row) {
      return row.table != rows.front().table || row.fleet != rows.front().fleet;
    });
    const auto count = static_cast<std::size_t>(end - rows.begin());
    add(rows.first(count));
    rows = rows.subspan(count);
  }
}

}  // namespace

ScheduleRow schedule_row(const scheduling::Fleet& fleet, std::span<const Job> jobs,
                         const scheduling::SimulationResult& result, bool with_jobs) {
  ScheduleRow row{.jobs = jobs.size(),
                  .gpus = fleet.gpus(),
                  .metrics = scheduling::metrics_of(fleet, jobs, result),
                  .jct_s = {},
                  .use = result.use,
                  .job_lines = {}};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    row.jct_s.push_back(result.jobs[i].end_s - jobs[i].arrival_s);
  }
  std::ranges::sort(row.jct_s);
  for (std::size_t i = 0; with_jobs && i < jobs.size(); ++i) {
    const JobState& state = result.jobs[i];
    fmt::format_to(std::back_inserter(row.job_lines), "{},{},{},{},{},{},{},{}\n", jobs[i].id,
                   jobs[i].arrival_s, jobs[i].demand.gpus, state.first_start_s, state.end_s,
                   state.held_s, state.starts - 1, state.moves);
  }
  return row;
}

std::string schedule_text(std::span<const ScheduleRow> rows, const report::Terminal& terminal) {
  const bool several = std::ranges::any_of(
      rows, [&](const ScheduleRow& row) { return row.fleet != rows.front().fleet; });
  std::vector<std::string> header{"jobs", "policy"};
  if (several) header.insert(header.begin() + 1, "fleet");
  header.insert(header.end(), kFigureNames.begin(), kFigureNames.end());
  report::TextTable table(header);
  for (const ScheduleRow& row : rows) {
    std::vector<std::string> cells{file_name(row.table), row.policy};
    if (several) cells.insert(cells.begin() + 1, row.fleet);
    for (std::string& figure : figures_of(row.metrics)) cells.push_back(std::move(figure));
    table.add_row(cells);
  }
  return table.str(terminal.output_columns);
}

nlohmann::ordered_json schedule_json(std::span<const ScheduleRow> rows,
                                     const report::Provenance& provenance) {
  nlohmann::ordered_json json{{"format", "gpemu-schedule-1"}};
  report::add_provenance(json, provenance);
  json["results"] = nlohmann::ordered_json::array();
  for (const ScheduleRow& row : rows) {
    const ScheduleMetrics& metrics = row.metrics;
    json["results"].push_back({{"table", row.table},
                               {"fleet", row.fleet},
                               {"gpus", row.gpus},
                               {"policy", row.policy},
                               {"jobs", row.jobs},
                               {"average_jct_s", metrics.average_jct_s},
                               {"median_jct_s", metrics.median_jct_s},
                               {"p90_jct_s", metrics.p90_jct_s},
                               {"p95_jct_s", metrics.p95_jct_s},
                               {"p99_jct_s", metrics.p99_jct_s},
                               {"makespan_s", metrics.makespan_s},
                               {"average_wait_s", metrics.average_wait_s},
                               {"utilization", metrics.utilization},
                               {"preemptions", metrics.preemptions}});
  }
  return json;
}

std::string schedule_page(std::span<const ScheduleRow> rows, const report::Provenance& provenance) {
  report::Page page("Scheduling policies, in virtual time");
  for_each_group(rows, [&](std::span<const ScheduleRow> group) { add_rows(page, group); });
  report::add_provenance(page, provenance);
  return page.html();
}

std::string schedule_job_lines(std::span<const ScheduleRow> rows) {
  std::string text =
      "table,fleet,policy,job,arrival_s,gpus,first_start_s,end_s,held_s,preemptions,moves\n";
  for (const ScheduleRow& row : rows) {
    const std::string prefix =
        fmt::format("{},{},{},", file_name(row.table), row.fleet, row.policy);
    for (std::size_t begin = 0; begin < row.job_lines.size();) {
      const std::size_t end = row.job_lines.find('\n', begin) + 1;
      text += prefix;
      text.append(row.job_lines, begin, end - begin);
      begin = end;
    }
  }
  return text;
}

}  // namespace gpemu::tools
