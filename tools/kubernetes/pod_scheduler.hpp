// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/scheduling/ledger.hpp"

#include "kubernetes/pod_facts.hpp"
#include "live/job_notes.hpp"
#include "live/live_schedule.hpp"

namespace gpemu::tools {

/// Which pods a scheduler serves, and how.
struct PodSchedulerSettings {
  std::string name;  ///< pods name it as their scheduler.
  LiveScheduleSettings decides;
};

/// What a scheduler wants the API server to do with a pod.
struct PodAction {
  enum class Kind : std::uint8_t {
    kBind,      ///< to `node`, with the annotations.
    kAnnotate,  ///< it runs, and its annotations are others.
    kEvict,     ///< it loses its GPUs.
    kExplain,   ///< it waits, for the reason in `message`.
  };
  Kind kind = Kind::kBind;
  std::string uid, name, name_space;
  std::string node;
  std::map<std::string, std::string> annotations;
  std::string message;

  [[nodiscard]] std::string path() const {
    return "/api/v1/namespaces/" + name_space + "/pods/" + name;
  }
};

/// Lets a policy decide about pods: keeps what is known of nodes and pods, shows it to the policy
/// as the simulation would, and says what is to be done so that it becomes what the policy wants.
/// It has no effects, and does not wait.
///
/// A job is a pod, or a group of pods that are bound all or none. A job that is preempted or moved
/// loses its pods; those that replace them are the same job. A GPU is given on only after the pod
/// that had it is gone. Times are seconds since 1970. Thread safety: none.
class PodScheduler {
 public:
  explicit PodScheduler(PodSchedulerSettings settings, double now_s);
  ~PodScheduler();

  // What the API server tells.
  void nodes_listed(const std::vector<nlohmann::json>& nodes);
  void node_changed(std::string_view type, const nlohmann::json& node);
  void pods_listed(const std::vector<nlohmann::json>& pods, double now_s);
  void pod_changed(std::string_view type, const nlohmann::json& pod, double now_s);
  /// A binding did not happen, as far as is known.
  void binding_failed(const std::string& uid);
  /// Nor an eviction; it is tried again.
  void eviction_failed(const std::string& uid, double now_s);

  /// Returns what is to be done now.
  [[nodiscard]] std::vector<PodAction> decide(double now_s);
  /// Returns when to ask again even if nothing changes.
  [[nodiscard]] double ask_again_s() const;
  /// Returns what went wrong since the last call; empty: nothing.
  [[nodiscard]] std::vector<std::string> take_complaints();

 private:
  struct Node;
  struct Pod;
  struct LiveJob;
  struct Slot;

  // Pods.
  void join(Pod& pod);
  void refuse(const nlohmann::json& object, const std::string& why);
  void look_anew(Pod& pod);
  void retry_evictions(double now_s);
  void leave(const std::string& uid, double now_s);
  void place_on(Pod& pod, const std::string& node, std::uint64_t mask);
  void take_off(Pod& pod);
  [[nodiscard]] std::string key_of(const Pod& pod);
  // Jobs.
  void submit(LiveJob& job, double now_s);
  void submit_new(double now_s);
  [[nodiscard]] Result<scheduling::Job> job_of(LiveJob& job);
  [[nodiscard]] Result<std::uint64_t> kinds_of(const Pod& pod);
  void end_job(const std::string& key, double now_s);
  void end_forgotten(double now_s);
  // The fleet.
  [[nodiscard]] std::vector<scheduling::Server> servers();
  void note_foreign(const Pod& pod);
  void note_start(const Pod& pod);
  void rebuild(double now_s);
  void adopt(LiveJob& job, double now_s);
  [[nodiscard]] std::optional<scheduling::Decision::Start> start_of(
      LiveJob& job, scheduling::FreeResources& room);
  [[nodiscard]] scheduling::JobState known_state(const LiveJob& job, double now_s) const;
  // Decisions.
  [[nodiscard]] bool ask_policy(double now_s);
  void reconcile(LiveJob& job, double now_s);
  void reconcile_running(LiveJob& job);
  void unsettle(scheduling::JobIndex job);
  [[nodiscard]] std::vector<Slot> slots_of(const LiveJob& job) const;
  [[nodiscard]] bool is_free(const Slot& slot, const Pod& pod, const LiveJob& job) const;
  [[nodiscard]] bool may_share(const LiveJob& job, const Pod& other) const;
  void bind(Pod& pod, const Slot& slot, const LiveJob& job);
  void evict(Pod& pod);
  void explain(LiveJob& job, double now_s);
  [[nodiscard]] std::string reason_of(const LiveJob& job) const;
  [[nodiscard]] std::map<std::string, std::string> grants(const LiveJob& job,
                                                          const Slot& slot) const;
  [[nodiscard]] PodAction action(PodAction::Kind kind, const Pod& pod) const;

  PodSchedulerSettings settings_;
  LiveSchedule schedule_;  ///< made anew when the fleet changes.
  std::map<std::string, Node> nodes_;
  std::unordered_map<std::string, Pod> pods_;             ///< by UID; those that have not ended.
  std::map<std::string, LiveJob> live_;                   ///< by key.
  std::map<std::string, std::set<std::string>> on_node_;  ///< UIDs of pods, by node.
  /// Pods that replace evicted ones which have not gone yet, by the key of their job.
  std::map<std::string, std::vector<std::string>> next_;
  std::map<std::string, std::string> refused_;  ///< what pods were told that are no jobs, by UID.
  std::map<std::string, double> retries_;       ///< when evictions are tried again, by UID.
  std::vector<std::string> new_;                ///< keys of jobs that the policy has not seen.
  std::uint64_t order_ = 0;
  bool dirty_ = true;  ///< the fleet is another one.
  std::vector<PodAction> actions_;
  std::vector<std::string> complaints_;

  std::map<std::string, std::uint32_t> servers_;  ///< places in the fleet, by node.
  std::vector<std::string> keys_;                 ///< of the jobs of schedule_.
  std::map<std::string, std::uint64_t> known_kinds_;
  NotedSpeeds known_speeds_;
  std::map<std::string, std::uint32_t> users_;
};

}  // namespace gpemu::tools
