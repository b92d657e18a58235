// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/cdi_spec.hpp"
#include "gpemu/containers/gpu_pool.hpp"

#include "kubernetes/api_server.hpp"
#include "kubernetes/resource_slice.hpp"

namespace gpemu::tools {

/// How a driver of dynamic resource allocation meets the kubelet and container runtimes.
struct DraDriverOptions {
  SliceOptions slice;
  containers::Division division = containers::Division::kNone;  ///< of GPUs that are divided.
  std::filesystem::path kubelet = "/var/lib/kubelet";           ///< its folder.
  std::filesystem::path cdi = containers::kCdiFolder;  ///< where runtimes find specifications.
};

/// Serves the kubelet until `stop` is set: publishes the pool's GPUs, with taints on those that are
/// lost, and prepares claims. At the end, it publishes them no longer. `log` gets a line for each
/// event. An API server that does not answer is asked again.
///
/// Errors: kIo if no sockets can be made in the kubelet's folder.
[[nodiscard]] Result<void> serve_claims(const DraDriverOptions& options, const ApiAccess& access,
                                        containers::GpuPool& pool, const std::atomic<bool>& stop,
                                        const std::function<void(const std::string&)>& log);

}  // namespace gpemu::tools
