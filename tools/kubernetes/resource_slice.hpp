// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/mig_profile.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// How the GPUs of a node are published, as a ResourceSlice of resource.k8s.io/v1.
struct SliceOptions {
  std::string driver = "gpu.nvidia.com";
  std::string node;      ///< its name, and that of the pool.
  bool divided = false;  ///< claims may get parts of a GPU.
  /// Profiles of MIG, of which claims may get instances. Then each GPU is a pool, because a slice
  /// may have 32 counters. Source: resource.k8s.io/v1, ResourceSliceMaxSharedCounters.
  std::vector<profile::MigProfile> mig;
  std::string taint_effect = "NoSchedule";  ///< of a GPU that is lost.
  std::optional<profile::TopologySpec> topology = std::nullopt;
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

/// Returns the name of an instance of MIG in a GPU as a device: "gpu-0-mig-9-4".
[[nodiscard]] std::string device_name(std::size_t gpu, const containers::MigPlacement& mig);

/// Returns what a name of a device says; nothing for another name.
[[nodiscard]] std::optional<containers::GpuPart> part_of_device(std::string_view name);

/// Returns a GPU, and all instances that MIG can make of it, as devices of a ResourceSlice, which
/// consume the GPU's counters. The names of attributes and capacities are those of NVIDIA's driver.
/// Profiles of which the size is not known are left out.
[[nodiscard]] nlohmann::json mig_devices_of(const device::DeviceSnapshot& gpu, std::size_t number,
                                            bool lost, const SliceOptions& options);

/// Returns the counters of a GPU: one for each of MIG's memory slices, which no two instances have,
/// and one for the media extensions.
[[nodiscard]] nlohmann::json counters_of(std::size_t gpu, const SliceOptions& options);

/// A ResourceSlice of a node's GPUs in the API server: all of a pool.
///
/// Thread safety: none.
class PublishedSlice {
 public:
  /// `part`: of the node's GPUs; empty: it has all of them. Requires: `server` outlives it.
  PublishedSlice(ApiServer& server, SliceOptions options, std::string part = "")
      : server_(server), options_(std::move(options)), part_(std::move(part)) {}

  /// Makes the API server have these devices, and counters unless they are null; returns whether it
  /// had others, or none. If it keeps no taints, because its feature gate DRADeviceTaints is off,
  /// GPUs that are lost are left out.
  ///
  /// Errors: those of ApiServer; kNotFound if the cluster has no such node; kUnsupported if it
  /// keeps no counters, because its feature gate DRAPartitionableDevices is off.
  [[nodiscard]] Result<bool> publish(const nlohmann::json& devices,
                                     const nlohmann::json& counters = nlohmann::json());

  /// Removes it, if it is there.
  [[nodiscard]] Result<void> remove();

 private:
  [[nodiscard]] std::string name() const {
    return options_.node + '-' + options_.driver + (part_.empty() ? "" : '-' + part_);
  }
  [[nodiscard]] std::string path() const;
  [[nodiscard]] Result<nlohmann::json> put(const nlohmann::json* old, const nlohmann::json& devices,
                                           const nlohmann::json& counters);

  ApiServer& server_;
  SliceOptions options_;
  std::string part_;
  nlohmann::json wanted_;  ///< the devices that were published last;
  nlohmann::json kept_;    ///< what the API server made of them.
};

}  // namespace gpemu::tools
