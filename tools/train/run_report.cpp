// SPDX-License-Identifier: Apache-2.0
#include "train/run_report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;
using train::TimeBreakdown;

/// A part of the GPU's time below this share is not worth a verdict.
constexpr double kWorthVerdict = 0.05;

OrderedJson time_json(const TimeBreakdown& time) {
  OrderedJson json;
  for (const TimePart& part : kTimeParts) json[part.key] = to_seconds(time.*part.time);
  return json;
}

OrderedJson share_json(const TimeBreakdown& time) {
  OrderedJson json;
  for (const TimePart& part : kTimeParts) json[part.key] = share(time.*part.time, time.total());
  return json;
}

OrderedJson statistics_json(const train::StepStatistics& statistics) {
  return {{"mean", to_milliseconds(statistics.mean)},
          {"p50", to_milliseconds(statistics.p50)},
          {"p99", to_milliseconds(statistics.p99)}};
}

/// Returns the emulated time of a run, over all evidence.
Duration emulated_time(const train::TrainResult& result) {
  return std::accumulate(result.evidence.begin(), result.evidence.end(), Duration::zero());
}

/// Returns the images that one worker prepares per second of its time.
double worker_rate(const train::TrainResult& result) {
  const double worked_s = to_seconds(result.work.fetch + result.work.prep);
  return worked_s > 0 ? static_cast<double>(result.samples) / worked_s : 0;
}

std::string workers_advice(const RunReport& report) {
  if (report.data && report.data->service) return "more remote workers would help";
  const double rate = worker_rate(report.result);
  if (rate <= 0) return "more workers would help";
  const double step_s = to_seconds(planned_step(report.plan, report.options.gpu, true));
  const double needed = std::ceil(report.options.gpu.batch / step_s / rate);
  const bool described = report.data && report.data->described_cores > 0;
  const int workers = report.options.data.workers * (described ? report.options.gpu.nodes : 1);
  if (needed <= workers) {
    return fmt::format(
        "a worker makes {:.0f} images/s, so {} keep up once batches are on their way: longer runs "
        "would wait less, unless other work takes the cores",
        rate, workers);
  }
  const int cores = described ? report.data->described_cores : report.provenance.host.cores;
  const std::string beyond =
      needed > cores ? fmt::format("; {} {} core{}", described ? "there are" : "this host has",
                                   cores, report::plural(cores))
                     : "";
  return fmt::format(
      "a worker makes {:.0f} images/s, so about {:.0f} would keep the GPU busy, not {}{}", rate,
      needed, workers, beyond);
}

std::string stall_table(const train::TrainResult& result, int columns) {
  const TimeBreakdown& whole = result.gpus.front();
  const TimeBreakdown steady = result.steady_time();
  report::TextTable table({"where the GPU's time went", "s", "%", "% after step 1"});
  const auto percent = [](Duration part, Duration all) {
    return fmt::format("{:.1f}", share(part, all) * 100);
  };
  for (const TimePart& part : kTimeParts) {
    if (part.key == "communication" && result.gpus.size() == 1) continue;
    const Duration time = whole.*part.time;
    table.add_row({std::string(part.label), fmt::format("{:.3f}", to_seconds(time)),
                   percent(time, whole.total()), percent(steady.*part.time, steady.total())});
  }
  table.add_row({"total", fmt::format("{:.3f}", to_seconds(whole.total())), "100.0", "100.0"});
  return table.str(columns);
}

/// Says how long the first GPU exchanges data with the others.
std::string exchange_text(const train::TrainResult& result) {
  const TimeBreakdown& time = result.gpus.front();
  const Duration all = time.communication + time.hidden_communication;
  return fmt::format(
      "exchange    {} ms a step between the GPUs, {:.1f} % of it beside computation\n",
      report::rounded(to_milliseconds(all) / static_cast<double>(result.steps.size())),
      share(time.hidden_communication, all) * 100);
}

/// The GPU for which exchanges waited longest, and how long.
struct Straggler {
  std::size_t gpu = 0;
  Duration time{};
};

Straggler straggler_of(const train::TrainResult& result) {
  const auto most = std::ranges::max_element(result.waited_for);
  if (most == result.waited_for.end()) return {};
  return {.gpu = static_cast<std::size_t>(most - result.waited_for.begin()), .time = *most};
}

/// Says for which GPU the others wait, unless that hardly matters.
std::string straggler_text(const train::TrainResult& result) {
  constexpr double kWorthALine = 0.01;
  const Straggler last = straggler_of(result);
  if (share(last.time, result.elapsed) < kWorthALine) return {};
  return fmt::format("straggler   the other GPUs wait for GPU {}: {:.3f} s, {:.1f} % of the run\n",
                     last.gpu, to_seconds(last.time), 100 * share(last.time, result.elapsed));
}

std::string fault_text(const profile::Fault& fault) {
  using profile::FaultKind;
  const std::string_view link = fault.link == profile::GpuLink::kNvlink ? "NVLink" : "PCIe link";
  const std::string end = fault.peer ? fmt::format(" to GPU {}", *fault.peer) : "";
  std::string text = fmt::format("GPU {} ", fault.gpu);
  switch (fault.kind) {
    case FaultKind::kSlow:
      text += fmt::format("has {:g} % of its clock", 100 * fault.clock);
      break;
    case FaultKind::kLost:
      text += "falls off the bus (Xid 79)";
      break;
    case FaultKind::kKill:
      text += "loses its process";
      break;
    case FaultKind::kSlowLink:
      text += fmt::format("has {:g} % of the rate of its {}{}", 100 * fault.rate, link, end);
      break;
    case FaultKind::kBrokenLink:
      text += fmt::format("has a broken {}{} (Xid 74)", link, end);
      break;
    case FaultKind::kIllegalAddress:
      text += "gets a kernel that uses an illegal address (Xid 31)";
      break;
  }
  text += fault.at_collective > 0 ? fmt::format(" from its exchange {} on", fault.at_collective)
                                  : fmt::format(" from {:.3f} s on", to_seconds(fault.at));
  if (fault.lasts) text += fmt::format(", for {:.3f} s", to_seconds(*fault.lasts));
  return text;
}

/// Lists the faults of the run's node.
std::string faults_text(const std::vector<profile::Fault>& faults) {
  constexpr std::size_t kMostListed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kMostListed); ++i) {
    text += fmt::format("fault       {}\n", fault_text(faults[i]));
  }
  if (faults.size() > kMostListed) {
    text += fmt::format("            and {} more\n", faults.size() - kMostListed);
  }
  return text;
}

OrderedJson failure_json(const train::TrainResult& result) {
  if (!result.failure) return nullptr;
  return {{"gpu", result.failure->gpu},
          {"kind", profile::kFaultKindNames[static_cast<std::size_t>(result.failure->kind)]},
          {"time_s", to_seconds(result.failure->time - result.start)}};
}

std::string headline(const RunReport& report) {
  const RunOptions& options = report.options;
  std::string text = fmt::format("{} ({}), batch {}, on {}", report.model, report.precision,
                                 options.gpu.batch, gpus_text(options.gpu, report.gpu));
  if (report.data && report.data->service) {
    text += fmt::format("; data from {} ({} images, {:.1f} MiB)", printable(data_text(options)),
                        report.data->images, to_mib(report.data->bytes));
  } else if (report.data) {
    text += fmt::format("; {} worker{} over {} ({} images, {:.1f} MiB)", options.data.workers,
                        report::plural(options.data.workers), printable(data_text(options)),
                        report.data->images, to_mib(report.data->bytes));
  } else {
    text += "; synthetic data, already on the GPU";
  }
  return text;
}

OrderedJson epochs_json(const train::TrainResult& result) {
  OrderedJson epochs = OrderedJson::array();
  for (const train::EpochSummary& epoch : result.epochs) {
    const double elapsed_s = to_seconds(epoch.time.total());
    epochs.push_back(
        {{"epoch", epoch.epoch},
         {"steps", epoch.steps},
         {"images", epoch.samples},
         {"elapsed_s", elapsed_s},
         {"images_per_s", elapsed_s > 0 ? static_cast<double>(epoch.samples) / elapsed_s : 0.0},
         {"time_s", time_json(epoch.time)}});
  }
  return epochs;
}

OrderedJson evidence_json(const RunReport& report) {
  OrderedJson json;
  const Duration all = emulated_time(report.result);
  for (std::size_t i = 0; i < report.result.evidence.size(); ++i) {
    json[cost::kEvidenceNames[i]] = share(report.result.evidence[i], all);
  }
  json["compute_relative_error"] = report.plan.cost.compute_relative_error();
  return json;
}

OrderedJson data_json(const DataFacts& data, const train::TrainResult& result) {
  const data::BatchWork& work = result.work;
  return {{"images", data.images},
          {"bytes", data.bytes},
          {"format", data.format.empty() ? OrderedJson(nullptr) : OrderedJson(data.format)},
          {"bytes_read", work.bytes_read},
          {"storage", storage_json(data.storage)},
          {"nodes", data.nodes ? nodes_json(*data.nodes) : OrderedJson(nullptr)},
          {"service", data.service ? service_json(*data.service) : OrderedJson(nullptr)},
          {"corrupt_files", data.corrupt_files},
          {"not_locked_bytes", data.not_locked},
          {"worker_fetch_s", to_seconds(work.fetch)},
          {"worker_prep_s", to_seconds(work.prep)},
          {"images_per_s_per_worker", worker_rate(result)}};
}

}  // namespace

std::string gpus_text(const GpuOptions& options, std::string_view gpu) {
  if (options.gpus == 1) return std::string(gpu);
  const std::string nodes =
      options.nodes > 1 ? fmt::format(" in {} nodes", options.nodes) : std::string();
  return fmt::format("{} x {}{}, {}", options.gpus, gpu, nodes, options.parallel);
}

std::string failure_text(const train::TrainResult& result) {
  const train::RunFailure& failure = *result.failure;
  const std::string_view what = failure.kind == profile::FaultKind::kKill   ? "was killed"
                                : failure.kind == profile::FaultKind::kLost ? "fell off the bus"
                                                                            : "has broken NVLinks";
  return fmt::format("GPU {} {} at {:.3f} s", failure.gpu, what,
                     to_seconds(failure.time - result.start));
}

double share(Duration part, Duration whole) {
  if (whole <= Duration::zero()) return 0;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

std::string sketch_text(const train::TrainResult& result) {
  const double error = result.steps.percentile_error();
  return error > 0 ? fmt::format(" (to within {:.2g} %)", error * 100) : "";
}

std::string evidence_text(const train::TrainResult& result) {
  const Duration all = emulated_time(result);
  std::string text;
  for (std::size_t i = 0; i < result.evidence.size(); ++i) {
    const double part = share(result.evidence[i], all);
    if (part <= 0) continue;
    text +=
        fmt::format("{}{:.1f} % {}", text.empty() ? "" : ", ", part * 100, cost::kEvidenceNames[i]);
  }
  return text;
}

Duration planned_step(const train::StepPlan& plan, const GpuOptions& options, bool copied) {
  const Duration work = train::time_of(plan).total;
  if (!copied) return work;
  const Duration copy =
      options.pageable ? plan.cost.copy_pageable.time : plan.cost.copy_pinned.time;
  return options.overlap_copy ? std::max(work, copy) : work + copy;
}

std::string run_verdict(const RunReport& report) {
  const train::TrainResult& result = report.result;
  if (result.steps.empty()) return "no step was done";
  const Straggler last = straggler_of(result);
  if (const double part = share(last.time, result.elapsed); part >= kWorthVerdict) {
    return fmt::format("limited by GPU {}: the others wait for it {:.1f} % of the time", last.gpu,
                       100 * part);
  }
  const TimeBreakdown time = result.steady_time();
  const Duration all = time.total();
  const double fetch = share(time.fetch_wait, all);
  const double prep = share(time.prep_wait, all);
  const double waiting = (fetch + prep) * 100;
  if (prep >= fetch && fetch + prep >= kWorthVerdict) {
    return fmt::format(
        "limited by preprocessing: the GPU waits for batches {:.1f} % of the time; {}", waiting,
        workers_advice(report));
  }
  if (fetch + prep >= kWorthVerdict) {
    return fmt::format(
        "limited by storage: the GPU waits for batches {:.1f} % of the time; the workers read "
        "{:.1f} MiB/s",
        waiting, to_mib(result.work.bytes_read) / to_seconds(result.elapsed));
  }
  const double compute = share(time.compute, all) * 100;
  const double copy = share(time.copy, all);
  const double exchange = share(time.communication, all);
  const double other = share(time.other, all);
  if (other >= std::max({copy, exchange, kWorthVerdict})) {
    return fmt::format(
        "limited by others: the GPU is idle {:.1f} % of the time though batches are ready: it is "
        "shared, or the host is short of cores",
        other * 100);
  }
  std::string text = fmt::format("limited by the GPU: it computes {:.1f} % of the time", compute);
  if (copy >= kWorthVerdict) {
    text += fmt::format("; {:.1f} % are copies of input: try {}", copy * 100,
                        report.options.gpu.pageable ? "pinned memory" : "--overlap-copy");
  }
  if (exchange >= kWorthVerdict) {
    text += fmt::format(
        "; for {:.1f} % it only exchanges data with the others: a larger batch "
        "would help",
        exchange * 100);
  }
  return text;
}

std::string run_text(const RunReport& report, const report::Terminal& terminal) {
  const train::TrainResult& result = report.result;
  std::string text = headline(report) + "\n\n";
  const std::string faults = faults_text(report.faults);
  const std::string end = result.failure
                              ? fmt::format("ended       in step {}: {}\n", result.steps.size() + 1,
                                            failure_text(result))
                              : "";
  if (result.steps.empty()) return text + faults + end + "no step was done\n";
  const auto step = result.steps.statistics(result.start, train::StepEnd::kObserved);
  const Duration planned = planned_step(report.plan, report.options.gpu, report.data.has_value());
  text += fmt::format("throughput  {} images/s\n", report::rounded(result.steady_samples_per_s()));
  text += fmt::format("step        {} ms mean, {} p50, {} p99{}; the profile's {}\n",
                      report::rounded(to_milliseconds(step.mean)),
                      report::rounded(to_milliseconds(step.p50)),
                      report::rounded(to_milliseconds(step.p99)), sketch_text(result),
                      report::rounded(to_milliseconds(planned)));
  text += fmt::format("run         {} steps, {} images in {:.3f} s{}\n", result.steps.size(),
                      result.samples, to_seconds(result.elapsed),
                      result.stopped ? ", stopped early" : "");
  text += fmt::format("memory      {:.0f} of {:.0f} MiB{}\n", to_mib(result.memory_peak),
                      to_mib(result.memory_capacity),
                      report.options.gpu.gpus > 1 ? " on each GPU" : "");
  text += fmt::format("evidence    {}; compute time {}{:.1f} %\n", evidence_text(result),
                      terminal.plus_minus(), report.plan.cost.compute_relative_error() * 100);
  if (report.options.gpu.gpus > 1) text += exchange_text(result) + straggler_text(result);
  if (report.data && report.data->storage) {
    text += fmt::format("storage     {}\n", storage_text(*report.data->storage, result.elapsed));
  }
  if (report.data && report.data->service) text += service_text(*report.data->service);
  if (report.data && report.data->nodes) text += nodes_text(*report.data->nodes);
  text += faults + end;
  if (report.data && result.work.corrupt > 0) {
    const auto& files = report.data->corrupt_files;
    text += fmt::format("corrupt     {} images{}\n", result.work.corrupt,
                        files.empty() ? "" : ", e.g. " + printable(files.front()));
  }
  text += "\n" + stall_table(result, terminal.output_columns) + "\n" + run_verdict(report) + "\n";
  if (const auto warning = report::load_warning(report.provenance)) text += *warning + "\n";
  return text;
}

OrderedJson gpu_options_json(const GpuOptions& options) {
  return {{"pin_memory", !options.pageable},
          {"overlap_copy", options.overlap_copy},
          {"parallel", options.parallel},
          {"topology", options.topology},
          {"nodes", options.nodes},
          {"network", options.network},
          {"node", options.node},
          {"device", options.device},
          {"faults", options.faults}};
}

std::string data_text(const RunOptions& options) {
  if (options.origin == BatchOrigin::kService) {
    return fmt::format("the service at {}", options.service.dispatcher);
  }
  if (options.origin != BatchOrigin::kHost) return options.data.folder.string();
  const std::string folder = options.data.folder.string();
  return fmt::format("{} on the host {}", folder.empty() ? options.host.dataset : folder,
                     options.host.name);
}

namespace {

/// Returns what was used of described hosts; null without them.
OrderedJson host_json(const RunOptions& options) {
  const HostOptions& host = options.host;
  if (options.origin != BatchOrigin::kHost) return nullptr;
  return {{"name", host.name},
          {"dataset", options.data.folder.empty() ? host.dataset : ""},
          {"loader", host.loader}};
}

}  // namespace

OrderedJson data_options_json(const RunOptions& options) {
  const DataOptions& data = options.data;
  OrderedJson json = {{"data", data.folder.string()},
                      {"workers", data.workers},
                      {"prefetch", data.prefetch_batches},
                      {"seed", data.seed},
                      {"strict_images", data.strict_images}};
  json.update(read_options_json(data.read));
  json["cache"] = data.cache;
  json["cache_share"] = data.cache_share ? OrderedJson(*data.cache_share) : OrderedJson(nullptr);
  json["peers"] = options.host.peers;
  json["host"] = host_json(options);
  return json;
}

OrderedJson planned_step_json(const train::StepPlan& plan, const GpuOptions& options, bool copied) {
  const train::StepTime time = train::time_of(plan);
  const Duration copy =
      options.pageable ? plan.cost.copy_pageable.time : plan.cost.copy_pinned.time;
  return {{"forward", to_milliseconds(plan.cost.forward.time)},
          {"backward_optimizer", to_milliseconds(plan.cost.backward_optimizer.time)},
          {"copy", copied ? to_milliseconds(copy) : 0.0},
          {"communication", to_milliseconds(time.exposed)},
          {"hidden_communication", to_milliseconds(time.hidden)},
          {"total", to_milliseconds(planned_step(plan, options, copied))}};
}

OrderedJson run_json(const RunReport& report) {
  const train::TrainResult& result = report.result;
  const RunOptions& options = report.options;
  OrderedJson json;
  json["format"] = "gpemu-train-1";
  json["gpu"] = report.gpu;
  json["gpus"] = options.gpu.gpus;
  json["model"] = report.model;
  json["precision"] = report.precision;
  json["batch"] = options.gpu.batch;
  json["steps"] = result.steps.size();
  json["images"] = result.samples;
  json["corrupt_images"] = result.work.corrupt;
  json["stopped"] = result.stopped;
  json["elapsed_s"] = to_seconds(result.elapsed);
  json["images_per_s"] = result.steady_samples_per_s();
  json["step_ms"] =
      statistics_json(result.steps.statistics(result.start, train::StepEnd::kObserved));
  json["timeline_step_ms"] =
      statistics_json(result.steps.statistics(result.start, train::StepEnd::kTimeline));
  json["step_percentile_error"] = result.steps.percentile_error();
  json["profile_step_ms"] = planned_step_json(report.plan, options.gpu, report.data.has_value());
  json["time_s"] = time_json(result.gpus.front());
  json["hidden_communication_s"] = to_seconds(result.gpus.front().hidden_communication);
  json["steady_share"] = share_json(result.steady_time());
  json["gpu_time_s"] = OrderedJson::array();
  for (const TimeBreakdown& time : result.gpus) json["gpu_time_s"].push_back(time_json(time));
  json["waited_for_s"] = OrderedJson::array();
  for (const Duration time : result.waited_for) json["waited_for_s"].push_back(to_seconds(time));
  json["failure"] = failure_json(result);
  json["epochs"] = epochs_json(result);
  json["memory_mib"] = {{"peak", to_mib(result.memory_peak)},
                        {"capacity", to_mib(result.memory_capacity)}};
  json["evidence"] = evidence_json(report);
  json["data"] = report.data ? data_json(*report.data, result) : OrderedJson(nullptr);
  json["verdict"] = run_verdict(report);
  json["options"] = {{"epochs", options.epochs},
                     {"steps", options.steps ? OrderedJson(*options.steps) : OrderedJson(nullptr)},
                     {"synthetic", options.origin == BatchOrigin::kSynthetic},
                     {"clock", options.clock},
                     {"cold", options.cold}};
  json["options"].update(gpu_options_json(options.gpu));
  json["options"].update(data_options_json(options));
  report::add_provenance(json, report.provenance);
  json["host"]["loop_cpu_s"] = to_seconds(report.loop_cpu);
  json["host"]["spin_s"] = to_seconds(report.spun);
  return json;
}

}  // namespace gpemu::tools
