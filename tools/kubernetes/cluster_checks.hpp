// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// Something that was looked at, in a line; a fault says what to do.
struct Finding {
  bool is_fault = false;
  std::string text;

  friend bool operator==(const Finding&, const Finding&) = default;
};

/// Looks at a cluster for what keeps pods from emulated GPUs: nodes that are not ready, that offer
/// none or have unhealthy ones, devices of claims with taints, and pods that ask for GPUs and do
/// not run, each with why.
///
/// Errors: those of ApiServer.
[[nodiscard]] Result<std::vector<Finding>> check_cluster(ApiServer& server);

}  // namespace gpemu::tools
