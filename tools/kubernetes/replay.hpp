// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"

#include "kubernetes/api_server.hpp"
#include "kubernetes/pod_facts.hpp"
#include "live/replay_report.hpp"

namespace gpemu::tools {

/// How jobs become pods.
struct ReplayOptions {
  std::string scheduler;   ///< which schedules them.
  std::string name_space;  ///< of the pods.
  std::string run;         ///< their names begin so, and no others do.
  double speed = 1;        ///< jobs arrive, and pods run, so many times as fast.
  /// Jobs may share their GPUs, so that these are no resource that a kubelet counts.
  bool shares_gpus = false;
  /// The pods' image, for nodes with kubelets and gpemu's device plugin: the jobs run in them by
  /// `gpemu jobs run`. Empty: the pods are hollow nodes'.
  std::string image;
  /// What those pods ask for, as their nodes' device plugin offers it.
  std::string resource = kGpuResource;
};

/// Returns the pods of a job: one, or a group of them if no server has so many GPUs. `done_s`: how
/// much of it earlier ones have done. `round`: how often it was evicted. `together`: so many jobs
/// arrive at its time.
///
/// Errors: kInvalidArgument for what pods cannot ask for.
[[nodiscard]] Result<std::vector<nlohmann::json>> pods_of(const scheduling::Fleet& fleet,
                                                          const scheduling::Job& job,
                                                          scheduling::JobIndex index, double done_s,
                                                          int round, std::size_t together,
                                                          const ReplayOptions& options);

/// Keeps track of jobs whose pods run. It has no effects. Thread safety: none.
class ReplayedJobs {
 public:
  /// `begin_s`: when the table's time begins, in seconds since 1970.
  ReplayedJobs(std::size_t jobs, double begin_s, double speed);

  /// A pod has changed. Returns how much of the job its pods have done if it was evicted, so that
  /// it needs others.
  [[nodiscard]] std::optional<double> changed(scheduling::JobIndex job, std::string_view type,
                                              const PodFacts& pod, double now_s);
  /// Returns how often a job was evicted.
  [[nodiscard]] int round_of(scheduling::JobIndex job) const { return jobs_[job].evictions; }
  [[nodiscard]] std::span<const ReplayedJob> jobs() const { return jobs_; }
  [[nodiscard]] std::size_t ended() const { return ended_; }
  /// Returns jobs that failed, and why.
  [[nodiscard]] const std::map<scheduling::JobIndex, std::string>& failed() const {
    return failed_;
  }

 private:
  /// What runs of a job.
  struct Running {
    std::size_t pods = 0;  ///< that have not ended.
    double done_s = 0;     ///< at `as_of_s`, with the pace 1.
    double as_of_s = -1;   ///< negative: it does not run.
    double pace = 1;
    bool is_evicted = false;
  };
  void note_progress(Running& running, double now_s) const;

  double begin_s_;
  double speed_;
  std::vector<ReplayedJob> jobs_;
  std::vector<Running> running_;
  std::map<std::string, scheduling::JobIndex> pods_;  ///< by UID, those that have not ended.
  std::size_t ended_ = 0;
  std::map<scheduling::JobIndex, std::string> failed_;
};

/// Makes the jobs' pods when they arrive, and those that replace evicted ones, until all have
/// ended; then removes them. `progress` gets the number of jobs that have ended.
///
/// Errors: those of the API server and of pods_of(); kInterrupted if `stop` was set; kUnsupported
/// if a job's pod failed, with its reason.
[[nodiscard]] Result<std::vector<ReplayedJob>> replay(
    const ApiAccess& access, const scheduling::Fleet& fleet, std::span<const scheduling::Job> jobs,
    const ReplayOptions& options, const std::atomic<bool>& stop,
    const std::function<void(std::size_t ended)>& progress);

}  // namespace gpemu::tools
