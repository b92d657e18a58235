// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpemu/scheduling/job.hpp"

#include "live/job_notes.hpp"
#include "live/live_schedule.hpp"
#include "slurm/queue_facts.hpp"

namespace gpemu::tools {

/// Which jobs a scheduler of Slurm's queue serves, and how.
struct QueueSchedulerSettings {
  std::string partition;  ///< its jobs.
  LiveScheduleSettings decides;
};

/// What a scheduler wants Slurm to do with a job.
struct QueueAction {
  enum class Kind : std::uint8_t {
    kHold,     ///< it may not start.
    kStart,    ///< it may, on `node`, with the pace.
    kRequeue,  ///< it loses its GPUs, and waits, held.
    kPace,     ///< it runs, and its pace is another one.
    kExplain,  ///< it waits, for the reason in `message`.
  };
  Kind kind = Kind::kHold;
  std::string job;
  std::string node;
  double pace = 1;
  std::string message;
};

/// Lets a policy decide about the jobs of a partition of Slurm: keeps what squeue and sinfo say,
/// shows it to the policy as the simulation would, and says what is to be done so that it becomes
/// what the policy wants. It has no effects, and does not wait.
///
/// Jobs are held until the policy starts them; then they are released, with the node that it chose.
/// One that it preempts or moves is requeued and held. A GPU is given on only after the job that
/// had it has ended. Slurm chooses between the GPUs of a node. Times are seconds since 1970. Thread
/// safety: none.
class QueueScheduler {
 public:
  QueueScheduler(QueueSchedulerSettings settings, double now_s);
  ~QueueScheduler();

  // What Slurm tells.
  void nodes_listed(std::vector<QueueNode> nodes);
  /// All jobs, also those of other partitions.
  void jobs_listed(std::vector<QueuedJob> jobs, double now_s);
  /// An action has failed; it is tried again.
  void action_failed(const QueueAction& action, double now_s);

  /// Returns what is to be done now.
  [[nodiscard]] std::vector<QueueAction> decide(double now_s);
  /// Returns when to ask again even if nothing changes.
  [[nodiscard]] double ask_again_s() const { return schedule_.ask_again_s(); }
  /// Returns what went wrong since the last call; empty: nothing.
  [[nodiscard]] std::vector<std::string> take_complaints();

 private:
  struct LiveJob;
  /// What jobs have of a node.
  struct Use {
    std::uint32_t gpus = 0, shards = 0;
  };

  void job_listed(QueuedJob facts, double now_s);
  void lost_its_node(LiveJob& job, double now_s);
  void look_anew(LiveJob& job);
  [[nodiscard]] double done_s_of(LiveJob& job) const;
  void forget(LiveJob& job, double now_s);
  void count_foreign(const std::vector<QueuedJob>& jobs);
  // What the policy sees.
  [[nodiscard]] std::vector<scheduling::Server> servers();
  void rebuild(double now_s);
  [[nodiscard]] bool adopt(LiveJob& job, double now_s);
  void submit_new(double now_s);
  void submit(LiveJob& live, double now_s);
  [[nodiscard]] Result<scheduling::Job> job_of(const LiveJob& live);
  [[nodiscard]] Result<void> check_sharing(const LiveJob& job, std::uint64_t kinds) const;
  [[nodiscard]] scheduling::JobState known_state(const LiveJob& live, double now_s) const;
  [[nodiscard]] bool ask_policy(double now_s);
  // What is to be done.
  void reconcile(LiveJob& job, double now_s);
  [[nodiscard]] bool is_free(const std::string& node, const LiveJob& job) const;
  [[nodiscard]] bool may_share(const LiveJob& job, const LiveJob& other) const;
  [[nodiscard]] std::string node_of(const LiveJob& job) const;
  void start(LiveJob& job, const std::string& node);
  void requeue(LiveJob& job);
  void explain(LiveJob& job, double now_s);
  [[nodiscard]] std::string reason_of(const LiveJob& job) const;
  QueueAction& act(QueueAction::Kind kind, const LiveJob& job);

  QueueSchedulerSettings settings_;
  LiveSchedule schedule_;
  std::vector<QueueNode> nodes_;
  std::map<std::string, LiveJob> live_;           ///< by number; those that have not ended.
  std::map<std::string, Use> foreign_;            ///< of jobs of other partitions, by node.
  std::vector<std::string> new_;                  ///< jobs that the policy has not seen.
  std::vector<std::string> keys_;                 ///< of the jobs of schedule_.
  std::map<std::string, std::uint32_t> servers_;  ///< places in the fleet, by node.
  std::map<std::string, std::uint32_t> users_;
  NotedSpeeds speeds_;
  std::uint64_t order_ = 0;
  bool dirty_ = true;  ///< the fleet is another one.
  std::vector<QueueAction> actions_;
  std::vector<std::string> complaints_;
  std::set<std::string> complained_;  ///< nodes, once each.
};

}  // namespace gpemu::tools
