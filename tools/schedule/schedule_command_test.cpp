// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

constexpr const char* kJobs =
    "job,arrival_s,gpus,duration_s\na,0,1,10\nb,0,2,4\nc,1,1,2\nd,6,1,1\n";

TEST(ScheduleCommandTest, ShowsWhatPoliciesMakeOfTheJobs) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", kJobs);
  const Outcome outcome =
      world.run({"schedule", jobs, "--servers", "1", "--gpus", "2", "--policy", "fifo", "srtf"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  // FIFO: the first until 10, the second until 14, the others until 16 and 15.
  EXPECT_NE(squeezed(outcome.output).find("jobs.csv fifo 12.0"), std::string::npos);
  // SRTF: until 14, 6, 3 and 7.
  EXPECT_NE(squeezed(outcome.output).find("jobs.csv srtf 5.8"), std::string::npos);
}

TEST(ScheduleCommandTest, WritesJson) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", kJobs);
  const Outcome outcome = world.run(
      {"schedule", jobs, "--servers", "1", "--gpus", "2", "--policy", "srtf", "--json", "-"});
  const nlohmann::json json = parsed(outcome.output);
  EXPECT_EQ(json["format"], "gpemu-schedule-1");
  EXPECT_EQ(json["results"][0]["average_jct_s"], (14 + 6 + 2 + 1) / 4.0);
  EXPECT_EQ(json["results"][0]["jobs"], 4);
}

TEST(ScheduleCommandTest, ComparesFleetsAndWritesAPageAndALineForEachJob) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", kJobs);
  const std::string fleet = world.write("fleet.csv", "server,gpus,cores\na,2,8\n");
  const std::string page = (world.folder / "page.html").string();
  const std::string lines = (world.folder / "lines.csv").string();
  const Outcome outcome =
      world.run({"schedule", jobs, "--fleet", fleet, "--servers", "4", "--gpus", "2", "--policy",
                 "fifo", "--report", page, "--per-job", lines, "--threads", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(squeezed(outcome.output).find("jobs.csv fleet.csv fifo 12.0"), std::string::npos);
  EXPECT_NE(squeezed(outcome.output).find("jobs.csv 4x2 fifo 4.2"), std::string::npos);
  EXPECT_NE(read_file(page, kMiB).value().find("jobs.csv on 4x2 (4 jobs, 8 GPUs)"),
            std::string::npos);
  const std::string text = read_file(lines, kMiB).value();
  EXPECT_EQ(std::ranges::count(text, '\n'), 9);
  EXPECT_NE(text.find("\njobs.csv,fleet.csv,fifo,b,0,2,10,14,4,0,0\n"), std::string::npos);
}

TEST(ScheduleCommandTest, NamesTheFaultAndWhereItIs) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", "job,arrival_s,gpus,duration_s\na,0,1,-3\n");
  EXPECT_NE(world.run({"schedule", jobs, "--servers", "1"}).errors.find("jobs.csv:2: duration_s"),
            std::string::npos);
  const std::string large = world.write("large.csv", "job,arrival_s,gpus,duration_s\na,0,9,3\n");
  EXPECT_NE(world.run({"schedule", large, "--servers", "1"}).errors.find("needs 9 GPUs"),
            std::string::npos);
  EXPECT_NE(world.run({"schedule", large, "--servers", "2147483648"}).errors.find("--servers"),
            std::string::npos);
  EXPECT_NE(world.run({"schedule", large, "--servers", "2147483647"}).errors.find("GPUs"),
            std::string::npos);
}

}  // namespace
}  // namespace gpemu::tools
