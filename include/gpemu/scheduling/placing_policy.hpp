// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpemu/scheduling/fragmentation.hpp"
#include "gpemu/scheduling/placement.hpp"
#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// Returns a policy that starts jobs in the order of arrival, each one where a placement puts it;
/// those that do not fit wait, and others overtake them. A job that no server is large enough for
/// gets whole servers. None is preempted.
///
/// `expected`: the demands that are expected to come; empty: those of the jobs that have arrived.
/// Requires: the free resources that it sees have Tracking::kServers.
[[nodiscard]] std::unique_ptr<Policy> make_placing_policy(const PlacementEntry& placement,
                                                          std::vector<TypicalDemand> expected,
                                                          std::uint64_t seed = 0);

}  // namespace gpemu::scheduling
