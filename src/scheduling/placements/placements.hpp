// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "gpemu/scheduling/placement.hpp"

namespace gpemu::scheduling {

/// Scores are from 0 to this, as those of Kubernetes' scheduler plug-ins.
/// Source: MaxNodeScore in k8s.io/kubernetes/pkg/scheduler/framework.
inline constexpr std::int32_t kMostScore = 100;

/// What the largest server has, by which scores are normalized, also if a fleet has larger ones.
/// Source: pkg/type/open-gpu-share/utils/const.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator.
inline constexpr std::int32_t kSpecMillicores = 128'000;
inline constexpr std::int32_t kSpecShares = 8'000;

[[nodiscard]] std::unique_ptr<Placement> make_best_fit(const PlacementSettings& settings);
[[nodiscard]] std::unique_ptr<Placement> make_dot_product(const PlacementSettings& settings);
[[nodiscard]] std::unique_ptr<Placement> make_fgd(const PlacementSettings& settings);
[[nodiscard]] std::unique_ptr<Placement> make_gpu_clustering(const PlacementSettings& settings);
[[nodiscard]] std::unique_ptr<Placement> make_gpu_packing(const PlacementSettings& settings);
[[nodiscard]] std::unique_ptr<Placement> make_random(const PlacementSettings& settings);

}  // namespace gpemu::scheduling
