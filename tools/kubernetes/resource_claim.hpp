// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/containers/gpu_pool.hpp"

namespace gpemu::tools {

/// A GPU, or a part of one, that the scheduler gave to a claim.
struct ClaimedGpu {
  std::string request;  ///< of the claim, without the name of an alternative.
  std::string pool, device;
  containers::GpuPart part;
};

/// Returns what a claim, an object of resource.k8s.io/v1, has of a driver's devices. `memory`: that
/// of each GPU of the node.
///
/// Errors: kUnavailable if nothing is allocated to it; kNotFound for a device that the node has
///   not; kUnsupported for access as an administrator, and for a configuration of the driver other
///   than NVIDIA's GpuConfig and MigDeviceConfig with TimeSlicing and its default interval;
///   kCorruptData.
[[nodiscard]] Result<std::vector<ClaimedGpu>> claimed_gpus(const nlohmann::json& claim,
                                                           const std::string& driver,
                                                           std::span<const Bytes> memory);

/// That a container of a pod uses a claim.
struct ClaimUse {
  std::string container;
  std::string claim;    ///< the object's name.
  std::string request;  ///< empty: all of the claim.
};

/// Returns which claims the containers of a pod use, also those for extended resources.
[[nodiscard]] std::vector<ClaimUse> claim_uses(const nlohmann::json& pod);

/// Returns a quantity of Kubernetes, such as "40Gi", "1500m" or "1e3", as a number.
///
/// Errors: kCorruptData. Source: Kubernetes API reference, Quantity.
[[nodiscard]] Result<double> quantity_of(const std::string& text);

}  // namespace gpemu::tools
