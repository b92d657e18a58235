// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// Tells a cluster of the Xids of a machine's GPUs, as events of its Kubernetes node. Those of
/// faults that begin by a count of containers' work are not among them.
///
/// Thread safety: none.
class XidEvents {
 public:
  /// `node`: the name of the Kubernetes node.
  XidEvents(ApiServer server, std::string node)
      : server_(std::move(server)), node_(std::move(node)) {}

  /// Makes an event for each Xid of the machine since the last call. Errors: those of ApiServer;
  /// calls after half a minute try again.
  [[nodiscard]] Result<void> look(const device::Node& machine);

 private:
  [[nodiscard]] Result<void> tell(int gpu, const std::string& uuid, int xid);

  ApiServer server_;
  std::string node_;
  std::vector<std::size_t> told_;  ///< by GPU, how many.
  std::chrono::steady_clock::time_point next_;
};

}  // namespace gpemu::tools
