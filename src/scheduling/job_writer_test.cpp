// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_writer.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/speed_profile.hpp"

namespace gpemu::scheduling {
namespace {

void expect_same(const std::vector<Job>& is, const std::vector<Job>& wanted) {
  ASSERT_EQ(is.size(), wanted.size());
  for (std::size_t i = 0; i < is.size(); ++i) {
    EXPECT_EQ(is[i].id, wanted[i].id);
    EXPECT_EQ(is[i].arrival_s, wanted[i].arrival_s);
    EXPECT_EQ(is[i].demand, wanted[i].demand);
    EXPECT_EQ(is[i].iterations, wanted[i].iterations);
    EXPECT_EQ(is[i].iteration_s, wanted[i].iteration_s);
    EXPECT_EQ(is[i].restart_s, wanted[i].restart_s);
    EXPECT_EQ(is[i].stated_s, wanted[i].stated_s);
    EXPECT_EQ(is[i].stages_s, wanted[i].stages_s);
    EXPECT_EQ(is[i].model, wanted[i].model);
    EXPECT_EQ(is[i].user, wanted[i].user);
    EXPECT_EQ(is[i].opportunistic, wanted[i].opportunistic);
  }
}

TEST(JobWriterTest, MurisTraceStaysTheSame) {
  const std::vector<Job> jobs =
      read_jobs(std::filesystem::path(GPEMU_SCHEDULERS_FOLDER) / "muri" / "trace3_pr.csv.gz")
          .value();
  const std::string text = job_table_text(jobs).value();
  const std::vector<Job> again = parse_jobs(text, "t").value();
  expect_same(again, jobs);
  EXPECT_EQ(job_table_text(again).value(), text);
}

TEST(JobWriterTest, DemandsAndUsersStayTheSame) {
  const Fleet fleet = parse_fleet("server,gpu,gpus\na,V100,8\nb,K80,8\n", "f").value();
  const JobTableOptions options{.fleet = &fleet};
  const std::vector<Job> jobs =
      parse_jobs(
          "job,arrival_s,gpus,duration_s,gpu,gpu_share,user,cores,memory_gib\n"
          "a,0,1,5.125,K80,0.5,x,0,0\nb,0.1,0,5,,1,y,2.5,3\nc,7,2,5,K80|V100,1,x,0,0\n",
          "j.csv", options)
          .value();
  const std::string text = job_table_text(jobs, &fleet).value();
  EXPECT_TRUE(
      text.starts_with("job,arrival_s,gpus,duration_s,gpu_share,gpu,cores,memory_gib,user\n"
                       "a,0,1,5.125,0.5,K80,0,0,0\n"))
      << text;
  expect_same(parse_jobs(text, "t", options).value(), jobs);
}

TEST(JobWriterTest, RefusesWhatATableCannotSay) {
  Job job;
  job.id = "a,b";
  job.iterations = job.iteration_s = 1;
  EXPECT_NE(job_table_text({{job}}).error().message.find("\"a,b\" cannot stand in a table"),
            std::string::npos);
  job.id = "a";
  EXPECT_EQ(job_table_text({{job}}).value(), "job,arrival_s,gpus,duration_s\na,0,1,1\n");
  job.speed = std::make_shared<const SpeedProfile>();
  EXPECT_NE(job_table_text({{job}}).error().message.find("depends on where it runs"),
            std::string::npos);
}

TEST(JobWriterTest, IterationsMustFitTheDuration) {
  EXPECT_EQ(
      parse_jobs("job,arrival_s,gpus,duration_s,iterations\na,0,1,10,4\n", "t.csv").error().message,
      "t.csv:2: duration_s is not iterations times iteration_s");
}

}  // namespace
}  // namespace gpemu::scheduling
