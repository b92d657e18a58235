// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/replay.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kubernetes/fake_api_server.hpp"
#include "kubernetes/hollow_nodes.hpp"
#include "kubernetes/scheduler.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using scheduling::Fleet;
using scheduling::Job;

Job job_for(double arrival_s, std::uint32_t gpus, double seconds) {
  Job job{.id = "job", .arrival_s = arrival_s, .demand = {.gpus = gpus, .host = {}}};
  job.iterations = seconds;
  job.iteration_s = 1;
  return job;
}

const ReplayOptions kOptions{.scheduler = "s", .name_space = "default", .run = "r", .speed = 1};

TEST(Replay, AJobIsOnePodOrAGroupOfThem) {
  const Fleet fleet = Fleet::uniform(4, 8).value();
  const auto one = pods_of(fleet, job_for(0, 4, 60), 7, 20, 1, 5, kOptions).value();
  ASSERT_EQ(one.size(), 1);
  EXPECT_EQ(one[0]["metadata"]["name"], "r-7-1-0");
  EXPECT_EQ(one[0]["metadata"]["annotations"]["gpemu.dev/job"], "r-7");
  EXPECT_EQ(one[0]["metadata"]["annotations"]["gpemu.dev/seconds"], "60");
  EXPECT_EQ(one[0]["metadata"]["annotations"]["gpemu.dev/done-seconds"], "20");
  EXPECT_EQ(one[0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "4");
  const auto group = pods_of(fleet, job_for(0, 24, 60), 7, 0, 0, 5, kOptions).value();
  ASSERT_EQ(group.size(), 3);
  const PodFacts facts = facts_of(group[2]).value();
  EXPECT_EQ(facts.gpus, 8);
  EXPECT_EQ(facts.text(annotation::kGroup), "r-7");
  EXPECT_EQ(facts.text(annotation::kGroupSize), "3");
  EXPECT_EQ(facts.text(annotation::kTogether), "5/r at 0");
}

TEST(Replay, AnImageRunsTheRestOfTheJob) {
  const Fleet fleet = Fleet::uniform(4, 1).value();
  ReplayOptions options = kOptions;
  options.image = "i";
  options.speed = 10;
  Job job = job_for(0, 1, 60);
  job.stages_s = {0.75, 0.25, 0};
  const auto pod = pods_of(fleet, job, 7, 20, 1, 1, options).value()[0];
  const json& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["image"], "i");
  EXPECT_EQ(container["command"],
            json({"/opt/gpemu/bin/gpemu", "jobs", "run", "--iterations", "40", "--iteration", "0.1",
                  "--gpus", "1", "--pace", "/etc/gpemu-job/pace", "--progress",
                  "/dev/termination-log", "--stages", "0.075,0.025,0"}));
  EXPECT_EQ(container["resources"]["limits"], json({{"nvidia.com/gpu", "1"}}));
  EXPECT_EQ(pod["spec"]["volumes"][0]["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"],
            "metadata.annotations['gpemu.dev/pace']");
  options.shares_gpus = true;
  options.resource = kSharedGpuResource;
  const auto sharing = pods_of(fleet, job, 7, 0, 0, 1, options).value()[0];
  EXPECT_EQ(sharing["spec"]["containers"][0]["resources"]["limits"],
            json({{"nvidia.com/gpu.shared", "1"}}));
  EXPECT_EQ(facts_of(sharing).value().gpus, 1);
  job.demand.gpus = 0;
  EXPECT_FALSE(pods_of(fleet, job, 7, 0, 0, 1, options));
}

TEST(Replay, APodOfAKubeletSaysAtItsEndHowFarItWas) {
  ReplayedJobs jobs(1, 1000, 10);
  PodFacts pod;
  pod.uid = "a";
  pod.annotations = {{"gpemu.dev/seconds", "50"},
                     {"gpemu.dev/iterations", "100"},
                     {"gpemu.dev/done-seconds", "10"}};
  EXPECT_FALSE(jobs.changed(0, "ADDED", pod, 1000));
  pod.phase = "Running";
  EXPECT_FALSE(jobs.changed(0, "MODIFIED", pod, 1002));
  EXPECT_EQ(jobs.jobs()[0].start_s, 20);
  pod.is_deleted = true;
  EXPECT_FALSE(jobs.changed(0, "MODIFIED", pod, 1004));
  pod.progress = 30;
  pod.phase = "Failed";  // It was ended by a signal.
  EXPECT_EQ(jobs.changed(0, "MODIFIED", pod, 1005).value(), 25);
  EXPECT_TRUE(jobs.failed().empty());
  EXPECT_FALSE(jobs.changed(0, "DELETED", pod, 1006));
}

TEST(Replay, KubeletsSayWhenAPodStartedAndWhatItLeft) {
  const json state{{"terminated", {{"message", "37\n"}}}};
  json pod{{"status",
            {{"phase", "Running"},
             {"startTime", "1970-01-01T00:00:05Z"},
             {"containerStatuses", json::array({json{{"state", state}}})}}}};
  EXPECT_EQ(facts_of(pod).value().started_s, 5);
  EXPECT_EQ(facts_of(pod).value().progress, 37);
  pod["metadata"]["annotations"]["gpemu.dev/started"] = "6.5";
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = "killed";
  EXPECT_EQ(facts_of(pod).value().started_s, 6.5);
  EXPECT_FALSE(facts_of(pod).value().progress);
}

TEST(Replay, SpeedsAreATableForEachKind) {
  const Fleet fleet = Fleet::create({{.name = "a", .gpu = "fast", .gpus = 1},
                                     {.name = "b", .gpu = "slow", .gpus = 1}})
                          .value();
  Job job = job_for(0, 1, 10);
  job.speed = std::make_shared<scheduling::SpeedProfile>(scheduling::SpeedProfile{
      .by_kind = {1, 0.25}, .by_host = {}, .by_kind_and_host = {}, .evidence = ""});
  const auto pods = pods_of(fleet, job, 0, 0, 0, 1, kOptions).value();
  EXPECT_EQ(pods[0]["metadata"]["annotations"]["gpemu.dev/speeds"],
            "gpu,speed\nfast,1\nslow,0.25\n");
  job.demand.kinds = 2;
  const auto chosen = pods_of(fleet, job, 0, 0, 0, 1, kOptions).value();
  EXPECT_EQ(chosen[0]["spec"]["nodeSelector"]["nvidia.com/gpu.product"], "slow");
}

TEST(Replay, AnEvictedJobGoesOnWhereItWas) {
  ReplayedJobs jobs(1, 1000, 10);
  PodFacts pod;
  pod.uid = "a";
  EXPECT_FALSE(jobs.changed(0, "ADDED", pod, 1000));
  pod.annotations = {
      {"gpemu.dev/started", "1001"}, {"gpemu.dev/restart-seconds", "5"}, {"gpemu.dev/pace", "2"}};
  pod.phase = "Running";
  EXPECT_FALSE(jobs.changed(0, "MODIFIED", pod, 1001.1));
  EXPECT_EQ(jobs.jobs()[0].start_s, 10);
  pod.is_deleted = true;
  EXPECT_FALSE(jobs.changed(0, "MODIFIED", pod, 1003.5));
  // 25 s, of which it restarts for 5, at half the speed.
  EXPECT_EQ(jobs.changed(0, "DELETED", pod, 1004).value(), 10);
  EXPECT_EQ(jobs.round_of(0), 1);
  PodFacts next;
  next.uid = "b";
  next.annotations = {{"gpemu.dev/started", "1010"}, {"gpemu.dev/ended", "1012"}};
  next.phase = "Running";
  EXPECT_FALSE(jobs.changed(0, "ADDED", next, 1010));
  next.phase = "Succeeded";
  EXPECT_FALSE(jobs.changed(0, "MODIFIED", next, 1012.1));
  EXPECT_EQ(jobs.ended(), 1);
  EXPECT_EQ(jobs.jobs()[0].start_s, 10);
  EXPECT_EQ(jobs.jobs()[0].end_s, 120);
}

TEST(Replay, AJobThatIsEvictedBeforeItRunsKeepsWhatItHasDone) {
  ReplayedJobs jobs(1, 1000, 10);
  PodFacts pod;
  pod.uid = "a";
  pod.annotations = {{"gpemu.dev/done-seconds", "30"}};
  EXPECT_FALSE(jobs.changed(0, "ADDED", pod, 1000));
  pod.is_deleted = true;
  EXPECT_FALSE(jobs.changed(0, "MODIFIED", pod, 1001));
  EXPECT_EQ(jobs.changed(0, "DELETED", pod, 1002).value(), 30);
}

/// The scheduler, hollow nodes and a replay of two jobs on one GPU, of which the shorter one, by
/// SRTF, preempts the other, on an API server in memory.
TEST(Replay, JobsRunThroughTheWholeSystem) {
  FakeApiServer server;
  std::atomic<bool> stop = false;
  const auto log = [](const std::string&) {};
  HollowNodesOptions nodes{.nodes = {}, .speed = 100};
  nodes.nodes.push_back(
      {.name = "h", .host = {.millicores = 1000, .memory_mib = 1024}, .gpus = 1, .labels = {}});
  std::thread hollow([&] { EXPECT_TRUE(serve_hollow_nodes(server.access(), nodes, stop, log)); });
  SchedulerOptions schedules;
  schedules.settings = {
      .name = "s",
      .decides = {
          .policy = *scheduling::find_policy("srtf"), .expected = {}, .round_s = {}, .speed = 100}};
  schedules.election = {.name_space = "kube-system", .name = "s", .identity = "one"};
  std::thread scheduler(
      [&] { EXPECT_TRUE(serve_scheduler(server.access(), schedules, stop, log)); });
  const Fleet fleet = Fleet::uniform(1, 1).value();
  const std::vector<Job> jobs{job_for(0, 1, 200), job_for(50, 1, 20)};
  ReplayOptions options = kOptions;
  options.speed = 100;
  const auto replayed = replay(server.access(), fleet, jobs, options, stop, [](std::size_t) {});
  stop = true;
  hollow.join();
  scheduler.join();
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_EQ((*replayed)[0].evictions, 1);
  EXPECT_EQ((*replayed)[1].evictions, 0);
  EXPECT_LT((*replayed)[1].end_s, (*replayed)[0].end_s);
  EXPECT_GE((*replayed)[0].end_s, 220);
  EXPECT_TRUE(server.items("/api/v1/nodes").empty());
}

}  // namespace
}  // namespace gpemu::tools
