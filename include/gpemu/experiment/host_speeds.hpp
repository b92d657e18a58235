// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/profile/experiment_spec.hpp"

namespace gpemu::experiment {

/// The hosts on which models are to train: each GPU with each number of cores and each memory.
struct HostGrid {
  std::vector<std::string> gpus;  ///< empty: that of each row.
  std::vector<int> cores;         ///< for a GPU, which are its loader's workers.
  /// For a GPU, which caches that much of the data set. Empty: what each row says.
  std::vector<double> memory_gib;
};

/// How fast a model trains.
struct HostSpeed {
  std::string model;  ///< the row's name.
  std::string gpu;    ///< empty: that of the row.
  int cores = 0;
  double memory_gib = 0;  ///< 0: as the row says.
  double samples_per_s = 0;
  std::string evidence;  ///< on what it rests.
};

/// Trains what the rows of an experiment train (of several variants, the first) on each host of the
/// grid. Calls `done` after each with their number so far. Models in their order, GPUs, cores,
/// memory.
///
/// Requires: cores and memory are positive. Errors: those of ExperimentRunner::setup(), with the
/// row; kInvalidArgument if a row does not train on a described host, or states its step's time
///   although GPUs are given; kInterrupted after `stop`.
[[nodiscard]] Result<std::vector<HostSpeed>> host_speeds(
    ExperimentRunner& runner, const profile::ExperimentSpec& spec, const HostGrid& grid,
    const std::atomic<bool>& stop, const std::function<void(std::size_t)>& done);

/// Returns a table of speeds (docs/reference/job-tables.md), in which that with `base_cores` and
/// `base_memory_gib` of the first GPU is 1.
///
/// Requires: there is such a speed of each model.
[[nodiscard]] std::string speed_table(std::span<const HostSpeed> speeds, int base_cores,
                                      double base_memory_gib);

}  // namespace gpemu::experiment
