// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "gpemu/base/error.hpp"

#include "cli/world.hpp"
#include "slurm/queue_scheduler.hpp"

namespace gpemu::tools {

struct ServeQueueOptions {
  QueueSchedulerSettings settings;
  std::filesystem::path folder;  ///< of PaceFiles; empty: none.
};

/// Schedules the jobs of a partition until `stop` is set. `log` gets what went wrong.
///
/// Errors: those of SlurmPrograms at the first question; later, they are logged.
[[nodiscard]] Result<void> serve_queue(const World& world, const ServeQueueOptions& options,
                                       const std::atomic<bool>& stop,
                                       const std::function<void(const std::string&)>& log);

}  // namespace gpemu::tools
