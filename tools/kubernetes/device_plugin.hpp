// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/gpu_pool.hpp"

#include "kubernetes/xid_events.hpp"

namespace gpemu::tools {

/// How a device plugin meets the kubelet.
struct DevicePluginOptions {
  std::string resource = "nvidia.com/gpu";
  /// MIG devices are offered as "nvidia.com/mig-PROFILE", as NVIDIA's strategy "mixed" does; else
  /// as `resource`: its "single".
  bool is_mixed = false;
  std::filesystem::path folder = "/var/lib/kubelet/device-plugins";  ///< of the sockets.
};

/// Serves the kubelet until `stop` is set: registers the pool's devices, each resource by itself,
/// again after each restart of the kubelet, and says which are healthy, within a second. `log` gets
/// a line for each event.
///
/// Errors: kIo if there is no folder, or no socket can be made in it; kUnavailable if the kubelet
///   refuses the plugin.
[[nodiscard]] Result<void> serve_kubelet(const DevicePluginOptions& options,
                                         containers::GpuPool& pool, XidEvents* xids,
                                         const std::atomic<bool>& stop,
                                         const std::function<void(const std::string&)>& log);

}  // namespace gpemu::tools
