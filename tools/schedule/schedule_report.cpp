// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule_report.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/report/number_text.hpp"
#include "gpemu/report/page.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/report/wrapped_text.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Job;
using scheduling::JobState;
using scheduling::ScheduleFigure;
using scheduling::ScheduleMetrics;

/// A plot has so many points of a distribution.
constexpr std::size_t kQuantiles = 200;
constexpr double kSecondsPerHour = 3600;
/// More lines than these cannot be told apart.
constexpr std::size_t kMostLines = 8;
/// A plot of which job has which GPU has so many spans at most: a page of them is a few megabytes.
constexpr std::size_t kMostSpans = 3000;
/// Jobs have so many colours, in turn.
constexpr std::size_t kJobColours = 9;

std::string seconds(double value) {
  return fmt::format("{:.1f}", value);
}

/// In which unit tables show times.
enum class TimeUnit : std::uint8_t { kSeconds, kHours };

std::string title_of(const ScheduleFigure& figure, TimeUnit times) {
  if (figure.unit.empty()) return std::string(figure.title);
  const bool in_hours = figure.unit == "s" && times == TimeUnit::kHours;
  return fmt::format("{} ({})", figure.title, in_hours ? "h" : figure.unit);
}

std::string text_of(const ScheduleFigure& figure, const ScheduleMetrics& metrics, TimeUnit times) {
  const double value = figure.of(metrics);
  if (figure.unit != "s" || times == TimeUnit::kSeconds) {
    return fmt::format("{:.{}f}", value, figure.decimals);
  }
  return fmt::format("{:.2f}", value / kSecondsPerHour);
}

/// Returns the figures that tables show, on a page or in a terminal.
std::vector<ScheduleFigure> shown_figures(bool on_page) {
  std::vector<ScheduleFigure> shown;
  for (const ScheduleFigure& figure : scheduling::schedule_figures()) {
    const bool has_room = on_page || !figure.only_on_pages;
    if (!figure.title.empty() && has_room) shown.push_back(figure);
  }
  return shown;
}

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

/// Returns on what the times of a table of jobs rest; empty if nothing is known but durations.
std::string evidence_line(const ScheduleRow& row) {
  const std::vector<scheduling::EvidenceShare>& shares = row.evidence;
  if (shares.size() == 1 && shares.front().evidence == "stated durations") return {};
  std::string parts;
  for (const scheduling::EvidenceShare& one : shares) {
    parts += fmt::format("{}{} % {}", parts.empty() ? "" : ", ", report::percent(one.share, 1),
                         one.evidence);
  }
  return fmt::format("The jobs' times in {} on {} rest on ({}): {}.", row.table, row.fleet,
                     row.policy, parts);
}

/// Returns which job had which GPU when; nothing if that cannot be told apart in a plot.
std::optional<report::Timeline> gantt(const scheduling::Fleet& fleet, std::span<const Job> jobs,
                                      std::span<const scheduling::Stint> stints) {
  std::size_t spans = 0;
  for (const scheduling::Stint& stint : stints) spans += stint.gpus.count();
  if (spans == 0 || spans > kMostSpans) return std::nullopt;
  report::Timeline plot{.title = {}, .unit = "h", .kinds = {}, .lanes = {}};
  for (std::size_t i = 0; i < kJobColours; ++i) plot.kinds.push_back({{}, colour_of(i)});
  for (const scheduling::Server& server : fleet.servers()) {
    for (std::uint32_t gpu = 0; gpu < server.gpus; ++gpu) {
      plot.lanes.push_back({.label = fmt::format("{} GPU {}", server.name, gpu), .spans = {}});
    }
  }
  for (const scheduling::Stint& stint : stints) {
    const Job& job = jobs[stint.job];
    for (std::size_t part = 0; part < stint.gpus.parts(); ++part) {
      const scheduling::ServerGpus& on = stint.gpus.part(part);
      for (std::uint64_t rest = on.gpus; rest != 0; rest &= rest - 1) {
        const auto gpu = static_cast<std::uint32_t>(std::countr_zero(rest));
        plot.lanes[fleet.gpus_before(on.server) + gpu].spans.push_back(
            {.begin = stint.begin_s / kSecondsPerHour,
             .end = stint.end_s / kSecondsPerHour,
             .kind = stint.job % kJobColours,
             .name = fmt::format("job {} ({} GPU{})", job.id, job.demand.gpus,
                                 report::plural(job.demand.gpus))});
      }
    }
  }
  return plot;
}

/// Adds which job had which GPU when, for those policies for which that can be drawn.
void add_gantts(report::Page& page, std::span<const ScheduleRow> rows) {
  for (const ScheduleRow& row : rows.first(std::min(rows.size(), kMostLines))) {
    if (!row.gantt) continue;
    report::Timeline plot = *row.gantt;
    plot.title = fmt::format("Which job has which GPU: {}", row.policy);
    page.plot(plot);
  }
  if (std::ranges::all_of(rows, [](const ScheduleRow& row) { return row.gantt.has_value(); })) {
    return;
  }
  page.paragraph(
      fmt::format("Which job has which GPU is shown for fleets of up to {} GPUs, up to {} jobs, "
                  "and policies that "
                  "do not move them too often.",
                  kMostGpusDrawn, kMostJobsDrawn));
}

/// Adds a table of the figures that are times, or of the others: one of all would be too wide.
void add_table(report::Page& page, std::span<const ScheduleRow> rows, bool times) {
  std::vector<ScheduleFigure> figures = shown_figures(true);
  std::erase_if(figures, [&](const ScheduleFigure& f) { return (f.unit == "s") != times; });
  std::vector<std::string> header{"policy"};
  for (const ScheduleFigure& figure : figures) header.push_back(title_of(figure, TimeUnit::kHours));
  report::Page::Rows cells;
  for (const ScheduleRow& row : rows) {
    cells.push_back({row.policy});
    for (const ScheduleFigure& figure : figures) {
      cells.back().emplace_back(text_of(figure, row.metrics, TimeUnit::kHours));
    }
  }
  page.table(header, cells);
}

/// Adds rows of the same table and fleet.
void add_rows(report::Page& page, std::span<const ScheduleRow> rows) {
  const ScheduleRow& first = rows.front();
  page.heading(
      fmt::format("{} on {} ({} jobs, {} GPUs)", first.table, first.fleet, first.jobs, first.gpus));
  const auto best = std::ranges::min_element(
      rows, {}, [](const ScheduleRow& row) { return row.metrics.average_jct_s; });
  page.verdict(fmt::format("{} has the shortest average time from arrival to end: {} s.",
                           best->policy, seconds(best->metrics.average_jct_s)));
  if (const std::string line = evidence_line(first); !line.empty()) page.paragraph(line);
  add_table(page, rows, true);
  add_table(page, rows, false);
  page.plot(time_plot(rows));
  page.plot(distribution_plot(rows));
  page.plot(use_plot(rows));
  add_gantts(page, rows);
  if (rows.size() > kMostLines) {
    page.paragraph(fmt::format("The lines are of the first {} policies; --policy chooses others.",
                               kMostLines));
  }
}

nlohmann::ordered_json gaps_json(std::span<const ScheduleGap> gaps) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ScheduleGap& gap : gaps) {
    json.push_back({{"table", gap.table},
                    {"fleet", gap.fleet},
                    {"policy", gap.policy},
                    {"reason", gap.reason}});
  }
  return json;
}

/// Returns one line for each table and fleet: which policies were left out.
std::vector<std::string> left_out_lines(std::span<const ScheduleGap> gaps) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < gaps.size();) {
    const ScheduleGap& first = gaps[begin];
    std::string names;
    std::size_t end = begin;
    for (; end < gaps.size() && gaps[end].table == first.table && gaps[end].fleet == first.fleet;
         ++end) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", gaps[end].policy);
    }
    lines.push_back(fmt::format("Left out, as not made for {} on {}: {}. --policy NAME says why.",
                                first.table, first.fleet, names));
    begin = end;
  }
  return lines;
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
                  .evidence = scheduling::evidence_of(jobs, result),
                  .jct_s = {},
                  .use = result.use,
                  .job_lines = {},
                  .gantt = gantt(fleet, jobs, result.stints)};
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

std::string schedule_text(const ScheduleResults& results, const report::Terminal& terminal) {
  const std::span<const ScheduleRow> rows = results.rows;
  const bool several = std::ranges::any_of(
      rows, [&](const ScheduleRow& row) { return row.fleet != rows.front().fleet; });
  std::vector<std::string> header{"jobs", "policy"};
  if (several) header.insert(header.begin() + 1, "fleet");
  const std::vector<ScheduleFigure> figures = shown_figures(false);
  for (const ScheduleFigure& figure : figures) {
    header.push_back(title_of(figure, TimeUnit::kSeconds));
  }
  report::TextTable table(header);
  for (const ScheduleRow& row : rows) {
    std::vector<std::string> cells{row.table, row.policy};
    if (several) cells.insert(cells.begin() + 1, row.fleet);
    for (const ScheduleFigure& figure : figures) {
      cells.push_back(text_of(figure, row.metrics, TimeUnit::kSeconds));
    }
    table.add_row(cells);
  }
  std::string text = table.str(terminal.output_columns);
  for_each_group(rows, [&](std::span<const ScheduleRow> group) {
    const std::string line = evidence_line(group.front());
    if (!line.empty()) text += report::wrapped(line, 2, terminal.output_columns) + "\n";
  });
  for (const std::string& line : left_out_lines(results.left_out)) {
    text += report::wrapped(line, 2, terminal.output_columns) + "\n";
  }
  return text;
}

nlohmann::ordered_json schedule_json(const ScheduleResults& results,
                                     const report::Provenance& provenance) {
  nlohmann::ordered_json json{{"format", "gpemu-schedule-1"}};
  report::add_provenance(json, provenance);
  json["results"] = nlohmann::ordered_json::array();
  for (const ScheduleRow& row : results.rows) {
    nlohmann::ordered_json result{{"table", row.table},
                                  {"fleet", row.fleet},
                                  {"gpus", row.gpus},
                                  {"policy", row.policy},
                                  {"jobs", row.jobs}};
    for (const ScheduleFigure& figure : scheduling::schedule_figures()) {
      result[figure.name] = figure.of(row.metrics);
    }
    result["evidence"] = nlohmann::ordered_json::array();
    for (const scheduling::EvidenceShare& one : row.evidence) {
      result["evidence"].push_back({{"evidence", one.evidence}, {"share", one.share}});
    }
    json["results"].push_back(std::move(result));
  }
  json["left_out"] = gaps_json(results.left_out);
  json["failed"] = gaps_json(results.failed);
  return json;
}

std::string schedule_page(const ScheduleResults& results, const report::Provenance& provenance) {
  report::Page page("Scheduling policies, in virtual time");
  for (const ScheduleGap& gap : results.failed) {
    page.warning(
        fmt::format("{} failed on {} on {}: {}", gap.policy, gap.table, gap.fleet, gap.reason));
  }
  for_each_group(results.rows, [&](std::span<const ScheduleRow> group) { add_rows(page, group); });
  for (const std::string& line : left_out_lines(results.left_out)) page.paragraph(line);
  report::add_provenance(page, provenance);
  return page.html();
}

std::string schedule_job_lines(std::span<const ScheduleRow> rows) {
  std::string text =
      "table,fleet,policy,job,arrival_s,gpus,first_start_s,end_s,held_s,preemptions,moves\n";
  for (const ScheduleRow& row : rows) {
    const std::string prefix = fmt::format("{},{},{},", row.table, row.fleet, row.policy);
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
