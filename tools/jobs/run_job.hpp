// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/interleaving.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// A job as tables have it, which runs on emulated GPUs. Units: seconds.
struct RunJobOptions {
  std::uint64_t iterations = 0;
  double iteration_s = 0;  ///< the time of one with GPUs of its own.
  /// Storage and processors, GPUs, network; nothing: GPUs alone.
  std::optional<scheduling::Stages> stages_s;
  std::filesystem::path pace;      ///< a file with a pace, which may change; empty: 1.
  std::filesystem::path progress;  ///< is told how many iterations are done; empty: nobody is.
  bool resume = false;             ///< begin with what `progress` says, if the file exists.
  std::string node;                ///< whose GPUs; empty: that of GPEMU_NODE, or the only one.
  /// The first of its GPUs; nothing: the first of those that GPEMU_DEVICES names, or 0.
  std::optional<std::uint32_t> device;
  int gpus = 1;
};

/// Runs a job: in each iteration it waits as if it read and prepared a batch, keeps its GPUs busy,
/// and waits as if it communicated; then it waits until the iteration has taken its time, times the
/// pace. If the GPUs take longer, because others use them, it takes longer. Returns how many
/// iterations are done.
///
/// Errors: those of the node; kInvalidArgument for GPUs that it has not, and for files with
/// something else than a pace or a number of iterations; kInterrupted if `stop` was set, after the
/// progress is written.
[[nodiscard]] Result<std::uint64_t> run_job(const RunJobOptions& options, const World& world,
                                            const std::atomic<bool>& stop);

}  // namespace gpemu::tools
