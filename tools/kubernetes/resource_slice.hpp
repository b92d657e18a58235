// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node_state.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// How the GPUs of a node are published, as a ResourceSlice of resource.k8s.io/v1.
struct SliceOptions {
  std::string driver = "gpu.nvidia.com";
  std::string node;                         ///< its name, and that of the pool.
  bool divided = false;                     ///< claims may get parts of a GPU.
  std::string taint_effect = "NoSchedule";  ///< of a GPU that is lost.
};

/// Returns the name of a GPU as a device: "gpu-0".
[[nodiscard]] std::string device_name(std::size_t gpu);

/// Returns the memory of a GPU as NVIDIA's driver publishes it: with what the GPU's driver keeps.
[[nodiscard]] Bytes published_memory(const device::DeviceSnapshot& gpu);

/// Returns the GPUs as devices of a ResourceSlice. The names of the attributes and the forms of
/// their values are those of NVIDIA's driver. `lost`: which GPUs have a taint.
///
/// Source: github.com/NVIDIA/k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin/deviceinfo.go; "index" and
///   "minor" are those of its releases up to 25.3.
[[nodiscard]] nlohmann::json devices_of(std::span<const device::DeviceSnapshot> gpus,
                                        const std::vector<bool>& lost, const SliceOptions& options);

/// The ResourceSlice of a node's GPUs in the API server.
///
/// Thread safety: none.
class PublishedSlice {
 public:
  /// Requires: `server` outlives it.
  PublishedSlice(ApiServer& server, SliceOptions options)
      : server_(server), options_(std::move(options)) {}

  /// Makes the API server have these devices; returns whether it had others, or none. If it keeps
  /// no taints, because its feature gate DRADeviceTaints is off, GPUs that are lost are left out.
  ///
  /// Errors: those of ApiServer; kNotFound if the cluster has no such node.
  [[nodiscard]] Result<bool> publish(const nlohmann::json& devices);

  /// Removes it, if it is there.
  [[nodiscard]] Result<void> remove();

 private:
  [[nodiscard]] std::string name() const { return options_.node + '-' + options_.driver; }
  [[nodiscard]] std::string path() const;
  [[nodiscard]] Result<nlohmann::json> put(const nlohmann::json* old,
                                           const nlohmann::json& devices);

  ApiServer& server_;
  SliceOptions options_;
  nlohmann::json wanted_;  ///< the devices that were published last;
  nlohmann::json kept_;    ///< what the API server made of them.
};

}  // namespace gpemu::tools
