// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "gpemu/base/file.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/train/host_source.hpp"
#include "gpemu/train/trace_recorder.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "train/host_data.hpp"
#include "train/node_data.hpp"
#include "train/run_page.hpp"
#include "train/run_report.hpp"
#include "train/training_session.hpp"

namespace gpemu::tools {
namespace {

/// Steps of a synthetic run if the number is not given.
constexpr std::int64_t kSyntheticSteps = 100;

/// Steps in the report's plot of the pipeline.
constexpr std::size_t kPicturedSteps = 12;

Result<void> check_options(const RunOptions& options) {
  const bool described = !options.host.name.empty();
  const bool remote = !options.service.dispatcher.empty();
  if (!options.synthetic && !described && !remote && options.data.folder.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "where is the data? Name a data set with --data, or use --synthetic");
  }
  if (options.clock == "virtual" && !options.synthetic && !described) {
    return fail(ErrorCode::kInvalidArgument,
                "--clock virtual needs --synthetic or --host: reading real files takes real time");
  }
  const std::string_view reads_elsewhere = options.synthetic ? "--synthetic reads nothing"
                                           : remote          ? "the workers of --data-service read"
                                                             : "";
  if (!reads_elsewhere.empty() && (options.data.read != ReadOptions{} ||
                                   has_own_cache(options.data) || options.host.peers != "none")) {
    return fail(ErrorCode::kInvalidArgument,
                "--order, --read, --window, --storage, --cache, --cache-share and --peers are for "
                "--data and --host: {}",
                reads_elsewhere);
  }
  if (options.clock != "virtual" && described) {
    return fail(ErrorCode::kInvalidArgument,
                "--host needs --clock virtual: a described host has no real time");
  }
  if (options.clock == "virtual" && !options.gpu.node.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--clock virtual excludes --node: a node that others see runs in real time");
  }
  if (options.gpu.nodes > 1 && !options.gpu.node.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--nodes {} excludes --node: '{}' is one node, and emulated nodes are not joined",
                options.gpu.nodes, options.gpu.node);
  }
  return report::check_outputs(
      {report::file_of(options.output.json), options.output.trace, options.output.report});
}

/// Observes a run while it is in progress.
class RunObserver {
 public:
  RunObserver(const RunOptions& options, const RunReport& report, std::int64_t total_steps,
              const World& world)
      : tracing_(!options.output.trace.empty()),
        trace_(report.gpu, report.plan),
        progress_({.label = "training", .images = options.gpu.batch}, total_steps,
                  options.output.quiet, world.progress_host()) {}

  void add(const train::ObservedStep& step) {
    if (first_steps_.size() < kPicturedSteps) first_steps_.push_back(step);
    if (tracing_) trace_.add(step);
    progress_.update(step.index + 1);
  }

  /// Ends the progress bar; nothing is added afterwards.
  void finish() { progress_.clear(); }

  [[nodiscard]] const train::TraceRecorder& trace() const { return trace_; }
  [[nodiscard]] const std::vector<train::ObservedStep>& first_steps() const { return first_steps_; }

 private:
  bool tracing_;
  train::TraceRecorder trace_;
  report::Progress progress_;
  std::vector<train::ObservedStep> first_steps_;
};

Result<void> write_outputs(const RunReport& report, const train::TraceRecorder& trace) {
  const OutputOptions& output = report.options.output;
  if (!output.json.empty())
    GPEMU_TRY(report::write_json(output.json, report::json_text(run_json(report))));
  if (!output.trace.empty()) {
    nlohmann::ordered_json facts;
    report::add_provenance(facts, report.provenance);
    GPEMU_TRY(write_file_atomically(output.trace, trace.json(report::one_line(facts))));
    if (trace.steps_left_out() > 0 && !output.quiet) {
      report::print_error(
          "gpemu: {} holds the first {} steps; {} more did not fit\n", output.trace.string(),
          report.result.steps.size() - trace.steps_left_out(), trace.steps_left_out());
    }
  }
  if (!output.report.empty()) {
    GPEMU_TRY(write_file_atomically(output.report, run_page(report)));
  }
  return {};
}

/// Where the batches of a run come from.
struct RunSource {
  NodeData nodes;       ///< empty without a cache or other nodes.
  DataPath data;        ///< empty if no real files are read.
  HostPath host;        ///< empty without a described host.
  ServicePath service;  ///< empty without remote workers.
  std::unique_ptr<train::BatchSource> batches;
  const train::NodesSource* of_nodes = nullptr;  ///< the same, if there are nodes.
  std::int64_t steps = 0;

  [[nodiscard]] std::optional<DataFacts> facts(const RunOptions& options) const {
    if (host.loaders) {
      return DataFacts{.images = host.files, .bytes = host.bytes, .described_cores = host.cores};
    }
    if (service.client) {
      return DataFacts{.images = service.client->images(),
                       .bytes = service.client->bytes(),
                       .not_locked = *service.not_locked,
                       .format = "",
                       .service = ServiceFacts{.dispatcher = options.service.dispatcher,
                                               .workers_seen = service.client->workers_seen(),
                                               .workers_lost = service.client->workers_lost()}};
    }
    if (!data.dataset) return std::nullopt;
    return DataFacts{.images = data.dataset->samples().size(),
                     .bytes = data.dataset->total_bytes(),
                     .corrupt_files = data.loader->corrupt_files(),
                     .not_locked = *data.not_locked,
                     .format = std::string(data.dataset->format_name()),
                     .storage = storage_facts(data.storage.get()),
                     .nodes = of_nodes != nullptr
                                  ? std::optional(facts_of(options, nodes, *of_nodes))
                                  : std::nullopt};
  }
};

/// `source`, whose described host is open, stays where it is: its parts refer to each other.
Result<void> open_source(const RunOptions& options, const TrainingSession& session,
                         const World& world, const std::atomic<bool>& stop, RunSource& source) {
  if (options.synthetic) {
    source.steps = options.steps.value_or(kSyntheticSteps);
    source.batches = std::make_unique<train::SyntheticSource>(options.gpu.batch, source.steps);
    return {};
  }
  std::int64_t all = options.epochs;
  if (!options.host.name.empty()) {
    all *= source.host.batches_per_epoch;
    source.batches = std::make_unique<train::HostSource>(*source.host.loaders, session.clock(),
                                                         options.epochs, options.steps);
  } else if (!options.service.dispatcher.empty()) {
    GPEMU_ASSIGN(source.service, open_service(options, session.model().model(), world, stop));
    all = source.service.batches;
    source.batches = std::move(source.service.source);
  } else if (uses_nodes(options)) {
    GPEMU_ASSIGN(source.data,
                 open_node_data(options, session.model().model(), world, stop, source.nodes));
    if (options.cold) GPEMU_TRY(make_cold(*source.data.dataset, stop));
    const auto together = std::int64_t{options.gpu.batch} * source.nodes.group->nodes();
    all *= (std::ssize(source.data.dataset->samples()) + together - 1) / together;
    auto batches = make_nodes_source(options, source.data, source.nodes);
    source.of_nodes = batches.get();
    source.batches = std::move(batches);
  } else {
    GPEMU_ASSIGN(source.data,
                 open_data(options.data, options.gpu, session.model().model(), world, stop));
    if (options.cold) GPEMU_TRY(make_cold(*source.data.dataset, stop));
    all *= source.data.loader->batches_per_epoch();
    source.batches =
        std::make_unique<train::LoaderSource>(*source.data.loader, options.epochs, options.steps);
  }
  source.steps = std::min(all, options.steps.value_or(all));
  return {};
}

Result<void> run_train(const RunOptions& options, const World& world) {
  GPEMU_TRY(check_options(options));
  const InterruptGuard interrupt;
  RunSource source;
  if (!options.host.name.empty()) {
    GPEMU_ASSIGN(source.host, open_host(options, world, interrupt.flag()));
  }
  GPEMU_ASSIGN(TrainingSession session,
               TrainingSession::create(options.gpu, options.clock == "virtual", world,
                                       source.host.gpu_time));
  RunReport report{.options = options,
                   .gpu = session.model().gpu().name,
                   .model = session.model().model().name,
                   .precision = session.model().precision(),
                   .plan = session.plan(),
                   .provenance = report::provenance_at(world.time_of_day())};
  GPEMU_TRY(open_source(options, session, world, interrupt.flag(), source));

  RunObserver observer(options, report, source.steps, world);
  const Duration cpu_before = world.thread_cpu_time();
  const report::HostLoadMeter meter(report::LoadScope::kThisProcess, world.host_sample);
  GPEMU_ASSIGN(report.result,
               session.run(*source.batches, interrupt.flag(),
                           [&observer](const train::ObservedStep& step) { observer.add(step); }));
  observer.finish();
  const auto faults = session.faults();
  report.faults.assign(faults.begin(), faults.end());
  if (options.clock == "real") report.provenance.load = meter.read();
  report.loop_cpu = world.thread_cpu_time() - cpu_before;
  report.spun = session.spun();
  report.data = source.facts(options);
  report.first_steps = observer.first_steps();
  if (!options.output.quiet && !report::is_printed(options.output.json)) {
    report::print_out("{}", run_text(report, world.terminal()));
  }
  GPEMU_TRY(write_outputs(report, observer.trace()));
  if (report.result.failure) {
    return fail(ErrorCode::kUnavailable, "the run ended after {} of {} steps: {}",
                report.result.steps.size(), source.steps, failure_text(report.result));
  }
  if (report.result.stopped) {
    return fail(ErrorCode::kInterrupted, "stopped after {} of {} steps", report.result.steps.size(),
                source.steps);
  }
  return {};
}

}  // namespace

void add_train_command(Command app, const World& world) {
  Command command =
      app.subcommand("train", "Train on emulated GPUs and report what limits the run");
  command.notes(
      "Examples:\n"
      "  gpemu train --gpu V100-PCIE-32GB --model resnet18 --data photos --report run.html\n"
      "  gpemu train --gpu V100-PCIE-32GB --model resnet50 --synthetic --steps 200\n"
      "  gpemu train --topology dgx-a100 --gpus 64 --nodes 8 --model resnet50 --batch 4096 "
      "--synthetic --clock virtual\n"
      "  gpemu train --topology dgx-a100 --gpus 8 --model resnet50 --batch 512 --synthetic "
      "--faults faults.toml\n"
      "  gpemu train --gpu P100-PCIE-16GB --gpus 8 --model alexnet --batch 256 --host "
      "chameleon-p100 --workers 24 --cache minio --cache-share 0.4 --epochs 2 --clock virtual\n"
      "  gpemu cluster run -- gpemu train --gpu V100-PCIE-32GB --model resnet18 --data photos "
      "--storage hdd --cache minio --cache-share 0.5 --peers partitioned --join cluster\n");
  auto options = std::make_shared<RunOptions>();
  command.last_value_counts();  // So that a script can append options to common ones.
  add_gpu_options(command, options->gpu);
  add_node_options(command, options->gpu);
  add_data_options(command, options->data);
  add_cache_options(command, options->data);
  add_host_options(command, options->host);
  add_join_options(command, options->join);
  add_service_options(command, options->service);
  command.option("--epochs", options->epochs, "Passes over the data set")
      .range(1, 1 << 20)
      .show_default();
  command
      .option("--steps", options->steps,
              "Stop after this many steps; default with --synthetic: 100")
      .positive();
  command.flag("--synthetic", options->synthetic, "No data path: batches are already on the GPU")
      .excludes("--data")
      .excludes("--host")
      .excludes("--data-service")
      .excludes("--log-samples");
  command.flag("--cold", options->cold, "Drop the data set from the page cache first")
      .needs("--data");
  command
      .option("--clock", options->clock,
              "real; virtual: counts the GPU's time instead of waiting for it; needs --synthetic "
              "or --host, excludes --node")
      .one_of({"real", "virtual"})
      .show_default();
  command.option("--json", options->output.json,
                 "Write the result as JSON; - prints it instead of the table");
  command.option("--trace", options->output.trace, "Write a trace that opens in Perfetto");
  command.option("--report", options->output.report, "Write an HTML page with plots");
  command.flag("--quiet", options->output.quiet, "No progress, no table");
  command.on_run([options, &world] { return run_train(*options, world); });
}

}  // namespace gpemu::tools
