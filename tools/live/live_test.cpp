// SPDX-License-Identifier: Apache-2.0
//
// What queues of all kinds share. With jobs: tools/kubernetes/pod_scheduler_test.cpp and
// tools/slurm/queue_test.cpp.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "live/job_notes.hpp"
#include "live/live_schedule.hpp"
#include "live/replay_report.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Fleet;
using scheduling::Job;
using scheduling::JobState;
using Keys = std::vector<std::string>;

TEST(JobNotes, DescribeAJobAndAreReadAgain) {
  const Fleet fleet =
      Fleet::create({{.name = "a", .gpu = "A", .gpus = 1}, {.name = "b", .gpu = "B", .gpus = 1}})
          .value();
  const std::map<std::string, std::string> texts{{"seconds", "60"},
                                                 {"iterations", "30"},
                                                 {"restart-seconds", "2"},
                                                 {"stated-seconds", "70"},
                                                 {"stage-seconds", "1,0.5,0.5"},
                                                 {"opportunistic", "true"},
                                                 {"user", "0"},
                                                 {"speeds", "gpu,speed\nA,1\nB,0.5\n"}};
  NotedSpeeds speeds;
  const Job job = job_of_notes({"the key", "", texts}, fleet, speeds).value();
  EXPECT_EQ(job.work_s(), 60);
  EXPECT_EQ(job.iteration_s, 2);
  EXPECT_EQ(job.iteration_s_on(1), 4);
  EXPECT_EQ(notes_of_job(fleet, job, 0), texts);
  EXPECT_EQ(notes_of_job(fleet, job, 6).at("done-seconds"), "6");
}

TEST(JobNotes, FaultsNameTheNote) {
  const Fleet fleet = Fleet::uniform(1, 1).value();
  const auto fault = [&](const char* name, const char* text) {
    const std::map<std::string, std::string> texts{{std::string("p/") + name, text}};
    NotedSpeeds speeds;
    return job_of_notes({"the note", "p/", texts}, fleet, speeds).error().message;
  };
  EXPECT_EQ(fault("seconds", "long"),
            "the note p/seconds is 'long'; it must be a number from 0 on");
  EXPECT_EQ(fault("iterations", "0"),
            "p/seconds of 1000000000 and p/iterations of 0 are no times "
            "of iterations");
  EXPECT_TRUE(fault("stage-seconds", "1,2").starts_with("p/stage-seconds must be the seconds"));
  EXPECT_EQ(fault("speeds", "gpu,speed\n"), "p/speeds:1: no speeds follow");
}

TEST(Newcomers, AreSeenInOrderAndTogether) {
  const auto one = [](const char* name, const char* together, double made_s) {
    return Newcomer{
        .key = name, .name = name, .together = together, .made_s = made_s, .seen_s = 100};
  };
  std::vector<Newcomer> newcomers{one("10", "", 5), one("9", "", 5), one("8", "3/x", 3),
                                  one("7", "2/y", 6), one("6", "2/y", 4)};
  EXPECT_EQ(take_complete(newcomers, 101), Keys({"6", "7", "9", "10"}))
      << "those that arrive together do so with the first of them";
  ASSERT_EQ(newcomers.size(), 1U);
  EXPECT_EQ(take_complete(newcomers, 105), Keys());
  EXPECT_EQ(take_complete(newcomers, 111), Keys({"8"})) << "it has waited for long enough";
}

TEST(ReplayReport, SaysWhyJobsStartInAnotherPlace) {
  std::vector<Job> jobs(3);
  std::vector<ReplayedJob> replayed{{.start_s = 0, .end_s = 10},
                                    {.start_s = 12, .end_s = 20, .evictions = 2},
                                    {.start_s = 11, .end_s = 12}};
  std::vector<JobState> simulated(3);
  const std::vector<std::pair<double, double>> times{{0, 10}, {10, 18}, {18, 20}};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].id = std::string(1, static_cast<char>('a' + i));
    simulated[i].first_start_s = times[i].first;
    simulated[i].end_s = times[i].second;
  }
  EXPECT_EQ(replay_report(jobs, replayed, simulated, {.where = "here", .evictions = "stopped"}),
            "jobs             3, stopped 2 times\n"
            "mean JCT         14.0 s here, 16.0 s simulated: -12.5 %\n"
            "order of starts  2 jobs have another place\n"
            "  b: no. 3, simulated as no. 2: c ends before it starts, in the simulation 10.0 s "
            "after\n"
            "  c: no. 2, simulated as no. 3: b ends after it starts, in the simulation 0.0 s "
            "before\n");
  EXPECT_EQ(replayed_jobs_table({jobs.data(), 1}, {replayed.data(), 1}, {simulated.data(), 1}),
            "job,arrival_s,start_s,end_s,evictions,simulated_start_s,simulated_end_s\n"
            "a,0.000,0.000,10.000,0,0.000,10.000\n");
}

}  // namespace
}  // namespace gpemu::tools
