// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// Returns whether `ip netns` has made a network namespace of that name.
[[nodiscard]] bool exists_namespace(const std::string& name);

/// Returns the network namespaces of `ip netns` whose names are `prefix` and a number, or "switch".
[[nodiscard]] std::vector<std::string> namespaces_named(const std::string& prefix);

/// Ends all processes of this machine that are in network namespaces of `ip netns`: with SIGTERM,
/// and after three seconds with SIGKILL. Names that do not exist are left out.
///
/// Errors: kUnavailable if some are left after that.
[[nodiscard]] Result<void> end_processes_in(std::span<const std::string> names, const World& world);

}  // namespace gpemu::tools
