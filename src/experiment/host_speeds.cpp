// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/host_speeds.hpp"

#include <algorithm>
#include <utility>

#include "gpemu/base/units.hpp"
#include "gpemu/pipeline/input_pipeline.hpp"

namespace gpemu::experiment {
namespace {

Result<void> check_row(const profile::ExperimentRun& run, const HostGrid& grid) {
  if (run.host.empty() || run.cpus > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "it does not train with the workers of a described host");
  }
  if (!grid.gpus.empty() && run.step_ms > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "its step_ms is that of one GPU; with several GPUs, it needs a model");
  }
  return {};
}

/// Returns the samples per second of the last epoch. If some of the files stand for all, only the
/// wait for the first batch does not grow with their number.
double rate_of(const pipeline::EpochResult& epoch, const profile::ExperimentRun& run,
               const profile::DatasetSpec& all) {
  const double part = run.files > 0 ? std::min(1.0, run.files / static_cast<double>(all.files)) : 1;
  const double whole_s = epoch.first_wait_s + (epoch.epoch_s - epoch.first_wait_s) / part;
  return static_cast<double>(epoch.samples) / part / whole_s;
}

/// Returns the samples per second of a run that caches so much of its data set; with 0, what it
/// says.
Result<double> samples_per_s(ExperimentRunner& runner, profile::ExperimentRun run,
                             double memory_gib, const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const profile::DatasetSpec* files, runner.dataset(run.dataset));
  if (memory_gib > 0) {
    run.cache_share =
        std::min(1.0, memory_gib * static_cast<double>(kGiB) / static_cast<double>(files->bytes));
  }
  GPEMU_ASSIGN(const pipeline::PipelineSetup setup, runner.setup(run));
  const std::vector<pipeline::EpochResult> epochs = pipeline::simulate(setup, &stop);
  if (stop) return fail(ErrorCode::kInterrupted, "interrupted");
  return rate_of(epochs.back(), run, *files);
}

/// Adds the speeds of one model on one GPU.
Result<void> add_speeds(ExperimentRunner& runner, const profile::ExperimentRow& row,
                        const profile::ExperimentRun& base, const HostGrid& grid,
                        const std::atomic<bool>& stop, const std::function<void(std::size_t)>& done,
                        std::vector<HostSpeed>& speeds) {
  GPEMU_TRY(check_row(base, grid));
  GPEMU_ASSIGN(const std::string step, runner.step_evidence(base));
  const std::vector<double> as_the_row = {0};
  for (const int cores : grid.cores) {
    for (const double memory : grid.memory_gib.empty() ? as_the_row : grid.memory_gib) {
      profile::ExperimentRun run = base;
      run.workers = cores;
      GPEMU_ASSIGN(const double rate, samples_per_s(runner, run, memory, stop));
      speeds.push_back({.model = row.name,
                        .gpu = grid.gpus.empty() ? "" : base.gpu,
                        .cores = cores,
                        .memory_gib = memory,
                        .samples_per_s = rate,
                        .evidence = fmt::format("{} step; host {}", step, base.host)});
      done(speeds.size());
    }
  }
  return {};
}

}  // namespace

Result<std::vector<HostSpeed>> host_speeds(ExperimentRunner& runner,
                                           const profile::ExperimentSpec& spec,
                                           const HostGrid& grid, const std::atomic<bool>& stop,
                                           const std::function<void(std::size_t)>& done) {
  std::vector<HostSpeed> speeds;
  for (const profile::ExperimentRow& row : spec.rows) {
    std::vector<std::string> gpus = grid.gpus;
    if (gpus.empty()) gpus = {row.runs.front().gpu};
    for (const std::string& gpu : gpus) {
      profile::ExperimentRun base = row.runs.front();
      base.gpu = gpu;
      auto added = add_speeds(runner, row, base, grid, stop, done, speeds);
      if (added) continue;
      Error error = std::move(added).error();
      error.message = fmt::format("{}, row {}: {}", spec.name, row.name, error.message);
      return std::unexpected(std::move(error));
    }
  }
  return speeds;
}

std::string speed_table(std::span<const HostSpeed> speeds, int base_cores, double base_memory_gib) {
  std::string text = "model,gpu,cores,memory_gib,speed,evidence\n";
  for (const HostSpeed& speed : speeds) {
    // The first of a model with the base's host is that of the first GPU.
    const auto base = std::ranges::find_if(speeds, [&](const HostSpeed& other) {
      return other.model == speed.model && other.cores == base_cores &&
             other.memory_gib == base_memory_gib;
    });
    GPEMU_CHECK(base != speeds.end(), "the base is one of the grid");
    text += fmt::format("{},{},{},{},{:.4f},{}\n", speed.model, speed.gpu, speed.cores,
                        speed.memory_gib > 0 ? fmt::format("{}", speed.memory_gib) : "",
                        speed.samples_per_s / base->samples_per_s, speed.evidence);
  }
  return text;
}

}  // namespace gpemu::experiment
