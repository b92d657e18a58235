// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kubernetes/pod_facts.hpp"

namespace gpemu::tools {

/// A node without a machine.
struct HollowNode {
  std::string name;
  scheduling::HostShare host;
  std::uint32_t gpus = 0;
  std::uint32_t pods = 110;                   ///< as many as a kubelet takes by default.
  std::map<std::string, std::string> labels;  ///< of its GPUs.
};

/// A change of a pod that its kubelet makes.
struct PodRequest {
  std::string uid;
  std::string path;
  nlohmann::json status;  ///< a merge patch of path/status; null: the pod is removed.
};

/// What kubelets of hollow nodes decide about the pods that are bound to them: which fit, when they
/// run and when they end. It has no effects, and does not wait.
///
/// Units: seconds; times are those of a clock that the caller chooses, seconds since 1970 for a
/// real one. A pod that runs for s seconds ends after s / speed. Thread safety: none.
class HollowPods {
 public:
  HollowPods(std::vector<HollowNode> nodes, double speed);

  /// These are all pods now.
  void listed(const std::vector<nlohmann::json>& pods, double now_s);
  void changed(std::string_view type, const nlohmann::json& pod, double now_s);
  /// Returns what is to be done now, in order.
  [[nodiscard]] std::vector<PodRequest> take_due(double now_s);
  /// Returns when something is to be done next; infinity: not before something changes.
  [[nodiscard]] double next_due_s() const;
  /// Returns how many pods run.
  [[nodiscard]] std::size_t running() const { return running_; }

 private:
  enum class Phase : std::uint8_t { kRunning, kStopping, kEnded };
  struct Pod {
    PodFacts facts;
    std::vector<std::string> containers;
    std::size_t node = 0;
    Phase phase = Phase::kEnded;
    double left_s = 0;   ///< of its run, with the pace 1; infinity: until it is deleted.
    double as_of_s = 0;  ///< when that was right.
    double pace = 1;     ///< it takes so many times as long.
    double due_s = 0;    ///< when the next thing happens to it.
    double started_s = 0;
  };
  using Pods = std::unordered_map<std::string, Pod>;

  void accept(const nlohmann::json& object, PodFacts facts, double now_s);
  void start(Pod& pod, double now_s);
  void stop(Pod& pod, double now_s);
  void set_pace(Pod& pod, double now_s);
  void set_due(Pod& pod, double due_s);
  void end(Pod& pod, double now_s);
  void forget(const std::string& uid);
  /// Returns why a pod does not fit on its node beside those that run there, and what it lacks; ""
  /// if it does.
  [[nodiscard]] std::pair<std::string, std::string> misfit(const Pod& pod) const;
  [[nodiscard]] bool has_gpus_of_others(const Pod& pod) const;

  std::vector<HollowNode> nodes_;
  std::unordered_map<std::string, std::size_t> places_;  ///< of nodes, by name.
  double speed_;
  Pods pods_;
  std::vector<std::set<std::string>> on_node_;    ///< pods that have not ended.
  std::set<std::pair<double, std::string>> due_;  ///< by time.
  std::vector<PodRequest> now_;                   ///< requests that are due at once.
  std::size_t running_ = 0;
};

/// Returns the object of a node as its kubelet registers it.
[[nodiscard]] nlohmann::json node_object(const HollowNode& node, double now_s);
/// Returns the conditions of a node that is well.
[[nodiscard]] nlohmann::json node_conditions(double now_s);

}  // namespace gpemu::tools
