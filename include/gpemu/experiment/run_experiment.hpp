// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/experiment/expression.hpp"
#include "gpemu/pipeline/input_pipeline.hpp"
#include "gpemu/pipeline/service_pipeline.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/experiment_spec.hpp"
#include "gpemu/profile/host_spec.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::experiment {

/// A quantity of a run on described hosts that expressions can use.
struct Quantity {
  std::string_view name;     ///< e.g. "epoch_s".
  std::string_view meaning;  ///< for the documentation.
  double (*of)(const pipeline::EpochResult& result);
};
[[nodiscard]] std::span<const Quantity> quantities();

/// A quantity of a run in which a policy schedules jobs.
struct ScheduleQuantity {
  std::string_view name;  ///< e.g. "average_jct_s".
  std::string_view meaning;
  double (*of)(const scheduling::ScheduleMetrics& metrics);
};
[[nodiscard]] std::span<const ScheduleQuantity> schedule_quantities();

/// What a run measured: the value of each quantity of its kind.
class RunResult {
 public:
  explicit RunResult(const pipeline::EpochResult& epoch);
  explicit RunResult(const scheduling::ScheduleMetrics& metrics);

  [[nodiscard]] const std::vector<std::pair<std::string_view, double>>& values() const {
    return values_;
  }
  /// Returns the value of this name; nothing if runs of this kind have none.
  [[nodiscard]] std::optional<double> value(std::string_view name) const;

 private:
  std::vector<std::pair<std::string_view, double>> values_;
};

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
  /// Errors: those of its hosts, data sets, GPUs, models and expressions, with the row;
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

  /// Returns a described host, which it keeps. Errors: those of find_host().
  [[nodiscard]] Result<const profile::HostSpec*> host(const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Puts the caches of a run into a setup that has its files.
void add_caches(const profile::ExperimentRun& run, pipeline::PipelineSetup& setup);

}  // namespace gpemu::experiment
