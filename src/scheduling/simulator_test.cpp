// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/simulator.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/schedule_metrics.hpp"
#include "gpemu/scheduling/speed_profile.hpp"

#include "random_draws.hpp"
#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(SimulatorTest, ChargesARestartForEachChangeOfGpus) {
  const std::vector<Job> jobs{job_of(0, 1, 10, 3), job_of(4, 1, 1, 3)};
  EXPECT_EQ(ends_by("srtf", 2, jobs, Accounting::kChange), (std::vector<double>{13, 8}));
  // On one GPU, the first has done 1 s at 4; it starts again at 8, and makes progress from 11 on.
  EXPECT_EQ(ends_by("srtf", 1, jobs, Accounting::kChange), (std::vector<double>{20, 8}));
  EXPECT_EQ(ends_by("srtf", 2, jobs, Accounting::kFree), (std::vector<double>{10, 5}));
}

TEST(SimulatorTest, ChargesAllRunningJobsAtEachChangeAsMuri) {
  // 4: the first has done 4 - 3 s. 5: nothing more, because 1 s is less than a restart.
  EXPECT_EQ(ends_by("srtf", 2, {job_of(0, 1, 10, 3), job_of(4, 1, 1, 3)}, Accounting::kMuri),
            (std::vector<double>{14, 5}));
}

TEST(SimulatorTest, ComputesTheFigures) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  const std::vector<Job> jobs{job_of(10, 1, 4), job_of(10, 2, 2), job_of(11, 1, 2)};
  const auto fifo = find_policy("fifo").value()->make({});
  const SimulationResult result = simulate(fleet, jobs, *fifo).value();
  const ScheduleMetrics metrics = metrics_of(fleet, jobs, result);
  EXPECT_EQ(ends_of(result), (std::vector<double>{14, 16, 18}));
  EXPECT_DOUBLE_EQ(metrics.average_jct_s, (4 + 6 + 7) / 3.0);
  EXPECT_DOUBLE_EQ(metrics.median_jct_s, 6);
  EXPECT_DOUBLE_EQ(metrics.p99_jct_s, 7);
  EXPECT_DOUBLE_EQ(metrics.makespan_s, 8);
  EXPECT_DOUBLE_EQ(metrics.average_wait_s, 9 / 3.0);
  EXPECT_DOUBLE_EQ(metrics.utilization, (4 + 4 + 2) / 16.0);
  EXPECT_EQ(metrics.preemptions, 0);
  EXPECT_DOUBLE_EQ(metrics.average_queue_s, (0 + 4 + 5) / 3.0);
  // Jobs wait from 10 to 16; the second GPU is free until 14.
  EXPECT_DOUBLE_EQ(metrics.utilization_waited, (4 + 4) / 12.0);
  // There are two jobs from 10 on, three from 11, two from 14, one from 16: on average, 11/4, 5/2
  // and 15/7 while each is there. With so many parts of two GPUs, they take 11/2, 5 and 15/7 s.
  EXPECT_DOUBLE_EQ(metrics.average_rho, (4 / 5.5 + 6 / 5.0 + 49 / 15.0) / 3);
  EXPECT_DOUBLE_EQ(metrics.worst_rho, 49 / 15.0);
}

/// One V100 and three K80, of which a job has one fourth: of the time, it has a V100 for 1/8 and
/// K80s for 3/8, since it needs two GPUs.
TEST(SimulatorTest, FairnessKnowsTheKinds) {
  const Fleet fleet = Fleet::create({{.name = "v", .gpu = "V100", .gpus = 1},
                                     {.name = "k", .gpu = "K80", .gpus = 3}})
                          .value();
  std::vector<Job> jobs(4, job_of(0, 2, 10));
  const auto speed = std::make_shared<const SpeedProfile>(SpeedProfile{.by_kind = {1, 0.5}});
  for (Job& job : jobs) job.speed = speed;
  SimulationResult result;
  result.jobs.resize(4);
  for (JobState& state : result.jobs) state.end_s = 64;
  const ScheduleMetrics metrics = metrics_of(fleet, jobs, result);
  EXPECT_DOUBLE_EQ(metrics.worst_rho, 64 / (10 / (1 / 8.0 + 3 / 16.0)));
  EXPECT_DOUBLE_EQ(metrics.average_rho, metrics.worst_rho);
}

TEST(SimulatorTest, KeepsWhichGpusAJobHadWhen) {
  const Fleet fleet = Fleet::uniform(1, 1).value();
  const std::vector<Job> jobs{job_of(0, 1, 10), job_of(4, 1, 2)};
  const auto srtf = find_policy("srtf").value()->make({});
  const SimulationResult result =
      simulate(fleet, jobs, *srtf, {.progress = {}, .keeps_stints = true}).value();
  ASSERT_EQ(result.stints.size(), 3U);
  EXPECT_EQ(result.stints[0].job, 0U);
  EXPECT_EQ(result.stints[0].end_s, 4);
  EXPECT_EQ(result.stints[1].job, 1U);
  EXPECT_EQ(result.stints[1].begin_s, 4);
  EXPECT_EQ(result.stints[1].end_s, 6);
  EXPECT_EQ(result.stints[1].gpus.count(), 1U);
  EXPECT_EQ(result.stints[2].end_s, 12);
  const auto again = find_policy("srtf").value()->make({});
  EXPECT_TRUE(simulate(fleet, jobs, *again).value().stints.empty());
}

/// Does at each decision what the test says.
class ScriptedPolicy final : public Policy {
 public:
  explicit ScriptedPolicy(void (*script)(const Snapshot&, Decision&)) : script_(script) {}
  void decide(const Snapshot& snapshot, Decision& decision) override {
    script_(snapshot, decision);
  }

 private:
  void (*script_)(const Snapshot&, Decision&);
};

std::string failure_of(const std::vector<Job>& jobs, void (*script)(const Snapshot&, Decision&)) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  ScriptedPolicy policy(script);
  const Result<SimulationResult> result = simulate(fleet, jobs, policy);
  return result ? "it did not fail" : result.error().message;
}

GpuSet gpus_of_server(std::uint64_t gpus) {
  GpuSet set;
  set.add({.server = 0, .gpus = gpus});
  return set;
}

TEST(SimulatorTest, RefusesDecisionsThatBreakTheRules) {
  const std::vector<Job> two{job_of(0, 1, 1), job_of(0, 1, 1)};
  EXPECT_NE(failure_of(two,
                       [](const Snapshot&, Decision& decision) {
                         decision.start = {{.job = 0, .gpus = gpus_of_server(1)},
                                           {.job = 1, .gpus = gpus_of_server(1)}};
                       })
                .find("not free"),
            std::string::npos);
  EXPECT_NE(failure_of(two,
                       [](const Snapshot&, Decision& decision) {
                         decision.start = {{.job = 0, .gpus = gpus_of_server(3)}};
                       })
                .find("another number"),
            std::string::npos);
  EXPECT_NE(failure_of(two, [](const Snapshot&, Decision& decision) { decision.preempt = {0}; })
                .find("preempts"),
            std::string::npos);
}

TEST(SimulatorTest, NamesAJobThatWaitsForever) {
  EXPECT_NE(failure_of({job_of(0, 1, 1)}, [](const Snapshot&, Decision&) {}).find("waits"),
            std::string::npos);
  EXPECT_NE(failure_of({job_of(0, 3, 1)}, [](const Snapshot&, Decision&) {}).find("3 GPUs"),
            std::string::npos);
}

TEST(SimulatorTest, AsksAgainWhenThePolicyWants) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  const std::vector<Job> jobs{job_of(1, 1, 1)};
  ScriptedPolicy policy([](const Snapshot& snapshot, Decision& decision) {
    if (snapshot.states[0].phase != JobPhase::kWaiting) return;
    if (snapshot.now_s < 7) {
      decision.ask_again_s = 7;
    } else {
      decision.start = {{.job = 0, .gpus = gpus_of_server(2)}};
    }
  });
  EXPECT_EQ(ends_of(simulate(fleet, jobs, policy).value()), (std::vector<double>{8}));
}

/// Jobs at random, from a fixed seed.
std::vector<Job> random_jobs(std::size_t count, std::uint64_t seed) {
  RandomDraws draw(seed);
  std::vector<Job> jobs;
  double now_s = 0;
  for (std::size_t i = 0; i < count; ++i) {
    now_s += static_cast<double>(draw(100));
    jobs.push_back(job_of(now_s, std::uint32_t{1} << draw(5), static_cast<double>(1 + draw(2000)),
                          static_cast<double>(draw(20))));
    jobs.back().user = static_cast<std::uint32_t>(draw(4));
  }
  return jobs;
}

/// Returns jobs that the policy can serve.
std::vector<Job> jobs_for(const PolicyEntry& policy, std::vector<Job> jobs) {
  if (policy.scope != PolicyScope::kSingleGpus) return jobs;
  for (Job& job : jobs) job.demand.gpus = 1;
  return jobs;
}

TEST(SimulatorTest, EveryPolicyDoesAllWorkOnce) {
  const Fleet fleet = Fleet::uniform(4, 8).value();
  for (const PolicyEntry& entry : policies()) {
    const std::vector<Job> jobs =
        jobs_for(entry, random_jobs(static_cast<std::size_t>(instances(2000)), 1));
    const auto policy = entry.make({});
    SimulationOptions options;
    options.accounting = Accounting::kFree;
    const SimulationResult result = simulate(fleet, jobs, *policy, options).value();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_EQ(result.jobs[i].phase, JobPhase::kEnded);
      ASSERT_NEAR(result.jobs[i].held_s, jobs[i].work_s(), 1e-6) << entry.name;
      ASSERT_GE(result.jobs[i].end_s - jobs[i].arrival_s, jobs[i].work_s() - 1e-6);
    }
  }
}

/// Jobs that get shares of GPUs, cores alone, or GPUs of servers that are smaller than the job.
TEST(SimulatorTest, EveryPolicyServesDemandsOfAllForms) {
  const Fleet fleet = Fleet::create({{.name = "h", .gpus = 0, .host = {8000, 100}},
                                     {.name = "a", .gpu = "A", .gpus = 2, .host = {8000, 100}},
                                     {.name = "b", .gpu = "A", .gpus = 2, .host = {8000, 100}},
                                     {.name = "t", .gpu = "T", .gpus = 8, .host = {8000, 100}}})
                          .value();
  ASSERT_EQ(fleet.kinds().size(), 2U);
  std::vector<Job> jobs;
  jobs.push_back(job_of(0, 4, 10));
  jobs.back().demand.kinds = 0b01;
  for (const double arrival_s : {20.0, 21.0}) {
    for (int i = 0; i < 4; ++i) {
      jobs.push_back(job_of(arrival_s, 1, 10));
      jobs.back().demand = {.gpus = 1, .gpu_share = 500, .host = {1000, 1}, .kinds = 0b01};
    }
  }
  for (int i = 0; i < 5; ++i) {
    jobs.push_back(job_of(40, 0, 10));
    jobs.back().demand.host = {8000, 1};
  }
  for (const PolicyEntry& entry : policies()) {
    if (!check_policy(entry, fleet, jobs)) continue;
    const auto policy = entry.make({.round_s = 5});
    const std::vector<double> ends = ends_of(simulate(fleet, jobs, *policy).value());
    EXPECT_EQ(ends[0], 10) << entry.name;
    // Two shares fit on each of four GPUs at once.
    EXPECT_EQ(ends[4], 30) << entry.name;
    EXPECT_EQ(ends[8], 31) << entry.name;
    // Four servers have eight cores.
    EXPECT_EQ(ends[12], 50) << entry.name;
    EXPECT_LE(ends[13], 60) << entry.name;
  }
}

TEST(SimulatorTest, RoundsEndWhateverTheirLength) {
  const Fleet fleet = Fleet::uniform(1, 1).value();
  const std::vector<Job> jobs{job_of(0, 1, 20), job_of(1, 1, 20)};
  for (const double round_s : {0.7, 1.4, 2.3}) {
    for (const char* name : {"las", "gittins", "las-proportional"}) {
      const auto policy = find_policy(name).value()->make({.round_s = round_s});
      EXPECT_NEAR(ends_of(simulate(fleet, jobs, *policy).value())[1], 39, 1.01) << name;
    }
  }
}

TEST(SimulatorTest, GivesTheSameResultsAgain) {
  const Fleet fleet = Fleet::uniform(4, 8).value();
  for (const PolicyEntry& entry : policies()) {
    const std::vector<Job> jobs =
        jobs_for(entry, random_jobs(static_cast<std::size_t>(instances(1000)), 2));
    const auto first = entry.make({});
    const auto second = entry.make({});
    EXPECT_EQ(ends_of(simulate(fleet, jobs, *first).value()),
              ends_of(simulate(fleet, jobs, *second).value()));
  }
}

}  // namespace
}  // namespace gpemu::scheduling
