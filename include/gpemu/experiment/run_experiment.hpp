// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/experiment/expression.hpp"
#include "gpemu/experiment/run_result.hpp"
#include "gpemu/pipeline/input_pipeline.hpp"
#include "gpemu/pipeline/service_pipeline.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/experiment_spec.hpp"
#include "gpemu/profile/host_spec.hpp"

namespace gpemu::experiment {

/// Returns the quantities of all kinds of runs.
[[nodiscard]] std::vector<Quantity> quantities();

struct RowResult {
  std::vector<RunResult> runs;  ///< one for each variant; of epochs, the last one.
  std::vector<double> columns;
};

struct CheckResult {
  bool met = false;
  std::string sides;  ///< what was compared, e.g. "0.83 >= 0.8".
};

struct ExperimentResult {
  profile::ExperimentSpec spec;
  std::vector<RowResult> rows;
  std::vector<CheckResult> checks;
};

/// Runs experiments on described hosts and fleets. The database must outlive it. Thread safety:
/// none.
class ExperimentRunner {
 public:
  struct Folders {
    std::filesystem::path hosts;
    std::filesystem::path storage;
    std::filesystem::path datasets;
  };

  ExperimentRunner(Folders folders, const profile::Database& database);
  ExperimentRunner(ExperimentRunner&&) noexcept;
  ExperimentRunner& operator=(ExperimentRunner&&) noexcept;
  ~ExperimentRunner();

  /// Runs an experiment; calls `done` after each run with the number of runs so far.
  ///
  /// Errors: those of its hosts, data sets, GPUs, models, tables and expressions, with the row;
  /// kInterrupted after `stop`.
  [[nodiscard]] Result<ExperimentResult> run(profile::ExperimentSpec spec,
                                             const std::atomic<bool>& stop,
                                             const std::function<void(std::size_t)>& done);

  /// Return what the simulation of one run gets: of worker processes, or of threads and workers
  /// elsewhere, if the run has `cpus`.
  ///
  /// Errors: those of the host, the data set, the GPU and the model; kInvalidArgument if they do
  /// not fit each other.
  ///
  /// Without a name of a data set, the files and the caches of worker processes are missing.
  [[nodiscard]] Result<pipeline::PipelineSetup> setup(const profile::ExperimentRun& run);
  [[nodiscard]] Result<pipeline::ServiceSetup> service_setup(const profile::ExperimentRun& run);

  /// Return a described host or data set, which it keeps. Errors: those of find_host() and
  /// find_dataset().
  [[nodiscard]] Result<const profile::HostSpec*> host(const std::string& name);
  [[nodiscard]] Result<const profile::DatasetSpec*> dataset(const std::string& name);

  /// Returns on what a run's step time rests: "stated" by the run, or a name of the cost model's.
  ///
  /// Errors: those of the GPU and the model.
  [[nodiscard]] Result<std::string> step_evidence(const profile::ExperimentRun& run);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Puts the caches of a run into a setup that has its files.
void add_caches(const profile::ExperimentRun& run, pipeline::PipelineSetup& setup);

}  // namespace gpemu::experiment
