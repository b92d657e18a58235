// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/hollow_pods.hpp"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr double kForever = std::numeric_limits<double>::infinity();

HollowNode node_of(std::uint32_t gpus) {
  return {
      .name = "n", .host = {.millicores = 8000, .memory_mib = 1024}, .gpus = gpus, .labels = {}};
}

/// A pod on node n.
json pod_of(const std::string& uid, json limits, json annotations = json::object()) {
  return {{"metadata",
           {{"uid", uid},
            {"name", uid},
            {"namespace", "default"},
            {"annotations", std::move(annotations)}}},
          {"spec",
           {{"nodeName", "n"},
            {"containers",
             json::array({json{{"name", "c"}, {"resources", {{"limits", std::move(limits)}}}}})}}},
          {"status", {{"phase", "Pending"}}}};
}

std::vector<std::string> phases(const std::vector<PodRequest>& requests) {
  std::vector<std::string> all;
  for (const PodRequest& request : requests) {
    all.push_back(request.uid + " " +
                  (request.status.is_null()
                       ? "removed"
                       : request.status["status"]["phase"].get<std::string>()));
  }
  return all;
}

using Phases = std::vector<std::string>;

TEST(HollowPods, APodRunsForItsTimeAtTheSpeed) {
  HollowPods pods({node_of(1)}, 10);
  pods.changed("ADDED", pod_of("p", {{"nvidia.com/gpu", 1}}, {{"gpemu.dev/seconds", "50"}}), 100);
  EXPECT_EQ(phases(pods.take_due(100)), Phases{"p Running"});
  EXPECT_EQ(pods.next_due_s(), 105);
  EXPECT_EQ(phases(pods.take_due(104.9)), Phases{});
  EXPECT_EQ(phases(pods.take_due(105)), Phases{"p Succeeded"});
  EXPECT_EQ(pods.next_due_s(), kForever);
}

TEST(HollowPods, APodWithoutATimeRunsUntilItIsDeleted) {
  HollowPods pods({node_of(1)}, 1);
  json pod = pod_of("p", {{"cpu", "1"}}, {{"gpemu.dev/stop-seconds", "7"}});
  pods.changed("ADDED", pod, 0);
  EXPECT_EQ(phases(pods.take_due(0)), Phases{"p Running"});
  EXPECT_EQ(pods.next_due_s(), kForever);
  pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 30;
  pods.changed("MODIFIED", pod, 10);
  EXPECT_EQ(pods.next_due_s(), 17);
  pods.changed("MODIFIED", pod, 11);
  EXPECT_EQ(phases(pods.take_due(17)), Phases{"p removed"});
  pods.changed("MODIFIED", pod, 18);
  EXPECT_EQ(phases(pods.take_due(18)), Phases{});
}

TEST(HollowPods, AStopTakesNoLongerThanTheGracePeriod) {
  HollowPods pods({node_of(1)}, 1);
  json pod = pod_of("p", {{"cpu", "1"}}, {{"gpemu.dev/stop-seconds", "60"}});
  pods.changed("ADDED", pod, 0);
  pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 5;
  pods.changed("MODIFIED", pod, 10);
  EXPECT_EQ(pods.take_due(0).size(), 1);
  EXPECT_EQ(pods.next_due_s(), 15);
}

TEST(HollowPods, WhatDoesNotFitFailsAsAtAKubelet) {
  HollowPods pods({node_of(4)}, 1);
  pods.changed("ADDED", pod_of("a", {{"nvidia.com/gpu", "3"}}, {{"gpemu.dev/seconds", "5"}}), 0);
  pods.changed("ADDED", pod_of("b", {{"nvidia.com/gpu", "2"}}), 0);
  pods.changed("ADDED", pod_of("c", {{"cpu", "8001m"}}), 0);
  pods.changed("ADDED", pod_of("d", {{"memory", "2Gi"}}), 0);
  const std::vector<PodRequest> requests = pods.take_due(0);
  EXPECT_EQ(phases(requests), (Phases{"a Running", "b Failed", "c Failed", "d Failed"}));
  EXPECT_EQ(requests[1].status["status"]["reason"], "OutOfnvidia.com/gpu");
  EXPECT_EQ(requests[1].status["status"]["message"],
            "Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 3, capacity: 4");
  EXPECT_EQ(requests[2].status["status"]["reason"], "OutOfcpu");
  EXPECT_EQ(requests[3].status["status"]["reason"], "OutOfmemory");
  EXPECT_EQ(phases(pods.take_due(5)), Phases{"a Succeeded"});
  pods.changed("ADDED", pod_of("e", {{"nvidia.com/gpu", "2"}}), 6);
  EXPECT_EQ(phases(pods.take_due(6)), Phases{"e Running"});
}

TEST(HollowPods, GpusThatTheSchedulerNamesAreGivenOnce) {
  HollowPods pods({node_of(2)}, 1);
  const auto with = [](const char* indices, const char* milli, const char* sharing) {
    json annotations{{"gpemu.dev/gpu-indices", indices}, {"gpemu.dev/gpu-milli", milli}};
    if (*sharing != '\0') annotations["gpemu.dev/sharing"] = sharing;
    return annotations;
  };
  pods.changed("ADDED", pod_of("a", json::object(), with("0", "600", "")), 0);
  pods.changed("ADDED", pod_of("b", json::object(), with("0", "400", "")), 0);
  pods.changed("ADDED", pod_of("c", json::object(), with("0", "1", "")), 0);
  pods.changed("ADDED", pod_of("d", json::object(), with("1", "1000", "g")), 0);
  pods.changed("ADDED", pod_of("e", json::object(), with("1", "1000", "g")), 0);
  pods.changed("ADDED", pod_of("f", json::object(), with("1", "1000", "h")), 0);
  EXPECT_EQ(phases(pods.take_due(0)),
            (Phases{"a Running", "b Running", "c Failed", "d Running", "e Running", "f Failed"}));
}

TEST(HollowPods, TheSchedulerSetsThePace) {
  HollowPods pods({node_of(1)}, 1);
  json pod = pod_of("p", {{"nvidia.com/gpu", 1}},
                    {{"gpemu.dev/seconds", "100"},
                     {"gpemu.dev/done-seconds", "40"},
                     {"gpemu.dev/restart-seconds", "5"},
                     {"gpemu.dev/pace", "2"}});
  pods.changed("ADDED", pod, 0);
  EXPECT_EQ(pods.take_due(0).size(), 1);
  EXPECT_EQ(pods.next_due_s(), 5 + 60 * 2);
  pod["metadata"]["annotations"]["gpemu.dev/pace"] = "1";
  pods.changed("MODIFIED", pod, 45);  // 20 of the 60 s are done.
  EXPECT_EQ(pods.next_due_s(), 45 + 40);
}

TEST(HollowPods, APodThatRunsAlreadyGoesOn) {
  HollowPods pods({node_of(1)}, 1);
  json pod = pod_of("p", {{"nvidia.com/gpu", 1}},
                    {{"gpemu.dev/seconds", "100"}, {"gpemu.dev/started", "20"}});
  pod["status"]["phase"] = "Running";
  pods.listed({pod}, 50);
  EXPECT_EQ(phases(pods.take_due(50)), Phases{});
  EXPECT_EQ(pods.next_due_s(), 120);
  pods.listed({}, 60);
  EXPECT_EQ(pods.next_due_s(), kForever);
  EXPECT_EQ(pods.running(), 0);
}

TEST(HollowPods, ABadAnnotationFailsThePodByName) {
  HollowPods pods({node_of(1)}, 1);
  pods.changed("ADDED", pod_of("p", {{"nvidia.com/gpu", 1}}, {{"gpemu.dev/seconds", "soon"}}), 0);
  const std::vector<PodRequest> requests = pods.take_due(0);
  ASSERT_EQ(phases(requests), Phases{"p Failed"});
  EXPECT_EQ(requests[0].status["status"]["message"],
            "the annotation gpemu.dev/seconds is 'soon'; it must be a number from 0 on");
}

TEST(PodFacts, ReadsQuantities) {
  EXPECT_EQ(parse_quantity("500m"), 0.5);
  EXPECT_EQ(parse_quantity("64Gi"), 64.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_quantity("1e3"), 1000);
  EXPECT_EQ(parse_quantity("2.5k"), 2500);
  EXPECT_EQ(parse_quantity("5 Gi"), std::nullopt);
  EXPECT_EQ(parse_quantity("much"), std::nullopt);
}

TEST(PodFacts, ContainersBeforeOthersCountIfTheyAskForMore) {
  json pod = pod_of("p", {{"cpu", "2"}, {"memory", "1Mi"}});
  pod["spec"]["initContainers"] =
      json::array({json{{"resources", {{"requests", {{"cpu", "3"}}}}}}});
  const PodFacts facts = facts_of(pod).value();
  EXPECT_EQ(facts.requests.millicores, 3000);
  EXPECT_EQ(facts.requests.memory_mib, 1);
  EXPECT_EQ(facts.gpus, 0);
}

TEST(PodFacts, GpusAreGivenInOneWay) {
  const auto wrong = facts_of(pod_of("p", {{"nvidia.com/gpu", 2}}, {{"gpemu.dev/gpu-milli", "5"}}));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("give one of them"), std::string::npos);
  const PodFacts share =
      facts_of(pod_of("p", json::object(), {{"gpemu.dev/gpu-milli", "250"}})).value();
  EXPECT_EQ(share.gpus, 1);
  EXPECT_EQ(share.gpu_milli, 250);
  const PodFacts all =
      facts_of(pod_of("p", json::object(), {{"gpemu.dev/gpu-milli", "1000"}})).value();
  EXPECT_EQ(all.gpus, 1);
}

TEST(PodFacts, ReadsAndWritesTimes) {
  EXPECT_EQ(api_time(1767225600), "2026-01-01T00:00:00Z");
  EXPECT_EQ(api_time(1767225600.25, true), "2026-01-01T00:00:00.250000Z");
  EXPECT_EQ(parse_api_time("2026-01-01T00:00:00.250000Z"), 1767225600.25);
  EXPECT_EQ(parse_api_time("soon"), std::nullopt);
}

}  // namespace
}  // namespace gpemu::tools
