// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>

#include "gpemu/base/error.hpp"

#include "kubernetes/api_server.hpp"
#include "kubernetes/leader_election.hpp"
#include "kubernetes/pod_scheduler.hpp"

namespace gpemu::tools {

struct SchedulerOptions {
  PodSchedulerSettings settings;
  LeaderElectionOptions election;
  std::size_t connections = 8;  ///< to the API server, for bindings.
};

/// Waits until it is the leader, and then schedules pods until `stop` is set. `log` gets lines of
/// what happens, also from other threads.
///
/// Errors: kUnavailable if it is the leader no more: start it anew; those of the API server.
[[nodiscard]] Result<void> serve_scheduler(const ApiAccess& access, const SchedulerOptions& options,
                                           const std::atomic<bool>& stop,
                                           const std::function<void(const std::string&)>& log);

}  // namespace gpemu::tools
