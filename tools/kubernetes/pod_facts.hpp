// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"

#include "live/job_notes.hpp"

namespace gpemu::tools {

/// What pods ask for GPUs by, as NVIDIA's device plugin names it.
inline constexpr const char* kGpuResource = "nvidia.com/gpu";
/// And GPUs that they share with others, each of which is so many of these (the label below).
/// Source: NVIDIA's device plugin, "renameByDefault" of time slicing.
inline constexpr const char* kSharedGpuResource = "nvidia.com/gpu.shared";
inline constexpr const char* kReplicasLabel = "nvidia.com/gpu.replicas";
/// The label of nodes with the kind of their GPUs, as GPU feature discovery writes it.
inline constexpr const char* kProductLabel = "nvidia.com/gpu.product";
/// The label and the taint of hollow nodes.
inline constexpr const char* kHollowMark = "gpemu.dev/hollow";

/// Annotations of pods (docs/how-to/kubernetes-scheduler.md). Those of the first group are for
/// whoever makes the pod.
namespace annotation {
inline constexpr const char* kSeconds = "gpemu.dev/seconds";
inline constexpr const char* kDoneSeconds = "gpemu.dev/done-seconds";
inline constexpr const char* kRestartSeconds = "gpemu.dev/restart-seconds";
inline constexpr const char* kStopSeconds = "gpemu.dev/stop-seconds";
inline constexpr const char* kStatedSeconds = "gpemu.dev/stated-seconds";
inline constexpr const char* kStageSeconds = "gpemu.dev/stage-seconds";
inline constexpr const char* kIterations = "gpemu.dev/iterations";
inline constexpr const char* kGpus = "gpemu.dev/gpus";
inline constexpr const char* kGpuMilli = "gpemu.dev/gpu-milli";
inline constexpr const char* kSpeeds = "gpemu.dev/speeds";
inline constexpr const char* kUser = "gpemu.dev/user";
inline constexpr const char* kOpportunistic = "gpemu.dev/opportunistic";
inline constexpr const char* kJob = "gpemu.dev/job";
inline constexpr const char* kTogether = "gpemu.dev/together";
inline constexpr const char* kGroup = "scheduling.x-k8s.io/pod-group";
inline constexpr const char* kGroupSize = "scheduling.x-k8s.io/pod-group-min-size";
// Those that the scheduler writes when it binds a pod, and changes while it runs.
inline constexpr const char* kGpuIndices = "gpemu.dev/gpu-indices";
inline constexpr const char* kSharing = "gpemu.dev/sharing";
inline constexpr const char* kPace = "gpemu.dev/pace";
inline constexpr const char* kCores = "gpemu.dev/cores";
inline constexpr const char* kMemoryMib = "gpemu.dev/memory-mib";
// Those of hollow nodes, in seconds since 1970.
inline constexpr const char* kStarted = "gpemu.dev/started";
inline constexpr const char* kEnded = "gpemu.dev/ended";
}  // namespace annotation

/// Returns a quantity of Kubernetes, such as "500m" or "64Gi"; nothing if it is none.
[[nodiscard]] std::optional<double> parse_quantity(std::string_view text);

/// What the programs that schedule pods and play kubelets need to know of one.
struct PodFacts {
  std::string uid, name, name_space, node, phase, scheduler;
  std::string owner;               ///< UID of its controller; empty: it has none.
  scheduling::HostShare requests;  ///< of its containers together.
  std::uint32_t gpu_requests = 0;  ///< of kGpuResource.
  /// The GPUs that it has or is to have, and how much of each: its requests, unless annotations say
  /// otherwise.
  std::uint32_t gpus = 0;
  std::uint32_t gpu_milli = scheduling::kWholeGpu;
  bool is_deleted = false;  ///< it is to end.
  int grace_s = 0;          ///< then, how long it may take.
  bool has_disruption = false;
  double created_s = 0;                            ///< since 1970.
  double started_s = 0;                            ///< likewise; 0: it has not run yet.
  std::optional<double> progress;                  ///< a number that its container left at its end.
  std::map<std::string, std::string> annotations;  ///< and its labels of pod groups.

  [[nodiscard]] bool has_ended() const { return phase == "Succeeded" || phase == "Failed"; }
  [[nodiscard]] std::string path() const {
    return "/api/v1/namespaces/" + name_space + "/pods/" + name;
  }
  /// Returns an annotation; "" if it has none.
  [[nodiscard]] std::string text(const char* annotation) const;
  /// Returns a number, `otherwise` without such an annotation. Errors: kInvalidArgument with the
  /// annotation, unless it is a finite number from `least` on.
  [[nodiscard]] Result<double> number(const char* annotation, double otherwise,
                                      double least = 0) const;
  /// Returns what it says about its job. Requires: the pod outlives it.
  [[nodiscard]] JobNotes notes() const { return {"the annotation", "gpemu.dev/", annotations}; }
};

/// Errors: kInvalidArgument for quantities and annotations that are none.
[[nodiscard]] Result<PodFacts> facts_of(const nlohmann::json& pod);

/// Returns the text of a member of an object, by a path such as "/metadata/name"; "" if there is
/// none.
[[nodiscard]] std::string text_at(const nlohmann::json& object, const char* pointer);

/// Returns a time as the API writes it, such as "2026-01-31T10:00:00Z", with six decimals if
/// `exact`. Units: seconds since 1970.
[[nodiscard]] std::string api_time(double time_s, bool exact = false);
/// Returns the seconds of such a time; nothing if it is none.
[[nodiscard]] std::optional<double> parse_api_time(std::string_view text);

}  // namespace gpemu::tools
