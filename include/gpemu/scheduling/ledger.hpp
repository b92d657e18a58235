// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// For how long a job had which GPUs. Units: seconds.
struct Stint {
  JobIndex job = 0;
  GpuSet gpus;
  double begin_s = 0;
  double end_s = 0;
};

/// Which jobs have which GPUs, cores and memory, and how far they are: what policies see, and what
/// their decisions change. It knows no events: a driver says which jobs arrive and end, and when.
///
/// Thread safety: none. The fleet and the jobs must outlive it.
class Ledger {
 public:
  /// No job has arrived. `keeps_stints`: fills stints().
  Ledger(const Fleet& fleet, std::span<const Job> jobs, Accounting accounting,
         Tracking tracking = Tracking::kNone, bool keeps_stints = false);

  /// There are more jobs now; the first ones are those that there were.
  void set_jobs(std::span<const Job> jobs);
  /// Sets the time, from which on what follows counts; it does not fall.
  void set_time(double now_s) { now_s_ = now_s; }

  /// A job waits from now on.
  void arrive(JobIndex job);
  /// A job that waits has run elsewhere, or runs already: `known` has its held_s, iterations_left,
  /// first_start_s, as_of_s and progress_from_s.
  void recall(JobIndex job, const JobState& known);
  /// A job that waits or runs ends now.
  void end(JobIndex job);
  /// Takes and gives GPUs as a policy decides. Errors: kInternal if that is impossible; then, the
  /// policy is wrong, and what the jobs have is undefined.
  [[nodiscard]] Result<void> apply(const Decision& decision);
  /// Brings the states of all jobs that run up to the present.
  void touch_all();

  [[nodiscard]] const FreeResources& free() const { return free_; }
  [[nodiscard]] std::span<const JobState> states() const { return states_; }
  [[nodiscard]] std::span<const JobIndex> running() const { return running_; }
  /// Returns when a job that runs will end, if nothing changes for it.
  [[nodiscard]] double end_s(JobIndex job) const;
  /// Returns a number that is another one after each change of when a job ends.
  [[nodiscard]] std::uint32_t version_of(JobIndex job) const { return versions_[job]; }
  /// Returns the jobs for which end_s() may have changed since clear_moved().
  [[nodiscard]] std::span<const JobIndex> moved() const { return moved_; }
  void clear_moved() { moved_.clear(); }
  /// Returns the stints until now, in the order of their ends.
  [[nodiscard]] const std::vector<Stint>& stints() const { return stints_; }

 private:
  /// What a decision does to a job that it starts.
  enum class Change : std::uint8_t {
    kStarts,  ///< it had no GPUs.
    kMoves,   ///< it had others.
    kStays,   ///< it has other cores and memory beside the same GPUs.
  };

  [[nodiscard]] bool charges_changes() const { return accounting_ == Accounting::kMuri; }
  /// Brings a running job's state up to the present.
  void touch(JobIndex job);
  [[nodiscard]] Result<void> check_start(const Decision::Start& start) const;
  void release(JobIndex job);
  /// Takes the GPUs of a start, or joins its group. Returns whether that is possible.
  [[nodiscard]] bool take(const Decision::Start& start);
  /// Gives the jobs of groups that changed their new speed.
  void settle_groups();
  /// Gives the jobs that run beside others their speed.
  void settle_beside();
  [[nodiscard]] double slowest_beside_s(JobIndex job) const;
  /// Returns the cores and memory that a start gives.
  [[nodiscard]] HostShare host_of(const Decision::Start& start) const {
    return start.host.value_or(jobs_[start.job].demand.host);
  }
  [[nodiscard]] Demand demand_of(JobIndex job, const HostShare& host) const {
    Demand demand = jobs_[job].demand;
    demand.host = host;
    return demand;
  }
  /// Returns what all jobs of a group ask for together.
  [[nodiscard]] Demand group_demand(JobIndex job) const {
    return {.gpus = jobs_[job].demand.gpus, .host = {}};
  }
  void place(const Decision::Start& start, Change change);
  void remove_running(JobIndex job);
  [[nodiscard]] std::unexpected<Error> defect(JobIndex job, std::string_view what) const {
    return fail(ErrorCode::kInternal, "the policy is wrong: at {} s, it {} job {}", now_s_, what,
                jobs_[job].id);
  }

  const Fleet& fleet_;
  std::span<const Job> jobs_;
  Accounting accounting_;
  bool keeps_stints_;
  FreeResources free_;
  std::vector<JobState> states_;
  double now_s_ = 0;
  std::vector<JobIndex> running_;
  std::vector<double> charges_s_;  ///< what a job pays at a change, with charges_changes().
  /// The jobs of each group that runs.
  std::unordered_map<std::uint32_t, std::vector<JobIndex>> groups_;
  std::vector<std::uint32_t> changed_groups_;
  std::size_t beside_ = 0;  ///< how many jobs run beside others.
  /// Those that do not, by server; only kept while others run beside them.
  std::vector<std::vector<JobIndex>> on_server_;
  std::vector<std::uint32_t> versions_;  ///< by job.
  std::vector<std::uint32_t> places_;    ///< of a running job in running_.
  std::vector<JobIndex> moved_;
  std::vector<Change> changes_;  ///< of the jobs that a decision starts.
  std::vector<double> begins_;   ///< when each job got its GPUs; empty unless stints are kept.
  std::vector<Stint> stints_;
};

}  // namespace gpemu::scheduling
