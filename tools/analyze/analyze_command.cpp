// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/train/host_source.hpp"

#include "analyze/analyze_report.hpp"
#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "train/host_data.hpp"
#include "train/training_session.hpp"

namespace gpemu::tools {
namespace {

/// Steps of a pass in virtual time, in which all but the first are alike.
constexpr std::int64_t kVirtualSteps = 10;

Duration mean_step(const train::TrainResult& result) {
  return result.steps.statistics(result.start, train::StepEnd::kTimeline).mean;
}

/// Returns the step time of batches that cost the host nothing.
Result<Duration> run_virtual_pass(const RunOptions& options, const World& world,
                                  train::SyntheticSource::Place place,
                                  const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(TrainingSession session, TrainingSession::create(options.gpu, true, world));
  train::SyntheticSource source(options.gpu.batch, kVirtualSteps, place);
  GPEMU_ASSIGN(const train::TrainResult result, session.run(source, stop));
  return mean_step(result);
}

/// Trains on described hosts for an epoch, in virtual time.
Result<train::TrainResult> run_described_pass(HostFiles files, const World& world,
                                              AnalyzeReport& report,
                                              const std::atomic<bool>& stop) {
  const RunOptions& options = report.options;
  GPEMU_ASSIGN(TrainingSession session, TrainingSession::create(options.gpu, true, world));
  GPEMU_ASSIGN(const HostPath path, open_host(options, world, stop, files));
  if (path.gpu_time > Duration::zero()) {
    return fail(ErrorCode::kUnsupported,
                "the loader preprocesses on the GPU, so preprocessing is no pass of its own: use "
                "gpemu train, or name another loader with --host-loader");
  }
  report.images = path.files;
  report.bytes = path.bytes;
  if (path.batches_per_epoch < 2) {
    return fail(ErrorCode::kInvalidArgument,
                "a pass needs at least two batches to measure a step: {} images are {} of {}",
                path.files, path.batches_per_epoch, options.gpu.batch);
  }
  train::HostSource source(*path.loaders, session.clock(), 1, options.steps);
  GPEMU_ASSIGN(train::TrainResult result, session.run(source, stop));
  if (result.stopped) return fail(ErrorCode::kInterrupted, "stopped; no result");
  return result;
}

/// The parts that both passes over real data share.
struct RealPass {
  std::string label;
  Result<void> (*prepare)(const data::Dataset& dataset, const std::atomic<bool>& stop);
};

Result<train::TrainResult> run_real_pass(const RealPass& pass, const World& world,
                                         AnalyzeReport& report, const std::atomic<bool>& stop) {
  const RunOptions& options = report.options;
  GPEMU_ASSIGN(TrainingSession session, TrainingSession::create(options.gpu, false, world));
  GPEMU_ASSIGN(const DataPath path,
               open_data(options.data, options.gpu, session.model().model(), world, stop));
  report.images = path.dataset->samples().size();
  report.bytes = path.dataset->total_bytes();
  const std::int64_t all = path.loader->batches_per_epoch();
  const std::int64_t steps = std::min(all, options.steps.value_or(all));
  if (steps < 2) {
    return fail(ErrorCode::kInvalidArgument,
                "a pass needs at least two batches to measure a step: {} holds {} batches "
                "of {}",
                options.data.folder.string(), all, options.gpu.batch);
  }
  GPEMU_TRY(pass.prepare(*path.dataset, stop));
  train::LoaderSource source(*path.loader, 1, steps);
  const report::HostLoadMeter meter(report::LoadScope::kThisProcess, world.host_sample);
  report::Progress progress({.label = pass.label, .images = options.gpu.batch}, steps,
                            options.output.quiet, world.progress_host());
  GPEMU_ASSIGN(train::TrainResult result,
               session.run(source, stop, [&](const train::ObservedStep& step) {
                 progress.update(step.index + 1);
               }));
  if (result.stopped) {
    return fail(ErrorCode::kInterrupted, "stopped in the pass '{}'; no result", pass.label);
  }
  if (!report.provenance.load) report.provenance.load.emplace();
  *report.provenance.load += meter.read();
  return result;
}

/// Runs the two passes that load data: on described hosts, or over real files.
Result<void> run_data_passes(const World& world, AnalyzeReport& report,
                             const std::atomic<bool>& stop) {
  if (report.options.origin == BatchOrigin::kHost) {
    GPEMU_ASSIGN(report.cached, run_described_pass(HostFiles::kInMemory, world, report, stop));
    GPEMU_ASSIGN(report.cold, run_described_pass(HostFiles::kInStorage, world, report, stop));
    report.passes.cached = mean_step(report.cached);
    report.passes.cold = mean_step(report.cold);
    return {};
  }
  const RealPass cached{.label = "cached",
                        .prepare = [](const data::Dataset& dataset, const std::atomic<bool>& its) {
                          return dataset.fill_page_cache(&its);
                        }};
  GPEMU_ASSIGN(report.cached, run_real_pass(cached, world, report, stop));
  report.passes.cached = mean_step(report.cached);
  const RealPass cold{.label = "cold", .prepare = make_cold};
  GPEMU_ASSIGN(report.cold, run_real_pass(cold, world, report, stop));
  report.passes.cold = mean_step(report.cold);
  return {};
}

Result<void> run_analyze(const RunOptions& options, const World& world) {
  const OutputOptions& output = options.output;
  GPEMU_TRY(report::check_outputs({report::file_of(output.json), output.report}));
  AnalyzeReport report{.options = options,
                       .provenance = report::provenance_at(world.time_of_day())};
  {
    GPEMU_ASSIGN(const TrainingSession session, TrainingSession::create(options.gpu, true, world));
    report.gpu = session.model().gpu().name;
    report.model = session.model().model().name;
    report.precision = session.model().precision();
    report.plan = session.plan();
  }
  const InterruptGuard interrupt;
  using Place = train::SyntheticSource::Place;
  StallPasses& passes = report.passes;
  GPEMU_ASSIGN(passes.ingestion,
               run_virtual_pass(options, world, Place::kDevice, interrupt.flag()));
  GPEMU_ASSIGN(passes.copying,
               run_virtual_pass(options, world, Place::kHostMemory, interrupt.flag()));
  GPEMU_TRY(run_data_passes(world, report, interrupt.flag()));

  if (!output.quiet && !report::is_printed(output.json))
    report::print_out("{}", analyze_text(report, world.terminal().output_columns));
  if (!output.json.empty())
    GPEMU_TRY(report::write_json(output.json, report::json_text(analyze_json(report))));
  if (!output.report.empty()) {
    GPEMU_TRY(write_file_atomically(output.report, analyze_page(report)));
  }
  return {};
}

/// Adds a form with the options that both have.
Command add_form_of_analyze(Command analyze, const std::string& name,
                            const std::string& description, const World& world,
                            std::shared_ptr<RunOptions> options) {
  Command command = analyze.subcommand(name, description);
  command.last_value_counts();  // So that a script can append options to common ones.
  add_gpu_options(command, options->gpu);
  command.option("--steps", options->steps, "Maximum number of steps per pass")
      .range(2, std::int64_t{1} << 40);
  add_output_options(command, options->output);
  add_loading_options(command, *options);
  command.on_run([options, &world] { return run_analyze(*options, world); });
  return command;
}

}  // namespace

void add_analyze_command(Command app, const World& world) {
  Command command = app.subcommand(
      "analyze", "Measure how long training waits for storage and for preprocessing");
  command.require_subcommand();
  constexpr const char* kFilesExample =
      "  gpemu analyze files photos --gpu V100-PCIE-32GB --model resnet18 --report stalls.html\n";
  constexpr const char* kHostExample =
      "  gpemu analyze host dgx-1 --gpu V100-PCIE-32GB --model resnet18 --workers 5\n";
  command.notes(fmt::format("Examples:\n{}{}", kFilesExample, kHostExample));

  auto real = std::make_shared<RunOptions>();
  Command files = add_form_of_analyze(command, "files", "Read and decode real files", world, real);
  files.notes(fmt::format("Example:\n{}", kFilesExample));
  add_files_options(files, real->data);

  auto described = std::make_shared<RunOptions>();
  described->origin = BatchOrigin::kHost;
  Command host = add_form_of_analyze(command, "host", "Load on described hosts, in virtual time",
                                     world, described);
  host.notes(fmt::format("Example:\n{}", kHostExample));
  add_host_options(host, *described);
}

}  // namespace gpemu::tools
