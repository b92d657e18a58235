// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "gpemu/base/file.hpp"
#include "gpemu/pipeline/cache.hpp"
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
  std::int64_t all = options.epochs;
  if (options.origin == BatchOrigin::kSynthetic) {
    all = options.steps.value_or(kSyntheticSteps);
    source.batches = std::make_unique<train::SyntheticSource>(options.gpu.batch, all);
  } else if (options.origin == BatchOrigin::kHost) {
    all *= source.host.batches_per_epoch;
    source.batches = std::make_unique<train::HostSource>(*source.host.loaders, session.clock(),
                                                         options.epochs, options.steps);
  } else if (options.origin == BatchOrigin::kService) {
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
  GPEMU_TRY(report::check_outputs(
      {report::file_of(options.output.json), options.output.trace, options.output.report}));
  const InterruptGuard interrupt;
  RunSource source;
  if (options.origin == BatchOrigin::kHost) {
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

/// Adds the options that place a run on an existing node.
void add_node_options(Command command, GpuOptions& options) {
  command
      .option("--node", options.node,
              "Attach to this node, NAME or USER/NAME for another user's, instead of "
              "creating one for the run")
      .excludes("--nodes")
      .excludes("--faults");
  command.option("--device", options.device, "First device to use on the node")
      .non_negative()
      .needs("--node");
}

void add_epochs_option(Command command, RunOptions& options) {
  command.option("--epochs", options.epochs, "Passes over the data set")
      .range(1, 1 << 20)
      .show_default();
}

void add_cache_options(Command command, DataOptions& options, const std::string& page) {
  command
      .option("--cache", options.cache,
              "What stays in memory on each node: page: what was used last" + page +
                  "; random: any files; minio: the first files that are read; small-first: the "
                  "smallest")
      .one_of(pipeline::kCachePolicyNames)
      .show_default();
  command
      .option("--cache-share", options.cache_share,
              "The part of the data set's bytes that can stay; default: what memory holds")
      .real_range(0, 100);
}

/// Adds the form for an origin of batches, with the options that all forms have.
std::pair<Command, RunOptions&> add_form(Command train, const World& world, BatchOrigin origin,
                                         const char* name, const char* description) {
  Command command = train.subcommand(name, description);
  auto options = std::make_shared<RunOptions>();
  options->origin = origin;
  command.last_value_counts();  // So that a script can append options to common ones.
  add_gpu_options(command, options->gpu);
  command.option("--faults", options->gpu.faults,
                 "What goes wrong with the GPUs: a TOML file (docs/reference/faults-file.md)");
  command.option("--steps", options->steps, "Stop after this many steps").positive();
  command.option("--trace", options->output.trace, "Write a trace that opens in Perfetto");
  add_output_options(command, options->output);
  command.on_run([options, &world] { return run_train(*options, world); });
  return {command, *options};
}

void add_files_form(Command train, const World& world) {
  auto [command, options] = add_form(train, world, BatchOrigin::kFiles, "files",
                                     "Train on real files, which this machine reads and decodes");
  command.notes(
      "Examples:\n"
      "  gpemu train files photos --gpu V100-PCIE-32GB --model resnet18 --report run.html\n"
      "  gpemu cluster run -- gpemu train files photos --gpu V100-PCIE-32GB --model resnet18 "
      "--storage hdd --cache minio --cache-share 0.5 --peers partitioned --join cluster\n");
  add_files_options(command, options.data);
  add_loading_options(command, options);
  add_epochs_option(command, options);
  command.flag("--cold", options.cold, "Drop the data set from the page cache first");
  add_cache_options(command, options.data,
                    ", as in the kernel's page cache, which all else, or page with --cache-share, "
                    "replaces by a cache of the process");
  add_peers_option(command, options.host);
  command.option("--join", options.join.place,
                 "Train together with other processes, of which this is RANK/NODES@HOST:PORT, e.g. "
                 "0/2@10.77.0.1:29500, where node 0 listens; cluster: as `gpemu cluster run` says. "
                 "--batch counts the samples of each node");
  add_log_option(command, options.join);
  add_node_options(command, options.gpu);
}

void add_host_form(Command train, const World& world) {
  auto [command, options] = add_form(train, world, BatchOrigin::kHost, "host",
                                     "Train on described hosts, in virtual time");
  command.notes(
      "Examples:\n"
      "  gpemu train host ./here.toml --data photos --gpu V100-PCIE-32GB --model resnet18\n"
      "  gpemu train host chameleon-p100 --gpu P100-PCIE-16GB --gpus 8 --model alexnet --batch 256 "
      "--workers 24 --cache minio --cache-share 0.4 --epochs 2\n");
  options.clock = "virtual";
  add_host_options(command, options);
  add_loading_options(command, options);
  add_epochs_option(command, options);
  add_cache_options(command, options.data, "");
}

void add_service_form(Command train, const World& world) {
  auto [command, options] = add_form(train, world, BatchOrigin::kService, "service",
                                     "Train on batches from the workers of a dispatcher");
  command.notes(
      "Example:\n  gpemu train service 127.0.0.1:5050 --gpu V100-PCIE-32GB --model resnet18\n");
  command.option("dispatcher", options.service.dispatcher, "HOST:PORT of `gpemu data dispatch`")
      .required();
  command.option(
      "--job", options.service.job,
      "A name: runs that give the same one share its batches; default: all for this run");
  add_loading_options(command, options);
  add_epochs_option(command, options);
  add_log_option(command, options.join);
  add_node_options(command, options.gpu);
}

void add_synthetic_form(Command train, const World& world) {
  auto [command, options] = add_form(train, world, BatchOrigin::kSynthetic, "synthetic",
                                     "Train on batches that are already on the GPU; without "
                                     "--steps, for 100 steps");
  command.notes(
      "Examples:\n"
      "  gpemu train synthetic --gpu V100-PCIE-32GB --model resnet50 --steps 200\n"
      "  gpemu train synthetic --topology dgx-a100 --gpus 64 --nodes 8 --model resnet50 --batch "
      "4096 --clock virtual\n");
  add_node_options(command, options.gpu);
  command
      .option("--clock", options.clock,
              "real; virtual: counts the GPU's time instead of waiting for it")
      .one_of({"real", "virtual"})
      .excludes("--node")
      .show_default();
}

}  // namespace

void add_train_command(Command app, const World& world) {
  Command command =
      app.subcommand("train", "Train on emulated GPUs and report what limits the run");
  command.require_subcommand();
  command.notes(
      "Each form has options of its own: `gpemu train files --help`.\n\n"
      "Examples:\n"
      "  gpemu train files photos --gpu V100-PCIE-32GB --model resnet18\n"
      "  gpemu train host dgx-1 --gpu V100-PCIE-32GB --model resnet18\n"
      "  gpemu train synthetic --gpu V100-PCIE-32GB --model resnet18 --clock virtual\n");
  add_files_form(command, world);
  add_host_form(command, world);
  add_service_form(command, world);
  add_synthetic_form(command, world);
}

}  // namespace gpemu::tools
