// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/run_experiment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "gpemu/pipeline/fastflow.hpp"
#include "gpemu/pipeline/file_sizes.hpp"
#include "gpemu/profile/host_spec.hpp"
#include "gpemu/step/step_cost.hpp"

#include "fleet_runs.hpp"

namespace gpemu::experiment {
namespace {

using pipeline::EpochResult;

/// Returns where a name stands among things that have names.
template <typename Things>
std::optional<std::size_t> place_of(const Things& things, std::string_view name) {
  for (std::size_t i = 0; i < things.size(); ++i) {
    if (things[i].name == name) return i;
  }
  return std::nullopt;
}

std::unexpected<Error> unknown_name(std::string_view name, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "'{}' is not {}", name, what);
}

/// Returns the value of a name in a column: a quantity of a variant's run, or an earlier column.
Result<Value> in_column(const profile::ExperimentSpec& spec, const RowResult& row,
                        std::string_view name) {
  if (const auto column = place_of(spec.columns, name); column && *column < row.columns.size()) {
    return Value{row.columns[*column]};
  }
  const std::size_t dot = name.find('.');
  const auto variant = std::ranges::find(spec.variants, name.substr(0, dot));
  std::optional<double> value;
  if (dot != std::string_view::npos && variant != spec.variants.end()) {
    const auto run = static_cast<std::size_t>(variant - spec.variants.begin());
    value = row.runs[run].value(name.substr(dot + 1));
  }
  if (!value) return unknown_name(name, "an earlier column or VARIANT.QUANTITY");
  return Value{*value};
}

/// Returns the value of a name in a check: a column, "paper" or "gpemu", of all rows or of one.
Result<Value> in_check(const ExperimentResult& result, std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string_view column_name = name.substr(0, dot);
  Value values;
  if (const auto column = place_of(result.spec.columns, column_name)) {
    for (const RowResult& row : result.rows) values.push_back(row.columns[*column]);
  } else if (column_name == "paper" || column_name == "gpemu") {
    for (const profile::ExperimentRow& row : result.spec.rows) {
      values.push_back(column_name == "paper" ? row.paper : row.gpemu);
    }
  } else {
    return unknown_name(name, "a column, paper or gpemu");
  }
  if (dot == std::string_view::npos) return values;
  const auto row = place_of(result.spec.rows, name.substr(dot + 1));
  if (!row) return unknown_name(name, "a column of a row");
  return Value{values[*row]};
}

std::unexpected<Error> in_context(Error error, std::string_view experiment, std::string_view part) {
  error.message = fmt::format("experiment {}, {}: {}", experiment, part, error.message);
  return std::unexpected(std::move(error));
}

template <std::size_t N>
std::size_t index_in(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  GPEMU_CHECK(found != names.end(), "the reader checks choices");
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

std::vector<Quantity> quantities() {
  std::vector<Quantity> all = epoch_quantities();
  const std::vector<Quantity> fleet = fleet_quantities();
  all.insert(all.end(), fleet.begin(), fleet.end());
  return all;
}

struct ExperimentRunner::State {
  Folders folders;
  const profile::Database& database;
  std::map<std::string, profile::HostSpec> hosts;
  std::map<std::string, profile::DatasetSpec> datasets;
  std::map<std::pair<std::string, std::string>, step::StepCostModel> costs;  ///< by model, GPU.
  /// Runs that several rows or variants share.
  std::vector<std::pair<profile::ExperimentRun, RunResult>> known;

  Result<const profile::HostSpec*> host(const std::string& name) {
    if (!hosts.contains(name)) {
      GPEMU_ASSIGN(profile::HostSpec spec,
                   profile::find_host({folders.hosts, folders.storage}, name));
      hosts.emplace(name, std::move(spec));
    }
    return &hosts.at(name);
  }

  Result<const profile::DatasetSpec*> dataset(const std::string& name) {
    if (!datasets.contains(name)) {
      GPEMU_ASSIGN(profile::DatasetSpec spec, profile::find_dataset(folders.datasets, name));
      datasets.emplace(name, std::move(spec));
    }
    return &datasets.at(name);
  }

  Result<step::StepCost> step_cost(const profile::ExperimentRun& run) {
    if (run.gpu.empty() || run.model.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "without gpu and model, it needs step_ms and copy_ms");
    }
    const std::pair key(run.model, run.gpu);
    if (!costs.contains(key)) {
      GPEMU_ASSIGN(step::StepCostModel model,
                   step::StepCostModel::create(database, run.model, run.gpu));
      costs.emplace(key, std::move(model));
    }
    return costs.at(key).step((run.batch + run.gpus - 1) / run.gpus);
  }

  /// What a step and its copy take on the GPUs.
  struct GpuTimes {
    double step_s = 0, copy_s = 0;
  };
  Result<GpuTimes> gpu_times(const profile::ExperimentRun& run) {
    GpuTimes times{.step_s = run.step_ms * 1e-3, .copy_s = run.copy_ms * 1e-3};
    if (run.step_ms > 0 && run.copy_ms >= 0) return times;
    GPEMU_ASSIGN(const step::StepCost cost, step_cost(run));
    if (run.step_ms == 0) times.step_s = to_seconds(cost.compute());
    if (run.copy_ms < 0) {
      const auto& copy = run.copy == "pinned" ? cost.copy_pinned : cost.copy_pageable;
      times.copy_s = to_seconds(copy.time);
    }
    return times;
  }

  Result<void> add_files(const profile::ExperimentRun& run, pipeline::PipelineSetup& setup) {
    GPEMU_ASSIGN(const profile::DatasetSpec* found, dataset(run.dataset));
    std::vector<pipeline::SizePercentile> percentiles;
    percentiles.reserve(found->percentiles.size());
    for (const auto& [percent, bytes] : found->percentiles) percentiles.push_back({percent, bytes});
    const std::uint64_t files = run.files > 0
                                    ? std::min(found->files, static_cast<std::uint64_t>(run.files))
                                    : found->files;
    const double part = static_cast<double>(files) / static_cast<double>(found->files);
    const auto bytes = static_cast<Bytes>(std::round(static_cast<double>(found->bytes) * part));
    setup.file_bytes = pipeline::file_sizes(percentiles, files, bytes, setup.seed);
    if (run.group > 1) {
      setup.file_bytes = pipeline::grouped_sizes(setup.file_bytes,
                                                 static_cast<std::size_t>(run.group), setup.seed);
    }
    add_caches(run, setup);
    return {};
  }

  Result<RunResult> simulated(const profile::ExperimentRun& run, ExperimentRunner& runner,
                              const std::atomic<bool>& stop) {
    const auto found =
        std::ranges::find(known, run, &std::pair<profile::ExperimentRun, RunResult>::first);
    if (found != known.end()) return found->second;
    GPEMU_ASSIGN(const RunResult result, simulated_anew(run, runner, stop));
    known.emplace_back(run, result);
    return result;
  }

  static Result<RunResult> simulated_anew(const profile::ExperimentRun& run,
                                          ExperimentRunner& runner, const std::atomic<bool>& stop) {
    if (!run.policy.empty()) return schedule_jobs(run, stop);
    if (!run.placement.empty()) return fill_fleet(run, stop);
    if (run.cpus > 0) {
      GPEMU_ASSIGN(const pipeline::ServiceSetup setup, runner.service_setup(run));
      return RunResult(pipeline::simulate_service(setup));
    }
    GPEMU_ASSIGN(const pipeline::PipelineSetup setup, runner.setup(run));
    const std::vector<EpochResult> epochs = pipeline::simulate(setup, &stop);
    if (stop) return fail(ErrorCode::kInterrupted, "interrupted");
    return RunResult(epochs.back());
  }
};

ExperimentRunner::ExperimentRunner(Folders folders, const profile::Database& database)
    : state_(new State{.folders = std::move(folders),
                       .database = database,
                       .hosts = {},
                       .datasets = {},
                       .costs = {},
                       .known = {}}) {}
ExperimentRunner::ExperimentRunner(ExperimentRunner&&) noexcept = default;
ExperimentRunner& ExperimentRunner::operator=(ExperimentRunner&&) noexcept = default;
ExperimentRunner::~ExperimentRunner() = default;

Result<pipeline::PipelineSetup> ExperimentRunner::setup(const profile::ExperimentRun& run) {
  GPEMU_ASSIGN(const profile::HostSpec* host, state_->host(run.host));
  pipeline::PipelineSetup setup;
  setup.cpu = host->cpu;
  GPEMU_ASSIGN(setup.loader, host->loader(run.loader));
  GPEMU_ASSIGN(setup.storage, host->storage(run.storage));
  if (run.peers != "none" && !host->network) {
    return fail(ErrorCode::kInvalidArgument,
                "peers = \"{}\" needs a network, and the host {} has "
                "no table [network]",
                run.peers, host->name);
  }
  setup.network = host->network.value_or(profile::HostNetwork{});
  setup.samples_per_file = run.group;
  setup.nodes = run.nodes;
  setup.workers = run.workers;
  setup.prefetch_batches = run.prefetch;
  setup.batch = run.batch;
  setup.epochs = run.epochs;
  setup.seed = run.seed;
  setup.superbatch = run.superbatch;
  setup.pin = run.copy == "pinned";
  setup.shared_memory_batches = run.shared_memory_batches;
  GPEMU_ASSIGN(const State::GpuTimes times, state_->gpu_times(run));
  setup.step_s = times.step_s + setup.loader.gpu_s * run.batch / run.gpus / setup.loader.batch_of;
  setup.copy_s = times.copy_s;
  if (!run.dataset.empty()) GPEMU_TRY(state_->add_files(run, setup));
  return setup;
}

Result<const profile::HostSpec*> ExperimentRunner::host(const std::string& name) {
  return state_->host(name);
}

Result<const profile::DatasetSpec*> ExperimentRunner::dataset(const std::string& name) {
  return state_->dataset(name);
}

Result<std::string> ExperimentRunner::step_evidence(const profile::ExperimentRun& run) {
  if (run.step_ms > 0) return std::string("stated");
  GPEMU_ASSIGN(const step::StepCost cost, state_->step_cost(run));
  return std::string(cost.compute_evidence());
}

void add_caches(const profile::ExperimentRun& run, pipeline::PipelineSetup& setup) {
  setup.cache = {.policy = static_cast<pipeline::CachePolicy>(
                     index_in(pipeline::kCachePolicyNames, run.cache)),
                 .peers = static_cast<pipeline::Peers>(index_in(pipeline::kPeersNames, run.peers)),
                 .seed = setup.seed};
  const bool pages = setup.cache.policy <= pipeline::CachePolicy::kRandom;
  double bytes = 0;
  for (const std::uint32_t size : setup.file_bytes) {
    bytes += static_cast<double>(pages ? pipeline::page_bytes(size) : size);
  }
  setup.cache.capacity = static_cast<Bytes>(std::ceil(bytes * run.cache_share));
}

Result<pipeline::ServiceSetup> ExperimentRunner::service_setup(const profile::ExperimentRun& run) {
  if (run.offload != "none" && run.remote_workers == 0) {
    return fail(ErrorCode::kInvalidArgument, "offload = \"{}\" needs remote_workers", run.offload);
  }
  GPEMU_ASSIGN(const profile::HostSpec* host, state_->host(run.host));
  GPEMU_ASSIGN(const profile::HostLoader loader, host->loader(run.loader));
  GPEMU_ASSIGN(const profile::DatasetSpec* files, state_->dataset(run.dataset));
  GPEMU_ASSIGN(const State::GpuTimes times, state_->gpu_times(run));
  const auto batch = static_cast<std::uint64_t>(run.batch);
  pipeline::ServiceSetup setup{.steps = std::max<std::uint64_t>(1, files->files / batch),
                               .batch = run.batch,
                               .step_s = times.step_s + times.copy_s,
                               .cpus = run.cpus,
                               .remote_workers = run.remote_workers,
                               .remote_cpus = run.remote_cpus,
                               .image_s = loader.image_s,
                               .send_s = loader.send_s,
                               .receive_s = loader.receive_s,
                               .prefetch = run.prefetch,
                               .local_share = run.offload == "all" ? 0.0 : 1.0};
  if (run.offload == "fastflow") {
    // What FastFlow would measure. This pipeline has one place to cut it: after it.
    const double batch_s = run.batch * loader.image_s;
    const std::array<pipeline::CutPoint, 1> cuts = {
        {{.remote_steps_per_s =
              run.remote_workers * run.remote_cpus / (batch_s + run.batch * loader.send_s),
          .receive_share = loader.receive_s / loader.image_s}}};
    setup.local_share = pipeline::decide_offloading({.gpu_steps_per_s = 1 / setup.step_s,
                                                     .local_steps_per_s = run.cpus / batch_s,
                                                     .cuts = cuts})
                            .local_share;
  }
  return setup;
}

Result<ExperimentResult> ExperimentRunner::run(profile::ExperimentSpec spec,
                                               const std::atomic<bool>& stop,
                                               const std::function<void(std::size_t)>& done) {
  ExperimentResult result{.spec = std::move(spec), .rows = {}, .checks = {}};
  const std::string& name = result.spec.name;
  std::size_t runs = 0;
  for (const profile::ExperimentRow& row : result.spec.rows) {
    RowResult made;
    for (const profile::ExperimentRun& run : row.runs) {
      const Result<RunResult> simulated = state_->simulated(run, *this, stop);
      if (!simulated) return in_context(simulated.error(), name, "row " + row.name);
      made.runs.push_back(*simulated);
      done(++runs);
    }
    for (const profile::ExperimentColumn& column : result.spec.columns) {
      const Result<Value> value = compute(
          column.value, [&](std::string_view word) { return in_column(result.spec, made, word); });
      if (!value) return in_context(value.error(), name, "column " + column.name);
      made.columns.push_back(value->front());
    }
    result.rows.push_back(std::move(made));
  }
  for (const profile::ExperimentCheck& check : result.spec.checks) {
    const Result<Comparison> comparison =
        compare(check.test, [&](std::string_view word) { return in_check(result, word); });
    if (!comparison) return in_context(comparison.error(), name, "check");
    result.checks.push_back({.met = comparison->holds, .sides = comparison->sides});
  }
  return result;
}

}  // namespace gpemu::experiment
