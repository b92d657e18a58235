// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "kubernetes/api_server.hpp"
#include "kubernetes/hollow_pods.hpp"

namespace gpemu::tools {

struct HollowNodesOptions {
  std::vector<HollowNode> nodes;
  double speed = 1;             ///< pods run so many times as fast.
  std::size_t connections = 8;  ///< to the API server.
};

/// Registers nodes, keeps them ready and plays their kubelets until `stop` is set; then removes
/// them. `log` gets lines of what happens, also from other threads.
///
/// Errors: those of the API server; kUnavailable if a node with such a name exists that is not
/// hollow.
[[nodiscard]] Result<void> serve_hollow_nodes(const ApiAccess& access,
                                              const HollowNodesOptions& options,
                                              const std::atomic<bool>& stop,
                                              const std::function<void(const std::string&)>& log);

}  // namespace gpemu::tools
