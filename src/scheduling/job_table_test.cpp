// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_table.hpp"

#include <string>

#include <gtest/gtest.h>

namespace gpemu::scheduling {
namespace {

std::vector<Job> jobs_of(const std::string& text, const JobTableOptions& options = {}) {
  return parse_jobs(text, "jobs.csv", options).value();
}

std::string fault_in(const std::string& text, const JobTableOptions& options = {}) {
  const Result<std::vector<Job>> jobs = parse_jobs(text, "jobs.csv", options);
  return jobs ? "none" : jobs.error().message;
}

constexpr const char* kMuri =
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
    "7,8,2000,50,vgg16,16,9,9,200,90,60,45,1\n"
    "8,1,1000,10,dqn,128,9,9,500,400,100,0,0\n";

TEST(JobTableTest, ReadsMurisColumnsInMilliseconds) {
  const std::vector<Job> jobs = jobs_of(kMuri);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "8");
  EXPECT_EQ(jobs[0].arrival_s, 1);
  const Job& second = jobs[1];
  EXPECT_EQ(second.demand.gpus, 8U);
  EXPECT_EQ(second.iterations, 50);
  EXPECT_EQ(second.iteration_s, 0.2);
  EXPECT_EQ(second.stated_s, 0.009);
  EXPECT_EQ(second.stages_s, (std::array{0.09, 0.06, 0.045}));
  EXPECT_EQ(second.model, "vgg16");
  EXPECT_TRUE(second.opportunistic);
}

TEST(JobTableTest, AddsRestartTimesAndTheFactor) {
  const RestartTimes restarts{{{"vgg16", 8}, 9}, {{"dqn", 1}, 5}};
  const std::vector<Job> jobs = jobs_of(kMuri, {.iteration_factor = 2, .restarts = &restarts});
  EXPECT_EQ(jobs[0].restart_s, 5);
  EXPECT_EQ(jobs[1].restart_s, 9);
  EXPECT_EQ(jobs[1].iteration_s, 0.4);
  const RestartTimes other{{{"dqn", 1}, 5}};
  EXPECT_EQ(fault_in(kMuri, {.restarts = &other}),
            "jobs.csv:2: the restart times have no model \"vgg16\" with 8 GPUs");
}

TEST(JobTableTest, CountsDatesFromTheFirst) {
  const std::vector<Job> jobs = jobs_of(
      "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-10 00:00:01,66.5,2,133,a\n"
      "2017-10-09 23:59:59,7,1,7,b\n");
  EXPECT_EQ(jobs[0].arrival_s, 0);
  EXPECT_EQ(jobs[1].arrival_s, 2);
  EXPECT_EQ(jobs[1].work_s(), 66.5);
  EXPECT_EQ(jobs[1].id, "0");
}

TEST(JobTableTest, RefusesDatesOfAnotherForm) {
  const auto fault_of = [](const std::string& date) {
    return fault_in("timestamp,duration,num_gpus\n" + date + ",66,2\n");
  };
  for (const std::string date :
       {"2017/10/09 07:01:55", "2017-10-09T07:01:55", "2017-10-09 07-01-55", "2017-10-09 07:01:-5",
        "2017-13-09 07:01:55", "2017-10-09 24:01:55", "2017-10-9 07:01:550"}) {
    EXPECT_EQ(fault_of(date),
              "jobs.csv:2: \"" + date + "\" is no time such as 2017-10-09 07:01:55");
  }
}

TEST(JobTableTest, RefusesRestartTimesThatNobodyCanMean) {
  const auto fault_of = [](const std::string& rows) {
    return parse_restart_times("model,gpus,restart_s\n" + rows, "r.csv").error().message;
  };
  EXPECT_EQ(fault_of("bert,1.5,3\n"), "r.csv:2: a job needs whole GPUs");
  EXPECT_EQ(fault_of("bert,1,3\nbert,1,4\n"),
            "r.csv:3: this model and number of GPUs have a restart time already");
}

TEST(JobTableTest, NamesFileAndLineOfFaults) {
  const std::string header = "job,arrival_s,gpus,duration_s\n";
  EXPECT_EQ(fault_in(header + "a,0,1,nan\n"),
            "jobs.csv:2: duration_s is \"nan\"; it must be a number above 0, up "
            "to 100000000000000");
  EXPECT_EQ(fault_in(header + "a,-1,1,5\n"),
            "jobs.csv:2: arrival_s is \"-1\"; it must be a number from 0 to 100000000000000");
  EXPECT_EQ(fault_in(header + "a,0,2147483648,5\n"),
            "jobs.csv:2: gpus is \"2147483648\"; it must be a number from 0 to 16777216");
  EXPECT_EQ(fault_in(header + "a,0,1.5,5\n"), "jobs.csv:2: a job needs whole GPUs");
  EXPECT_EQ(fault_in(header + "a,3,1,5\nb,2,1,5\n"),
            "jobs.csv:3: it arrives before the row above; sort the rows by arrival_s");
  EXPECT_EQ(fault_in(header + "a,0,1\n"), "jobs.csv:2: 3 cells, but the header has 4");
  EXPECT_EQ(fault_in(header), "jobs.csv:1: no jobs follow");
  EXPECT_EQ(fault_in(""), "jobs.csv: it is empty");
}

TEST(JobTableTest, ListsTheFormatsIfNoneFits) {
  EXPECT_EQ(fault_in("job,arrival\na,0\n"),
            "jobs.csv:1: these columns are of no format of jobs; there are gpemu (job arrival_s "
            "gpus duration_s), Muri (job_id num_gpu submit_time iterations model_name "
            "iteration_time resource_time_0 resource_time_1 resource_time_2), Philly (timestamp "
            "num_gpus duration), ElasticFlow (job_id submission_time num_gpu duration), "
            "openb (name cpu_milli memory_mib num_gpu gpu_milli), Helios and Acme (job_id user "
            "gpu_num submit_time start_time end_time), Pollux and Sia (name time application "
            "num_replicas)");
}

TEST(JobTableTest, ReadsCompressedFiles) {
  const std::filesystem::path folder(GPEMU_SCHEDULERS_FOLDER);
  EXPECT_EQ(read_jobs(folder / "muri" / "trace3.csv.gz").value().size(), 992U);
  EXPECT_EQ(read_restart_times(folder / "muri" / "restarts.csv").value().size(), 48U);
  EXPECT_EQ(read_jobs(folder / "none.csv").error().code, ErrorCode::kNotFound);
}

/// Jobs without GPUs may say which kinds they want: that is no matter.
TEST(JobTableTest, ReadsOpenbsColumnsForPlacements) {
  const Fleet fleet =
      Fleet::create({{.name = "a", .gpu = "T4", .gpus = 1}, {.name = "b", .gpu = "A10", .gpus = 1}})
          .value();
  const std::string text =
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
      "p,1500,3,1,460,A10,LS\nq,500,0,0,0,A10,BE\nr,0,0,2,1000,A10|T4,BE\n";
  const std::vector<Job> jobs =
      parse_jobs(text, "pods.csv", {.fleet = &fleet, .timeless = true}).value();
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(
      jobs[0].demand,
      (Demand{
          .gpus = 1, .gpu_share = 460, .host = {.millicores = 1500, .memory_mib = 3}, .kinds = 2}));
  EXPECT_EQ(jobs[1].demand, (Demand{.gpus = 0, .host = {.millicores = 500}}));
  EXPECT_EQ(jobs[2].demand, (Demand{.gpus = 2, .host = {}, .kinds = 3}));
  EXPECT_NE(parse_jobs(text, "pods.csv", {.fleet = &fleet}).error().message.find("gpemu place"),
            std::string::npos);
}

}  // namespace
}  // namespace gpemu::scheduling
