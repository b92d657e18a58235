// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/placing_policy.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/ledger.hpp"

namespace gpemu::scheduling {
namespace {

Job share_of(std::uint32_t milli) {
  Job job{.id = "j", .demand = {.gpu_share = milli, .host = {}}, .stages_s = {}, .model = {}};
  job.iterations = job.iteration_s = 1;
  return job;
}

/// Returns which GPU of one server with two each job gets; -1: it waits.
std::vector<int> placed(const char* placement, const std::vector<Job>& jobs) {
  const Fleet fleet = Fleet::uniform(1, 2).value();
  Ledger ledger(fleet, jobs, Accounting::kFree, Tracking::kServers);
  std::vector<JobIndex> arrived;
  for (JobIndex job = 0; job < jobs.size(); ++job) {
    ledger.arrive(job);
    arrived.push_back(job);
  }
  const auto policy = make_placing_policy(**find_placement(placement), {});
  Decision decision;
  policy->decide({.fleet = &fleet,
                  .free = &ledger.free(),
                  .jobs = jobs,
                  .states = ledger.states(),
                  .arrived = arrived,
                  .ended = {}},
                 decision);
  EXPECT_TRUE(ledger.apply(decision));
  std::vector<int> gpus;
  for (const JobState& state : ledger.states()) {
    gpus.push_back(state.gpus.empty() ? -1 : static_cast<int>(state.gpus.part(0).gpus) - 1);
  }
  return gpus;
}

TEST(PlacingPolicy, StartsInTheOrderOfArrivalWhereThePlacementSays) {
  // The third one fills the GPU of the first; the fourth does not fit, and the last overtakes it.
  const std::vector<Job> jobs{share_of(600), share_of(700), share_of(400), share_of(500),
                              share_of(300)};
  EXPECT_EQ(placed("fgd", jobs), (std::vector<int>{0, 1, 0, -1, 1}));
  EXPECT_EQ(placed("best-fit", jobs), (std::vector<int>{0, 1, 0, -1, 1}));
}

TEST(PlacingPolicy, AJobLargerThanAServerGetsWholeServers) {
  const Fleet fleet = Fleet::uniform(3, 2).value();
  Job job = share_of(kWholeGpu);
  job.demand.gpus = 4;
  const std::vector<Job> jobs{job};
  Ledger ledger(fleet, jobs, Accounting::kFree, Tracking::kServers);
  ledger.arrive(0);
  const auto policy = make_placing_policy(**find_placement("fgd"), {});
  const std::vector<JobIndex> arrived{0};
  Decision decision;
  policy->decide({.fleet = &fleet,
                  .free = &ledger.free(),
                  .jobs = jobs,
                  .states = ledger.states(),
                  .arrived = arrived,
                  .ended = {}},
                 decision);
  ASSERT_EQ(decision.start.size(), 1);
  EXPECT_EQ(decision.start[0].gpus.parts(), 2);
}

}  // namespace
}  // namespace gpemu::scheduling
