// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table.hpp"

#include "job_list.hpp"

// The tables are made up; their columns are those of the traces.
namespace gpemu::scheduling {
namespace {

std::vector<Job> trace_of(const std::string& text, const JobTableOptions& options = {}) {
  return parse_jobs(text, "trace", options).value();
}

std::string trace_fault(const std::string& text, const JobTableOptions& options = {}) {
  const Result<std::vector<Job>> jobs = parse_jobs(text, "trace", options);
  return jobs ? "none" : jobs.error().message;
}

constexpr const char* kHelios =
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "2,uB,v,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:30,2020-06-09 18:45:36,246,3\n"
    "1,uA,v,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 23:59:59,2020-06-10 00:00:09,10,0\n"
    "3,uA,v,0,8,1,COMPLETED,2020-06-09 18:42:00,2020-06-09 18:42:00,2020-06-09 18:43:00,60,0\n"
    "4,uA,v,1,1,1,CANCELLED,2020-06-09 18:42:00,,,0,0\n";

TEST(TraceFormatsTest, HeliosJobsTakeTheTimeFromStartToEnd) {
  std::size_t left_out = 0;
  const std::vector<Job> jobs = trace_of(kHelios, {.left_out = &left_out});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "1");
  EXPECT_EQ(jobs[0].arrival_s, 0);
  EXPECT_EQ(jobs[0].work_s(), 10);
  EXPECT_EQ(jobs[0].user, 0U);
  EXPECT_EQ(jobs[1].arrival_s, 26);
  EXPECT_EQ(jobs[1].demand, (Demand{.gpus = 4, .host = {}}));
  EXPECT_EQ(jobs[1].work_s(), 246);
  EXPECT_EQ(jobs[1].user, 1U);
  EXPECT_EQ(left_out, 2U);  // One without GPUs, one that never ran.
}

/// In Kalos, the column duration begins when the job is submitted.
TEST(TraceFormatsTest, AcmesTimesHaveOffsets) {
  const std::vector<Job> jobs = trace_of(
      "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,"
      "submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
      "dlc1,u1,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
      "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,,,18,10.0,1152.0\n"
      "dlc2,u2,1,8,96,1000,100.0,Other,FAILED,2023-05-17 19:00:59+08:00,"
      "2023-05-17 19:02:00+08:00,2023-05-17 19:03:00+08:00,,,121,61.0,1152.0\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].work_s(), 8);
  EXPECT_EQ(jobs[0].demand.gpus, 64U);
  EXPECT_EQ(jobs[1].arrival_s, 1);
  EXPECT_EQ(jobs[1].work_s(), 60);
}

TEST(TraceFormatsTest, DatesMayHaveAnOffset) {
  EXPECT_EQ(parse_date("1970-01-01 00:00:01"), 1);
  EXPECT_EQ(parse_date("1970-01-01 08:00:01+08:00"), 1);
  EXPECT_EQ(parse_date("1969-12-31 16:30:01-07:30"), 1);
  for (const char* const text : {"1970-01-01 00:00:01Z", "1970-01-01 00:00:01+0800", "1970-01-01",
                                 "1970-02-30 00:00:00", ""}) {
    EXPECT_FALSE(parse_date(text).has_value()) << text;
  }
}

constexpr const char* kPhilly = R"([
 {"status": "Pass", "vc": "e", "jobid": "application_2", "user": "b",
  "submitted_time": "2017-10-07 01:12:00", "attempts": [
   {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23",
    "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": ["gpu3"]}]},
   {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-07 01:13:40",
    "detail": [{"ip": "m4", "gpus": ["gpu0"]}]}]},
 {"status": "Killed", "vc": "e", "jobid": "application_1", "user": "a",
  "submitted_time": "2017-10-07 01:11:39", "attempts": [
   {"start_time": null, "end_time": null, "detail": [{"ip": "m4", "gpus": ["gpu0"]}]},
   {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:00:05", "detail": []}]},
 {"status": "Pass", "vc": "e", "jobid": "none", "user": "a",
  "submitted_time": "2017-10-07 01:11:39", "attempts": []},
 {"status": "Pass", "vc": "e", "jobid": "runs on", "user": "a",
  "submitted_time": "2017-10-07 01:11:39", "attempts": [
   {"start_time": "2017-10-07 02:00:00", "end_time": "None",
    "detail": [{"ip": "m4", "gpus": ["gpu0"]}]}]}
])";

TEST(TraceFormatsTest, PhillysAttemptsCountTogether) {
  std::size_t left_out = 0;
  const std::vector<Job> jobs = trace_of(kPhilly, {.left_out = &left_out});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "application_1");
  EXPECT_EQ(jobs[0].arrival_s, 0);
  EXPECT_EQ(jobs[0].work_s(), 5);
  EXPECT_EQ(jobs[1].arrival_s, 21);
  EXPECT_EQ(jobs[1].demand.gpus, 3U);
  EXPECT_EQ(jobs[1].work_s(), 74 + 10);
  EXPECT_EQ(jobs[1].user, 1U);
  EXPECT_EQ(left_out, 2U);
}

TEST(TraceFormatsTest, PhillysFaultsNameTheJob) {
  EXPECT_EQ(trace_fault("[{\"attempts\": 3}]"),
            "trace: job 1 of the list: it has no list \"attempts\"");
  EXPECT_EQ(trace_fault("[3]"), "trace: job 1 of the list: it is no object");
  EXPECT_EQ(trace_fault("[{\"attempts\": [], \"submitted_time\": \"yesterday\"}]"),
            "trace: job 1 of the list: submitted_time is \"yesterday\"; it must be a time such as "
            "2017-10-09 07:01:55");
  EXPECT_EQ(trace_fault("[{]"),
            "trace: it begins like Philly's log of jobs, but is no list in JSON");
  EXPECT_EQ(trace_fault("[{\"jobid\": \"a,b\", \"submitted_time\": \"2017-10-07 01:12:00\", "
                        "\"attempts\": [{\"start_time\": \"2017-10-07 01:12:00\", \"end_time\": "
                        "\"2017-10-07 01:12:09\", \"detail\": [{\"gpus\": [\"gpu0\"]}]}]}]"),
            "trace: job 1 of the list: its jobid has a comma or a quote, which tables cannot have");
  EXPECT_EQ(trace_fault("[]"), "trace: no jobs follow");
}

constexpr const char* kGavel =
    "ResNet-18 (batch size 32)\tpython3 main.py "
    "\"x\"\timage\t--steps\t1\t600\t1\t1\t-1.000000\t7.5\n"
    "A3C\tpython3 main.py\trl\t--max-steps\t0\t400\t2\t1\t-1.000000\t9\n";

TEST(TraceFormatsTest, GavelsStepsTakeWhatTheSpeedsSay) {
  EXPECT_EQ(trace_fault(kGavel),
            "trace:1: this format says what a job does, and not for how long; give a table of "
            "speeds with model \"ResNet-18 (batch size 32)\", in steps per second");
  const Fleet fleet = parse_fleet("server,gpu,gpus\na,V100,8\nb,K80,8\n", "f").value();
  const SpeedTable speeds =
      parse_speeds(
          "model,gpus,gpu,speed\nResNet-18 (batch size 32),,V100,4\n"
          "ResNet-18 (batch size 32),,K80,1\nA3C,2,V100,0.5\nA3C,2,K80,0.5\nA3C,,V100,9\n"
          "A3C,,K80,9\n",
          "s.csv", fleet)
          .value();
  const std::vector<Job> jobs = trace_of(kGavel, {.fleet = &fleet, .speeds = &speeds});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].arrival_s, 7.5);
  EXPECT_EQ(jobs[0].iterations, 600);
  EXPECT_EQ(jobs[0].work_s(), 150);  // On a V100, the fastest.
  EXPECT_EQ(jobs[0].iteration_s_on(1), 1);
  EXPECT_EQ(jobs[1].demand.gpus, 2U);
  EXPECT_EQ(jobs[1].work_s(), 800);
  EXPECT_EQ(jobs[1].speed, nullptr);  // As fast everywhere.
  EXPECT_EQ(jobs[1].evidence, "stated speeds");
  EXPECT_NE(trace_fault("B\tc\td\t-n\t0\t4\t2\t1\t-1\t9\n", {.fleet = &fleet, .speeds = &speeds})
                .find("trace:1: the speeds have no model \"B\" with 2 GPUs"),
            std::string::npos);
}

TEST(TraceFormatsTest, GavelsOlderLinesAndThoseWithADuration) {
  const Fleet fleet = Fleet::uniform(1, 8).value();
  const SpeedTable speeds = parse_speeds("model,speed\nA3C,4\n", "s.csv", fleet).value();
  const JobTableOptions options{.fleet = &fleet, .speeds = &speeds};
  for (const char* const line : {"A3C\tpython3\t-n\t0\t400\t2\t1\t-1\t9\n",
                                 "A3C\tpython3\trl\t-n\t0\t400\t2\tgns\t1\t-1\t9\n"}) {
    EXPECT_EQ(trace_of(line, options)[0].work_s(), 100) << line;
    EXPECT_EQ(trace_of(line, options)[0].demand.gpus, 2U) << line;
  }
  const Job timed = trace_of("A3C\tpython3\trl\t-n\t0\t400\t2\tgns\t1\t-1\t77\t9\n")[0];
  EXPECT_EQ(timed.work_s(), 77);
  EXPECT_EQ(timed.arrival_s, 9);
}

TEST(TraceFormatsTest, PolluxsTrainingsTakeWhatTheSpeedsSay) {
  constexpr const char* kPollux =
      "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\n"
      "bert-1,110.5,bert,12,384\n";
  EXPECT_NE(trace_fault(kPollux).find("with model \"cifar10\", in trainings per second"),
            std::string::npos);
  const Fleet fleet = Fleet::uniform(2, 8).value();
  const SpeedTable speeds =
      parse_speeds("model,gpus,speed\ncifar10,6,0.001\nbert,,0.0001\n", "s.csv", fleet).value();
  const std::vector<Job> jobs = trace_of(kPollux, {.fleet = &fleet, .speeds = &speeds});
  EXPECT_EQ(jobs[0].work_s(), 1000);
  EXPECT_EQ(jobs[1].work_s(), 10000);
  EXPECT_EQ(jobs[1].demand.gpus, 12U);
  EXPECT_EQ(jobs[1].model, "bert");
}

}  // namespace
}  // namespace gpemu::scheduling
