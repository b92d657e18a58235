// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/registry.hpp"

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

/// Drives a policy whose object is another one at each change, as after a driver's restart.
class Restarting {
 public:
  Restarting(const Fleet& fleet, const std::vector<Job>& jobs, const PolicyEntry& policy)
      : fleet_(fleet), jobs_(jobs), policy_(policy), ledger_(fleet, jobs, Accounting::kChange) {}

  /// Returns how many jobs ended, and fails if a decision is wrong.
  std::size_t run() {
    for (int turns = 0; turns < 100'000; ++turns) {
      const double arrival_s = next_ < jobs_.size() ? jobs_[next_].arrival_s : kNever;
      double end_s = kNever;
      for (const JobIndex job : ledger_.running()) end_s = std::min(end_s, ledger_.end_s(job));
      now_s_ = std::min({arrival_s, end_s, ask_s_});
      if (now_s_ == kNever) break;
      ledger_.set_time(now_s_);
      const std::vector<JobIndex> running(ledger_.running().begin(), ledger_.running().end());
      for (const JobIndex job : running) {
        if (ledger_.end_s(job) > now_s_) continue;
        ledger_.end(job);
        ++ended_;
      }
      for (; next_ < jobs_.size() && jobs_[next_].arrival_s <= now_s_; ++next_) {
        ledger_.arrive(static_cast<JobIndex>(next_));
      }
      if (!decide()) break;
    }
    return ended_;
  }

  double preempted() const { return preempted_; }

 private:
  bool decide() {
    std::vector<JobIndex> arrived;
    for (JobIndex job = 0; job < next_; ++job) {
      if (ledger_.states()[job].phase != JobPhase::kEnded) arrived.push_back(job);
    }
    const auto policy = policy_.make({});
    Decision decision;
    policy->decide({.now_s = now_s_,
                    .fleet = &fleet_,
                    .free = &ledger_.free(),
                    .jobs = jobs_,
                    .states = ledger_.states(),
                    .arrived = arrived,
                    .ended = {}},
                   decision);
    preempted_ += static_cast<double>(decision.preempt.size());
    ask_s_ = decision.ask_again_s;
    const auto applied = ledger_.apply(decision);
    EXPECT_TRUE(applied) << applied.error().message;
    return applied.has_value();
  }

  const Fleet& fleet_;
  const std::vector<Job>& jobs_;
  const PolicyEntry& policy_;
  Ledger ledger_;
  double now_s_ = 0;
  double ask_s_ = kNever;
  std::size_t next_ = 0;
  std::size_t ended_ = 0;
  double preempted_ = 0;
};

/// Jobs that arrive one after another and want more GPUs than there are.
std::vector<Job> crowd(const PolicyEntry& policy) {
  std::vector<Job> jobs;
  for (int i = 0; i < 40; ++i) {
    const std::uint32_t gpus =
        policy.scope == PolicyScope::kSingleGpus ? 1 : std::uint32_t{1} << (i % 3);
    Job job = job_of(i * 7.0, gpus, 20.0 + i * 37 % 500, 1);
    job.id = std::to_string(i);
    job.user = static_cast<std::uint32_t>(i % 3);
    job.stages_s = {0.2, 0.5, 0.3};
    job.opportunistic = i % 4 == 0;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

TEST(Ledger, EachPolicyMayTakeOverWhileJobsRun) {
  const Fleet fleet = Fleet::uniform(2, 4).value();
  for (const PolicyEntry& policy : policies()) {
    SCOPED_TRACE(policy.name);
    const std::vector<Job> jobs = crowd(policy);
    Restarting restarting(fleet, jobs, policy);
    EXPECT_EQ(restarting.run(), jobs.size());
  }
}

TEST(Ledger, PoliciesThatKeepJobsDoNotPreemptThoseThatRanBefore) {
  const Fleet fleet = Fleet::uniform(2, 4).value();
  for (const char* name : {"fifo", "sjf", "easy", "conservative", "allox", "antman"}) {
    SCOPED_TRACE(name);
    const PolicyEntry& policy = **find_policy(name);
    const std::vector<Job> jobs = crowd(policy);
    Restarting restarting(fleet, jobs, policy);
    EXPECT_EQ(restarting.run(), jobs.size());
    EXPECT_EQ(restarting.preempted(), 0);
  }
}

TEST(Ledger, AJobThatIsRecalledGoesOnWhereItWas) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  const std::vector<Job> jobs{job_of(0, 1, 100)};
  Ledger ledger(fleet, jobs, Accounting::kChange);
  ledger.set_time(50);
  ledger.arrive(0);
  Decision decision;
  decision.start.push_back({.job = 0, .gpus = {}});
  decision.start.back().gpus.add({.server = 0, .gpus = 2});
  ASSERT_TRUE(ledger.apply(decision));
  JobState known = ledger.states()[0];
  known.iterations_left = 80;
  known.held_s = 20;
  known.as_of_s = known.progress_from_s = 30;
  ledger.recall(0, known);
  EXPECT_EQ(ledger.end_s(0), 110);
  ledger.set_time(40);
  ledger.touch_all();
  EXPECT_EQ(ledger.states()[0].held_s, 30);
  EXPECT_EQ(ledger.states()[0].iterations_left, 70);
}

TEST(Ledger, ADecisionThatGivesGpusTwiceIsRefused) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  const std::vector<Job> jobs{job_of(0, 1, 100), job_of(0, 1, 100)};
  Ledger ledger(fleet, jobs, Accounting::kChange);
  Decision decision;
  for (const JobIndex job : {0U, 1U}) {
    ledger.arrive(job);
    decision.start.push_back({.job = job, .gpus = {}});
    decision.start.back().gpus.add({.server = 0, .gpus = 1});
  }
  const auto applied = ledger.apply(decision);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::kInternal);
}

TEST(Ledger, AJobThatWaitsMayEnd) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  const std::vector<Job> jobs{job_of(0, 1, 100)};
  Ledger ledger(fleet, jobs, Accounting::kChange);
  ledger.set_time(5);
  ledger.arrive(0);
  ledger.set_time(8);
  ledger.end(0);
  EXPECT_EQ(ledger.states()[0].phase, JobPhase::kEnded);
  EXPECT_EQ(ledger.states()[0].end_s, 8);
  EXPECT_EQ(ledger.free().count(), 2);
}

}  // namespace
}  // namespace gpemu::scheduling
