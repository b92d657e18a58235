// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep_page.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/report/colour.hpp"
#include "gpemu/report/page.hpp"

namespace gpemu::tools {
namespace {

using profile::Factor;
using profile::SweepPlot;
using profile::SweepSpec;

/// A page with more rows would be slow; the table in CSV has all.
constexpr std::size_t kMostPageRows = 1000;
constexpr std::size_t kMostFailures = 50;

/// The values of several cells at one place of a plot.
struct Spread {
  std::size_t count = 0;
  double sum = 0, least = 0, most = 0;

  void add(double value) {
    least = count == 0 ? value : std::min(least, value);
    most = count == 0 ? value : std::max(most, value);
    sum += value;
    ++count;
  }
  [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
};

/// Of a value of a factor, by its index; 0 if there is no factor.
std::size_t index_of(const SweepRow& row, const std::optional<std::size_t>& factor) {
  return factor ? row.cell->values[*factor] : 0;
}

std::string value_text(const SweepSpec& spec, const std::optional<std::size_t>& factor,
                       std::size_t value) {
  return factor ? spec.factors[*factor].values[value].text : "";
}

/// By the value of the series, then that of x.
using Spreads = std::map<std::size_t, std::map<std::size_t, Spread>>;

Spreads spreads_of(std::span<const SweepRow> rows, const SweepPlot& plot, std::size_t facet) {
  Spreads spreads;
  for (const SweepRow& row : rows) {
    if (index_of(row, plot.facet) != facet) continue;
    if (const std::optional<double> number = row.values[plot.y].number) {
      spreads[index_of(row, plot.series)][row.cell->values[plot.x]].add(*number);
    }
  }
  return spreads;
}

report::Colour series_colour(std::size_t series) {
  // The last colours are classes of operations, which look different from each other.
  constexpr auto kFirst = static_cast<std::size_t>(report::Colour::kMatmul);
  return static_cast<report::Colour>(kFirst + series % (report::kColourCount - kFirst));
}

report::LinePlot line_plot(const SweepSpec& spec, const SweepPlot& plot, const std::string& title,
                           const Spreads& spreads) {
  const Factor& x = spec.factors[plot.x];
  report::LinePlot lines{
      .title = title, .x_label = x.name, .y_label = spec.columns[plot.y].title, .series = {}};
  for (const auto& [series, points] : spreads) {
    report::LineSeries line{.name = value_text(spec, plot.series, series),
                            .points = {},
                            .markers = true,
                            .colour = series_colour(series)};
    for (const auto& [value, spread] : points) {
      report::PlotPoint point{.x = x.values[value].number.value_or(0), .y = spread.mean()};
      if (spread.count > 1) {
        point.low = spread.least;
        point.high = spread.most;
      }
      line.points.push_back(point);
    }
    std::ranges::sort(line.points, {}, &report::PlotPoint::x);
    lines.series.push_back(std::move(line));
  }
  return lines;
}

/// Bars are for values that are no numbers. Their error bars are as wide on both sides as the wider
/// one is.
report::StackedBars bar_plot(const SweepSpec& spec, const SweepPlot& plot, const std::string& title,
                             const Spreads& spreads) {
  report::StackedBars bars{.title = title,
                           .x_label = spec.columns[plot.y].title,
                           .unit = "",
                           .parts = {{spec.columns[plot.y].name, report::Colour::kCompute}},
                           .bars = {}};
  for (std::size_t value = 0; value < spec.factors[plot.x].values.size(); ++value) {
    for (const auto& [series, points] : spreads) {
      const auto found = points.find(value);
      if (found == points.end()) continue;
      const Spread& spread = found->second;
      std::string label = spec.factors[plot.x].values[value].text;
      if (plot.series) label += ", " + value_text(spec, plot.series, series);
      report::StackedBar bar{.label = std::move(label), .values = {spread.mean()}, .note = {}};
      if (spread.least > 0) {
        bar.relative_error =
            std::max(spread.most / spread.mean(), spread.mean() / spread.least) - 1;
      }
      bars.bars.push_back(std::move(bar));
    }
  }
  return bars;
}

/// Bars show no values below zero.
bool has_negative(const Spreads& spreads) {
  return std::ranges::any_of(spreads, [](const auto& series) {
    return std::ranges::any_of(series.second,
                               [](const auto& point) { return point.second.mean() < 0; });
  });
}

void add_sweep_plot(report::Page& page, const SweepSpec& spec, std::span<const SweepRow> rows,
                    const SweepPlot& plot) {
  const auto& values = spec.factors[plot.x].values;
  const bool numbers =
      std::ranges::all_of(values, [](const auto& value) { return value.number.has_value(); });
  const std::size_t facets = plot.facet ? spec.factors[*plot.facet].values.size() : 1;
  page.heading(plot.title);
  for (std::size_t facet = 0; facet < facets; ++facet) {
    const Spreads spreads = spreads_of(rows, plot, facet);
    if (spreads.empty()) continue;
    const std::string title =
        plot.facet ? fmt::format("{}: {} {}", plot.title, spec.factors[*plot.facet].name,
                                 value_text(spec, plot.facet, facet))
                   : plot.title;
    if (numbers) {
      page.plot(line_plot(spec, plot, title, spreads));
    } else if (has_negative(spreads)) {
      page.warning(fmt::format("{}: bars do not show values below zero", title));
    } else {
      page.plot(bar_plot(spec, plot, title, spreads));
    }
  }
}

void add_all_cells(report::Page& page, const SweepSpec& spec, std::span<const SweepRow> rows) {
  page.heading("All cells");
  if (rows.size() > kMostPageRows) {
    page.paragraph(
        fmt::format("The first {} of {} cells; table.csv has all.", kMostPageRows, rows.size()));
  }
  std::vector<std::string> header = table_header(spec);
  const std::size_t first = header.size() - spec.columns.size();
  for (std::size_t i = 0; i < spec.columns.size(); ++i) {
    header[first + i] = spec.columns[i].title;
  }
  report::Page::Rows cells;
  for (const SweepRow& row : rows.first(std::min(rows.size(), kMostPageRows))) {
    const std::vector<std::string> whole = table_cells(spec, row);
    auto& shown = cells.emplace_back(whole.begin(), whole.end());
    for (std::size_t i = 0; i < spec.columns.size(); ++i) {
      const std::string text = shown_value(row.values[i]);
      shown[first + i] = report::PageCell(text.empty() ? "-" : text, whole[first + i]);
    }
  }
  page.table(header, cells);
}

void add_failures(report::Page& page, const SweepSpec& spec, std::span<const SweepRow> rows) {
  report::Page::Rows failures;
  for (const SweepRow& row : rows) {
    if (!row.record || !row.record->failed() || failures.size() == kMostFailures) continue;
    failures.push_back({fmt::format("{}", row.cell->number), factors_text(spec, row),
                        fmt::format("{}", row.record->exit_status),
                        fmt::format("{}", fmt::join(row.record->last_lines, "\n"))});
  }
  if (failures.empty()) return;
  page.heading("Cells that failed");
  page.table({"cell", "factors", "exit status", "last lines"}, failures);
}

void add_cell_provenance(report::Page& page, std::span<const SweepRow> rows) {
  std::set<std::string> versions, hosts, starts;
  for (const SweepRow& row : rows) {
    if (!row.record) continue;
    versions.insert(row.record->gpemu_version);
    hosts.insert(row.record->host);
    starts.insert(row.record->start);
  }
  if (starts.empty()) return;
  page.heading("How the cells were run");
  if (versions.size() > 1) {
    page.warning(fmt::format("The cells were run by several versions of gpemu: {}",
                             fmt::join(versions, ", ")));
  }
  page.facts({{"gpemu", fmt::format("{}", fmt::join(versions, ", "))},
              {"machines", fmt::format("{}", fmt::join(hosts, ", "))},
              {"first start", *starts.begin()},
              {"last start", *starts.rbegin()}});
}

}  // namespace

SweepCounts count_rows(std::span<const SweepRow> rows) {
  SweepCounts counts{.cells = rows.size()};
  for (const SweepRow& row : rows) {
    if (row.record) ++(row.record->failed() ? counts.failed : counts.done);
  }
  return counts;
}

std::string sweep_counts_text(const SweepCounts& counts) {
  std::string text = fmt::format("{} {}: {} done", counts.cells,
                                 counts.cells == 1 ? "cell" : "cells", counts.done);
  if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
  const std::size_t missing = counts.cells - counts.done - counts.failed;
  if (missing > 0) text += fmt::format(", {} not run", missing);
  return text;
}

std::string factors_text(const SweepSpec& spec, const SweepRow& row) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < spec.factors.size(); ++i) {
    parts.push_back(fmt::format("{} {}", spec.factors[i].name,
                                spec.factors[i].values[row.cell->values[i]].text));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string sweep_page(const SweepSpec& spec, std::span<const SweepRow> rows,
                       const report::Provenance& provenance) {
  report::Page page(spec.title);
  page.verdict(sweep_counts_text(count_rows(rows)));
  for (const SweepPlot& plot : spec.plots) add_sweep_plot(page, spec, rows, plot);
  if (!spec.plots.empty()) {
    page.paragraph(
        "A point or bar is the mean of all cells that have its values; its error bar extends from "
        "the least of them to the greatest, of a bar by as much on both sides.");
  }
  add_failures(page, spec, rows);
  add_all_cells(page, spec, rows);
  add_cell_provenance(page, rows);
  report::add_provenance(page, provenance);
  return page.html();
}

}  // namespace gpemu::tools
