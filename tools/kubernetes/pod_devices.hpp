// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "gpemu/base/error.hpp"

#include "kubernetes/gpu_metrics.hpp"

namespace gpemu::tools {

/// Asks a kubelet, at its socket of the API PodResources, which containers have GPUs, by a device
/// plugin or a DRA driver. `uuids`: of the machine's GPUs.
///
/// Errors: kIo if the kubelet does not answer.
[[nodiscard]] Result<GpuHolders> ask_kubelet(const std::filesystem::path& socket,
                                             std::span<const std::string> uuids);

}  // namespace gpemu::tools
