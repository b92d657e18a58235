// SPDX-License-Identifier: Apache-2.0
#include "train/run_page.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/report/page.hpp"

namespace gpemu::tools {
namespace {

/// With more points than this, a line is drawn from buckets of steps, by mean and maximum.
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

/// Returns how many steps a point represents.
std::size_t steps_of_a_point(std::size_t steps) {
  return (steps + kMostPoints - 1) / kMostPoints;
}

/// Returns a line with a value per step from the second on. With many steps, each point is the mean
/// of a bucket, with its smallest and largest value as a band.
report::LineSeries step_series(std::string name, report::Colour colour,
                               const std::vector<double>& values) {
  report::LineSeries series{.name = std::move(name), .colour = colour};
  const std::size_t bucket = steps_of_a_point(values.size());
  for (std::size_t first = 0; first < values.size(); first += bucket) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t count = std::min(bucket, values.size() - first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    report::PlotPoint point{
        .x = static_cast<double>(first) + static_cast<double>(count - 1) / 2 + 2,
        .y = std::accumulate(begin, end, 0.0) / static_cast<double>(count)};
    if (bucket > 1) {
      point.low = *std::min_element(begin, end);
      point.high = *std::max_element(begin, end);
    }
    series.points.push_back(point);
  }
  return series;
}

report::LinePlot step_plot(const train::TrainResult& result) {
  std::vector<double> step_ms, fetch_ms, prep_ms;
  for (std::size_t i = 1; i < result.steps.size(); ++i) {
    const train::StepSample& step = result.steps[i];
    step_ms.push_back(to_milliseconds(step.observed_end - result.steps[i - 1].observed_end));
    fetch_ms.push_back(to_milliseconds(step.fetch_wait));
    prep_ms.push_back(to_milliseconds(step.prep_wait));
  }
  const std::size_t bucket = steps_of_a_point(step_ms.size());
  report::LinePlot plot{
      .title = "Step by step",
      .x_label = bucket > 1 ? fmt::format("step: mean and range of {} each", bucket) : "step",
      .y_label = "time (ms)",
      .series = {step_series("step", report::Colour::kTotal, step_ms)}};
  const auto add = [&plot](const char* name, report::Colour colour,
                           const std::vector<double>& values) {
    if (std::ranges::max(values) > 0) plot.series.push_back(step_series(name, colour, values));
  };
  add("waiting for storage", report::Colour::kHostWait, fetch_ms);
  add("waiting for preprocessing", report::Colour::kHostWork, prep_ms);
  return plot;
}

report::LinePlot throughput_plot(const RunReport& report) {
  const auto& steps = report.result.steps;
  const std::size_t window = std::max<std::size_t>(1, steps.size() / kThroughputWindows);
  report::LineSeries measured{.name = "run", .colour = report::Colour::kTotal};
  for (std::size_t i = window; i < steps.size(); i += window) {
    const double elapsed_s = to_seconds(steps[i].end - steps[i - window].end);
    const double images = static_cast<double>(window) * report.options.gpu.batch;
    measured.points.push_back(
        {.x = to_seconds(steps[i].end - report.result.start), .y = images / elapsed_s});
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
  const auto step = train::step_statistics(result, train::StepEnd::kObserved);
  std::vector<std::pair<std::string, std::string>> facts = {
      {"throughput",
       fmt::format("{:.1f} images/s after the first step", result.steady_samples_per_s())},
      {"step", fmt::format("{:.3f} ms mean, {:.3f} median, {:.3f} 99th percentile",
                           to_milliseconds(step.mean), to_milliseconds(step.p50),
                           to_milliseconds(step.p99))},
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
  page.paragraph(fmt::format("gpemu {}: the data path is {}, the GPU is emulated ({}{}).",
                             GPEMU_VERSION,
                             report.options.host.name.empty() ? "real" : "a described host's",
                             report.precision, report.options.synthetic ? ", synthetic data" : ""));
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
