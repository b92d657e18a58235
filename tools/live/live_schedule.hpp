// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/ledger.hpp"
#include "gpemu/scheduling/placement.hpp"
#include "gpemu/scheduling/registry.hpp"

namespace gpemu::tools {

/// What decides about the jobs of a real queue.
struct LiveScheduleSettings {
  const scheduling::PolicyEntry* policy = nullptr;        ///< either this,
  const scheduling::PlacementEntry* placement = nullptr;  ///< or this.
  std::vector<scheduling::Job> expected;                  ///< what a placement expects to come.
  std::optional<double> round_s;                          ///< as in PolicySettings.
  double speed = 1;                                       ///< jobs run so many times as fast.
};

/// Lets a policy decide about jobs that run outside the simulation, and shows them to it as the
/// simulation would. Whoever has the queue says what it knows of the jobs, and makes true what the
/// policy decides.
///
/// It has no effects, and does not wait. Times `now_s` are of the real clock, e.g. since 1970;
/// those of jobs and states are of the policy's, which begins with 0 and runs settings.speed times
/// as fast. Thread safety: none.
class LiveSchedule {
 public:
  LiveSchedule(LiveScheduleSettings settings, double now_s);

  [[nodiscard]] const LiveScheduleSettings& settings() const { return settings_; }
  /// Returns the name of the policy, or of the placement.
  [[nodiscard]] std::string_view name() const;
  /// Returns the policy's time.
  [[nodiscard]] double time_of(double now_s) const { return (now_s - epoch_s_) * settings_.speed; }

  /// The fleet is another one. All jobs are forgotten; those that have not ended are to be
  /// submitted again.
  void set_fleet(std::vector<scheduling::Server> servers);
  /// Returns whether there are GPUs. All that follows requires it, except ask_again_s().
  [[nodiscard]] bool has_fleet() const { return ledger_ != nullptr; }
  [[nodiscard]] const scheduling::Fleet& fleet() const { return *fleet_; }

  /// Errors: kInvalidArgument or kResourceLimit with why the policy cannot serve such a job here.
  [[nodiscard]] Result<void> check(const scheduling::Job& job) const;
  /// A job waits from now on. Requires: check() accepts it.
  scheduling::JobIndex submit(scheduling::Job job, double now_s);
  /// A job that waits has these GPUs already. Errors: those of Ledger::apply().
  [[nodiscard]] Result<void> adopt(scheduling::Decision::Start start);
  /// As in Ledger.
  void recall(scheduling::JobIndex job, const scheduling::JobState& known);
  /// A job that has its GPUs really began at this time, when `done_s` seconds of its work were
  /// done; nothing: as many as are known.
  void started(scheduling::JobIndex job, double started_s, std::optional<double> done_s);
  void end(scheduling::JobIndex job, double now_s);

  /// Brings the states of all jobs up to the present.
  void update(double now_s);
  /// Returns whether the policy is to be asked.
  [[nodiscard]] bool is_due(double now_s) const;
  /// Returns when it is, even if nothing changes.
  [[nodiscard]] double ask_again_s() const;
  /// Asks the policy. Returns the jobs for which something may have changed. Errors: kInternal if
  /// the policy is wrong; then, the fleet is to be set again.
  [[nodiscard]] Result<std::vector<scheduling::JobIndex>> decide(double now_s);

  [[nodiscard]] const std::vector<scheduling::Job>& jobs() const { return jobs_; }
  [[nodiscard]] const scheduling::JobState& state(scheduling::JobIndex job) const {
    return ledger_->states()[job];
  }
  [[nodiscard]] const scheduling::FreeResources& free() const { return ledger_->free(); }
  /// Returns how many times as long as with GPUs of its own a job that runs takes.
  [[nodiscard]] double pace(scheduling::JobIndex job) const {
    return state(job).iteration_s / jobs_[job].iteration_s;
  }

 private:
  void make_policy();

  LiveScheduleSettings settings_;
  double epoch_s_;
  bool is_new_ = true;  ///< the policy has not seen this fleet.
  double ask_again_s_ = 0;
  double ends_until_s_ = 0;  ///< when the policy is asked because of `ended_`.
  std::unique_ptr<const scheduling::Fleet> fleet_;
  std::vector<scheduling::Job> jobs_;
  std::unique_ptr<scheduling::Ledger> ledger_;
  std::unique_ptr<scheduling::Policy> policy_;
  std::vector<scheduling::JobIndex> arrived_, ended_;
};

/// Returns whether a policy lets whole jobs share GPUs.
[[nodiscard]] bool shares_gpus(const scheduling::PolicyEntry& policy);

/// A job that a queue has, and the policy has not seen.
struct Newcomer {
  std::string key;
  std::string name;      ///< jobs of one time are seen in the order of their names, as numbers.
  std::string together;  ///< "COUNT/NAME": it arrives with so many of the same text; empty: alone.
  double made_s = 0;     ///< when it was made.
  double seen_s = 0;     ///< when the queue showed it.
};

/// Removes those that the policy is to see now: alone, or all that arrive together, or who waited
/// too long for the others. Returns their keys in the order in which it sees them.
[[nodiscard]] std::vector<std::string> take_complete(std::vector<Newcomer>& newcomers,
                                                     double now_s);

}  // namespace gpemu::tools
