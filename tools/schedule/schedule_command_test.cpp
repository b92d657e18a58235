// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
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

TEST(ScheduleCommandTest, TablesAndFleetsOfTheSameFileNameHaveTheirPaths) {
  const TestWorld world;
  const auto in_folder = [&](const char* folder, const char* name, const std::string& text) {
    std::filesystem::create_directory(world.folder / folder);
    return world.write(std::string(folder) + "/" + name, text);
  };
  const std::string jobs = in_folder("a", "jobs.csv", kJobs);
  const std::string same = in_folder("b", "jobs.csv", kJobs);
  const std::string small = in_folder("a", "fleet.csv", "server,gpus\ns,2\n");
  const std::string large = in_folder("b", "fleet.csv", "server,gpus\ns,8\n");
  const std::string page = (world.folder / "page.html").string();
  const Outcome outcome = world.run({"schedule", jobs, same, "--fleet", small, large, "--policy",
                                     "fifo", "--quiet", "--report", page});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string text = read_file(page, kMiB).value();
  for (const std::string& table : {jobs, same}) {
    EXPECT_NE(text.find(table + " on " + small + " (4 jobs, 2 GPUs)"), std::string::npos);
    EXPECT_NE(text.find(table + " on " + large + " (4 jobs, 8 GPUs)"), std::string::npos);
  }
  EXPECT_NE(world.run({"schedule", jobs, jobs, "--servers", "1"}).errors.find("given twice"),
            std::string::npos);
  EXPECT_NE(world.run({"schedule", jobs, "--servers", "1", "1"}).errors.find("--servers has 1"),
            std::string::npos);
}

TEST(ScheduleCommandTest, ThePageShowsWhichJobHadWhichGpu) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", kJobs);
  const std::string page = (world.folder / "page.html").string();
  const auto page_of = [&](const char* servers) {
    EXPECT_EQ(world
                  .run({"schedule", jobs, "--servers", servers, "--gpus", "2", "--policy", "srtf",
                        "--quiet", "--report", page})
                  .code,
              0);
    return read_file(page, kMiB).value();
  };
  const std::string text = page_of("1");
  EXPECT_NE(text.find("Which job has which GPU: srtf"), std::string::npos);
  EXPECT_NE(text.find("server0 GPU 1"), std::string::npos);
  // 3 s of two GPUs, from 3 s on, after c.
  EXPECT_NE(text.find("job b (2 GPUs): 0.0008333 h from 0.000833333"), std::string::npos) << text;
  EXPECT_EQ(page_of("33").find("Which job has which GPU: "), std::string::npos);
}

TEST(ScheduleCommandTest, RefusesOptionsWithoutEffect) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", kJobs);
  const std::string fleet = world.write("fleet.csv", "server,gpus\ns,2\n");
  EXPECT_NE(world.run({"schedule", jobs, "--fleet", fleet, "--gpus", "4"}).errors.find("--servers"),
            std::string::npos);
  EXPECT_NE(
      world.run({"schedule", jobs, "--fleet", fleet, "--policy", "fifo", "srtf", "--round", "60"})
          .errors.find("--round: a length of rounds is set, and no policy that runs has"),
      std::string::npos);
  EXPECT_EQ(
      world.run({"schedule", jobs, "--fleet", fleet, "--policy", "fifo", "las", "--round", "60"})
          .code,
      0);
}

/// FIFO waits forever for the cores; Synergy gives the job those that there are.
TEST(ScheduleCommandTest, ShowsTheResultsOfTheOthersIfAPolicyFails) {
  const TestWorld world;
  const std::string jobs =
      world.write("jobs.csv", "job,arrival_s,gpus,duration_s,cores\na,0,2,10,100\n");
  const std::string fleet = world.write("fleet.csv", "server,gpus,cores,memory_gib\ns,2,8,64\n");
  const std::string json = (world.folder / "out.json").string();
  const Outcome outcome = world.run(
      {"schedule", jobs, "--fleet", fleet, "--policy", "fifo", "las-synergy", "--json", json});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(squeezed(outcome.output).find("jobs.csv las-synergy 10.0"), std::string::npos);
  EXPECT_NE(outcome.errors.find("1 of 2 simulations failed:"), std::string::npos);
  EXPECT_NE(outcome.errors.find("jobs.csv on fleet.csv, policy fifo: job a waits"),
            std::string::npos)
      << outcome.errors;
  const nlohmann::json results = parsed(read_file(json, kMiB).value());
  EXPECT_EQ(results["results"].size(), 1U);
  EXPECT_EQ(results["failed"][0]["policy"], "fifo");
}

TEST(ScheduleCommandTest, NamesThePoliciesThatAreLeftOut) {
  const TestWorld world;
  const std::string jobs = world.write("jobs.csv", kJobs);
  const std::string json = (world.folder / "out.json").string();
  const Outcome outcome =
      world.run({"schedule", jobs, "--servers", "1", "--gpus", "2", "--json", json});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(squeezed(outcome.output)
                .find("Left out, as not made for jobs.csv on 1x2: allox, drf-fifo, drf-sjf, "
                      "equal-share."),
            std::string::npos)
      << outcome.output;
  const nlohmann::json results = parsed(read_file(json, kMiB).value());
  EXPECT_EQ(results["left_out"][0]["reason"],
            "the policy allox is for jobs of one GPU, and job b needs 2");
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
