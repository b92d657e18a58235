// SPDX-License-Identifier: Apache-2.0
#include "train/run_page.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/report/page.hpp"

namespace gpemu::tools {
namespace {

/// With more points than this, each point of a line stands for several steps, by mean and range.
constexpr std::size_t kMostPoints = 400;

/// The most epochs that are drawn.
constexpr std::size_t kMostEpochs = 12;

/// Windows over which the throughput of a run is averaged.
constexpr std::size_t kThroughputWindows = 50;

/// Returns the parts of time that the run's GPUs can have.
std::vector<TimePart> parts_of(const train::TrainResult& result) {
  std::vector<TimePart> parts(kTimeParts.begin(), kTimeParts.end());
  if (result.gpus.size() == 1) {
    std::erase_if(parts, [](const TimePart& part) { return part.key == "communication"; });
  }
  return parts;
}

report::StackedBars time_plot(const train::TrainResult& result) {
  report::StackedBars bars{.title = "Where the GPU's time went",
                           .x_label = "time",
                           .unit = "s",
                           .parts = {},
                           .bars = {}};
  const std::vector<TimePart> parts = parts_of(result);
  for (const TimePart& part : parts) bars.parts.push_back({std::string(part.label), part.colour});
  for (std::size_t i = 0; i < std::min(result.epochs.size(), kMostEpochs); ++i) {
    report::StackedBar bar{.label = fmt::format("epoch {}", result.epochs[i].epoch + 1)};
    for (const TimePart& part : parts) {
      bar.values.push_back(to_seconds(result.epochs[i].time.*part.time));
    }
    bars.bars.push_back(std::move(bar));
  }
  return bars;
}

/// Adds a point to a line: the mean of one value over the steps of a span, the first of which has
/// this number, and their range if there are several.
void add_point(report::LineSeries& series, std::int64_t first, std::int64_t steps, Duration sum,
               const train::DurationRange& range) {
  const auto count = static_cast<double>(steps);
  report::PlotPoint point{.x = static_cast<double>(first) + (count - 1) / 2,
                          .y = to_milliseconds(sum) / count};
  if (steps > 1) {
    point.low = to_milliseconds(range.least);
    point.high = to_milliseconds(range.most);
  }
  series.points.push_back(point);
}

/// Draws the steps after the first; with many of them, each point stands for several.
report::LinePlot step_plot(const train::TrainResult& result) {
  const std::span<const train::StepSpan> spans = result.steps.spans();
  const std::size_t together = (spans.size() - 1 + kMostPoints - 1) / kMostPoints;
  report::LineSeries steps{.name = "step", .colour = report::Colour::kTotal};
  report::LineSeries fetch{.name = "waiting for storage", .colour = report::Colour::kHostWait};
  report::LineSeries prep{.name = "waiting for preprocessing", .colour = report::Colour::kHostWork};
  std::int64_t first = 2;
  std::int64_t most = 1;
  Duration fetched{};
  Duration prepared{};
  for (std::size_t i = 1; i < spans.size(); i += together) {
    train::StepSpan point = spans[i];
    for (std::size_t j = i + 1; j < std::min(i + together, spans.size()); ++j) {
      point.append(spans[j]);
    }
    add_point(steps, first, point.steps, point.observed_end - spans[i - 1].observed_end,
              point.observed_step);
    add_point(fetch, first, point.steps, point.fetch_wait, point.fetch_waits);
    add_point(prep, first, point.steps, point.prep_wait, point.prep_waits);
    first += point.steps;
    most = std::max(most, point.steps);
    fetched += point.fetch_wait;
    prepared += point.prep_wait;
  }
  report::LinePlot plot{
      .title = "Step by step",
      .x_label = most > 1 ? fmt::format("step: mean and range of {} each", most) : "step",
      .y_label = "time (ms)",
      .series = {std::move(steps)}};
  if (fetched > Duration::zero()) plot.series.push_back(std::move(fetch));
  if (prepared > Duration::zero()) plot.series.push_back(std::move(prep));
  return plot;
}

report::LinePlot throughput_plot(const RunReport& report) {
  const std::span<const train::StepSpan> spans = report.result.steps.spans();
  const std::size_t window = std::max<std::size_t>(1, spans.size() / kThroughputWindows);
  report::LineSeries measured{.name = "run", .colour = report::Colour::kTotal};
  for (std::size_t i = window; i < spans.size(); i += window) {
    const double elapsed_s = to_seconds(spans[i].end - spans[i - window].end);
    std::int64_t steps = 0;
    for (std::size_t j = i - window + 1; j <= i; ++j) steps += spans[j].steps;
    const double images = static_cast<double>(steps) * report.options.gpu.batch;
    measured.points.push_back(
        {.x = to_seconds(spans[i].end - report.result.start), .y = images / elapsed_s});
  }
  const double best =
      report.options.gpu.batch /
      to_seconds(planned_step(report.plan, report.options.gpu, report.data.has_value()));
  const double factor = 1 + report.plan.cost.compute_relative_error();
  report::LineSeries ceiling{.name = "GPU never waiting, and its error bar",
                             .colour = report::Colour::kCompute};
  for (const double x : {0.0, to_seconds(report.result.elapsed)}) {
    ceiling.points.push_back({.x = x, .y = best, .low = best / factor, .high = best * factor});
  }
  return {.title = "Throughput",
          .x_label = "time (s)",
          .y_label = "images/s",
          .series = {ceiling, measured}};
}

report::Timeline pipeline_plot(const RunReport& report) {
  enum Kind : std::size_t { kForward, kBackward, kCopy, kStorage, kPrep, kWaitStep, kExchange };
  report::Timeline timeline{
      .title = fmt::format("The first {} steps", report.first_steps.size()),
      .unit = "ms",
      .kinds = {{"forward", report::Colour::kCompute},
                {report.result.gpus.size() > 1 ? "other computation" : "backward, optimizer",
                 report::Colour::kBackward},
                {"copy", report::Colour::kCopy},
                {"waits for batch (storage)", report::Colour::kHostWait},
                {"waits for batch (preprocessing)", report::Colour::kHostWork},
                {"waits for step", report::Colour::kNone}},
      .lanes = {}};
  if (report.result.gpus.size() > 1)
    timeline.kinds.push_back({"communication", report::Colour::kOthers});
  report::TimelineLane host{.label = "training loop"};
  report::TimelineLane copies{.label = "copy engine"};
  report::TimelineLane compute{.label = "compute engine"};
  report::TimelineLane exchanges{.label = "communication"};
  const auto add = [&](report::TimelineLane& lane, const train::ObservedStep& step,
                       const device::Interval& interval, Kind kind) {
    if (interval.start == interval.end) return;
    lane.spans.push_back(
        {.begin = to_milliseconds(interval.start - report.result.start),
         .end = to_milliseconds(interval.end - report.result.start),
         .kind = kind,
         .name = fmt::format("step {}, {}", step.index + 1, timeline.kinds[kind].name)});
  };
  for (const train::ObservedStep& step : report.first_steps) {
    add(host, step, step.batch_wait, step.work.fetch > step.work.prep ? kStorage : kPrep);
    add(host, step, step.end_wait, kWaitStep);
    const train::GpuStep& gpu = step.gpus.front();
    add(copies, step, gpu.copy, kCopy);
    for (std::size_t i = 0; i < gpu.compute.size(); ++i) {
      add(compute, step, gpu.compute[i], i == 0 ? kForward : kBackward);
    }
    for (const device::Interval& exchange : step.exchanges) {
      add(exchanges, step, exchange, kExchange);
    }
  }
  // The host asks for a batch before it waits for an earlier step, but they are reported in the
  // other order.
  std::ranges::sort(host.spans, {}, &report::TimelineSpan::begin);
  timeline.lanes = {host, copies, compute};
  if (report.result.gpus.size() > 1) timeline.lanes.push_back(exchanges);
  return timeline;
}

void add_times(report::Page& page, const train::TrainResult& result) {
  const train::TimeBreakdown& whole = result.gpus.front();
  const train::TimeBreakdown steady = result.steady_time();
  report::Page::Rows rows;
  for (const TimePart& part : parts_of(result)) {
    const Duration time = whole.*part.time;
    rows.push_back({std::string(part.label), fmt::format("{:.3f}", to_seconds(time)),
                    fmt::format("{:.1f}", share(time, whole.total()) * 100),
                    fmt::format("{:.1f}", share(steady.*part.time, steady.total()) * 100)});
  }
  rows.push_back({"total", fmt::format("{:.3f}", to_seconds(whole.total())), "100.0", "100.0"});
  page.table({"part", "time (s)", "share (%)", "share after the first step (%)"}, rows);
}

void add_facts(report::Page& page, const RunReport& report) {
  const train::TrainResult& result = report.result;
  const RunOptions& options = report.options;
  const auto step = result.steps.statistics(result.start, train::StepEnd::kObserved);
  std::vector<std::pair<std::string, std::string>> facts = {
      {"throughput",
       fmt::format("{:.1f} images/s after the first step", result.steady_samples_per_s())},
      {"step", fmt::format("{:.3f} ms mean, {:.3f} median, {:.3f} 99th percentile{}",
                           to_milliseconds(step.mean), to_milliseconds(step.p50),
                           to_milliseconds(step.p99), sketch_text(result))},
      {"step by the profile",
       fmt::format("{:.3f} ms", to_milliseconds(planned_step(report.plan, options.gpu,
                                                             report.data.has_value())))},
      {"run", fmt::format("{} steps, {} images in {:.3f} s{}", result.steps.size(), result.samples,
                          to_seconds(result.elapsed), result.stopped ? ", stopped early" : "")},
      {"device memory", fmt::format("{:.0f} of {:.0f} MiB", to_mib(result.memory_peak),
                                    to_mib(result.memory_capacity))},
      {"evidence",
       fmt::format("{} of the emulated time; compute time ±{:.1f} %", evidence_text(result),
                   report.plan.cost.compute_relative_error() * 100)}};
  if (report.data) {
    facts.emplace_back("data", fmt::format("{}: {} images, {:.1f} MiB", data_text(options),
                                           report.data->images, to_mib(report.data->bytes)));
    facts.emplace_back("loader",
                       fmt::format("workers {}, batches ahead {}, seed {}", options.data.workers,
                                   options.data.prefetch_batches, options.data.seed));
    facts.emplace_back("corrupt images", std::to_string(result.work.corrupt));
  }
  facts.emplace_back("copies",
                     fmt::format("from {} memory{}", options.gpu.pageable ? "pageable" : "pinned",
                                 options.gpu.overlap_copy ? ", beside compute" : ""));
  facts.emplace_back("training loop",
                     fmt::format("{:.3f} s of CPU time, {:.3f} s of it spinning",
                                 to_seconds(report.loop_cpu), to_seconds(report.spun)));
  page.facts(facts);
}

}  // namespace

std::string run_page(const RunReport& report) {
  const train::TrainResult& result = report.result;
  report::Page page(fmt::format("{} on {}, batch {}", report.model,
                                gpus_text(report.options.gpu, report.gpu),
                                report.options.gpu.batch));
  page.paragraph(fmt::format(
      "gpemu {}: the data path is {}, the GPU is emulated ({}{}).", GPEMU_VERSION,
      report.options.origin == BatchOrigin::kHost ? "a described host's" : "real", report.precision,
      report.options.origin == BatchOrigin::kSynthetic ? ", synthetic data" : ""));
  page.verdict(run_verdict(report));
  if (const auto warning = report::load_warning(report.provenance)) page.warning(*warning);
  if (!result.steps.empty()) {
    add_facts(page, report);
    page.heading("Where the time went");
    add_times(page, result);
    page.plot(time_plot(result));
    page.heading("Over the run");
    if (result.steps.size() > 1) {
      page.plot(step_plot(result));
      page.plot(throughput_plot(report));
    }
    page.plot(pipeline_plot(report));
  }
  report::add_provenance(page, report.provenance);
  return page.html();
}

}  // namespace gpemu::tools
