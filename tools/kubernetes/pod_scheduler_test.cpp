// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/pod_scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kubernetes/fake_api_server.hpp"
#include "kubernetes/leader_election.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kApiPods = "/api/v1/namespaces/default/pods";

/// An API server with nodes, whose pods only the scheduler changes. Nothing waits: its answers come
/// when the test asks for them.
class World {
 public:
  explicit World(const char* policy, double speed = 1, const char* placement = nullptr)
      : speed_(speed) {
    if (policy != nullptr) policy_ = *scheduling::find_policy(policy);
    if (placement != nullptr) placement_ = *scheduling::find_placement(placement);
    restart();
  }

  /// Another instance takes over.
  void restart() {
    const PodSchedulerSettings settings{.name = "s",
                                        .decides = {.policy = policy_,
                                                    .placement = placement_,
                                                    .expected = {},
                                                    .round_s = {},
                                                    .speed = speed_}};
    scheduler_ = std::make_unique<PodScheduler>(settings, 1000);
  }

  void add_node(const std::string& name, int gpus, const char* product = "A100",
                json taints = json::array()) {
    server_.answer(
        "POST", "/api/v1/nodes",
        {{"metadata", {{"name", name}, {"labels", {{kProductLabel, product}}}}},
         {"spec", {{"taints", std::move(taints)}}},
         {"status",
          {{"allocatable",
            {{"nvidia.com/gpu", std::to_string(gpus)},
             {"cpu", "64"},
             {"memory", "64Gi"},
             {"pods", "110"}}},
           {"conditions", json::array({json{{"type", "Ready"}, {"status", "True"}}})}}}});
  }
  void add_shared_node(const std::string& name, int gpus, int replicas) {
    add_node(name, 0);
    server_.answer(
        "PATCH", "/api/v1/nodes/" + name,
        {{"metadata", {{"labels", {{kReplicasLabel, std::to_string(replicas)}}}}},
         {"status", {{"allocatable", {{kSharedGpuResource, std::to_string(gpus * replicas)}}}}}});
  }
  void add_pod(const std::string& name, int gpus, json annotations = json::object(),
               json spec = json::object()) {
    json limits{{"cpu", "1"}};
    if (gpus != 0) limits["nvidia.com/gpu"] = gpus;
    if (annotations.contains("whole")) limits.erase("cpu");
    annotations.erase("whole");
    spec["schedulerName"] = "s";
    spec["containers"] =
        json::array({json{{"name", "c"}, {"resources", {{"limits", std::move(limits)}}}}});
    server_.answer("POST", kApiPods,
                   {{"metadata", {{"name", name}, {"annotations", std::move(annotations)}}},
                    {"spec", std::move(spec)}});
  }
  void set_phase(const std::string& name, const char* phase) {
    server_.answer("PATCH", std::string(kApiPods) + "/" + name, {{"status", {{"phase", phase}}}});
  }
  void start(const std::string& name, int time_s) {
    const json annotations{{"gpemu.dev/started", std::to_string(time_s)}};
    server_.answer(
        "PATCH", std::string(kApiPods) + "/" + name,
        {{"metadata", {{"annotations", annotations}}}, {"status", {{"phase", "Running"}}}});
  }
  void correct(const std::string& name, const json& annotations) {
    server_.answer("PATCH", std::string(kApiPods) + "/" + name,
                   {{"metadata", {{"annotations", annotations}}}});
  }
  void remove(const std::string& name) {
    server_.answer("DELETE", std::string(kApiPods) + "/" + name + "?gracePeriodSeconds=0", {});
  }

  /// Lets the scheduler decide; returns what it wants. It is done if `acts`. `waits`: also for what
  /// it decides a moment later.
  std::vector<PodAction> decide(double now_s, bool acts = true, bool waits = true) {
    scheduler_->nodes_listed(server_.items("/api/v1/nodes"));
    scheduler_->pods_listed(server_.items(kApiPods), now_s);
    std::vector<PodAction> actions = scheduler_->decide(now_s);
    // The policy sees a moment later which jobs have ended.
    const double again_s = scheduler_->ask_again_s();
    if (waits && again_s > now_s && again_s < now_s + 0.2) {
      std::ranges::move(scheduler_->decide(again_s), std::back_inserter(actions));
    }
    for (const PodAction& action : actions) {
      if (acts) act(action);
    }
    for (const std::string& line : scheduler_->take_complaints()) ADD_FAILURE() << line;
    scheduler_->pods_listed(server_.items(kApiPods), now_s);
    return actions;
  }
  void act(const PodAction& action) {
    if (action.kind == PodAction::Kind::kBind) {
      server_.answer("POST", action.path() + "/binding",
                     {{"metadata", {{"annotations", action.annotations}}},
                      {"target", {{"name", action.node}}}});
    } else if (action.kind == PodAction::Kind::kAnnotate) {
      server_.answer("PATCH", action.path(), {{"metadata", {{"annotations", action.annotations}}}});
    } else if (action.kind == PodAction::Kind::kEvict) {
      server_.answer("POST", action.path() + "/eviction", {});
    }
  }
  /// Returns "NAME node indices" of each pod that has a node, and whether it is to end.
  std::vector<std::string> placed() {
    std::vector<std::string> lines;
    for (const json& pod : server_.items(kApiPods)) {
      const std::string node = text_at(pod, "/spec/nodeName");
      const std::string gpus = text_at(pod, "/metadata/annotations/gpemu.dev~1gpu-indices");
      const bool ends = !text_at(pod, "/metadata/deletionTimestamp").empty();
      if (node.empty()) continue;
      lines.push_back(text_at(pod, "/metadata/name") + " " + node + " " + gpus +
                      (ends ? " ends" : ""));
    }
    return lines;
  }
  PodScheduler& scheduler() { return *scheduler_; }

 private:
  double speed_;
  const scheduling::PolicyEntry* policy_ = nullptr;
  const scheduling::PlacementEntry* placement_ = nullptr;
  FakeApiServer server_;
  std::unique_ptr<PodScheduler> scheduler_;
};

using Lines = std::vector<std::string>;

Lines messages(const std::vector<PodAction>& actions) {
  Lines lines;
  for (const PodAction& action : actions) lines.push_back(action.name + ": " + action.message);
  return lines;
}

TEST(PodScheduler, BindsWhatFitsAndGivesGpusOnWhenPodsEnd) {
  World world("fifo");
  world.add_node("n", 4);
  world.add_pod("a", 3);
  world.add_pod("b", 2);
  world.decide(1000);
  EXPECT_EQ(world.placed(), (Lines{"a n 0,1,2"}));
  world.set_phase("a", "Succeeded");
  world.decide(1001);
  EXPECT_EQ(world.placed(), (Lines{"a n 0,1,2", "b n 0,1"}));
}

TEST(PodScheduler, JobsThatEndWithinAMomentEndTogether) {
  World world("fifo");
  world.add_node("n", 2);
  for (const char* name : {"a", "b", "c", "d"}) world.add_pod(name, 1);
  world.decide(1000);
  world.set_phase("a", "Succeeded");
  EXPECT_TRUE(world.decide(1001, true, false).empty());
  EXPECT_EQ(world.scheduler().ask_again_s(), 1001.1);
  world.set_phase("b", "Succeeded");
  EXPECT_TRUE(world.decide(1001.05, true, false).empty());
  EXPECT_EQ(world.scheduler().ask_again_s(), 1001.1) << "since the first end";
  EXPECT_EQ(world.decide(1001.1, true, false).size(), 2U);
  EXPECT_EQ(world.placed(), (Lines{"a n 0", "b n 1", "c n 0", "d n 1"}));
}

TEST(PodScheduler, APodThatWaitsIsToldWhyOnce) {
  World world("fifo");
  world.add_node("n", 2);
  world.add_pod("a", 2);
  world.add_pod("b", 1);
  EXPECT_EQ(world.decide(1000).size(), 1);
  EXPECT_EQ(world.decide(1004).size(), 0);
  EXPECT_EQ(messages(world.decide(1006)),
            (Lines{"b: the policy fifo lets it wait: 0 of 2 GPUs are free, and it needs 1"}));
  EXPECT_EQ(world.decide(1020).size(), 0);
}

TEST(PodScheduler, WithoutNodesPodsWait) {
  World world("fifo");
  world.add_pod("a", 1);
  world.decide(1000);
  EXPECT_EQ(messages(world.decide(1006)), (Lines{"a: no node with GPUs is ready"}));
  world.add_node("n", 1);
  world.decide(1007);
  EXPECT_EQ(world.placed(), (Lines{"a n 0"}));
}

TEST(PodScheduler, WhatCanNeverRunIsRefusedByName) {
  World world("allox");
  world.add_node("n", 2);
  world.add_pod("two", 2, {{"whole", ""}});
  world.add_pod("cores", 1);
  world.add_pod("wrong", 1, {{"gpemu.dev/seconds", "-1"}});
  world.add_pod("elsewhere", 1, {{"whole", ""}}, {{"nodeSelector", {{"zone", "moon"}}}});
  world.add_pod("near", 1, {{"whole", ""}}, {{"affinity", json::object()}});
  const Lines lines = messages(world.decide(1000));
  ASSERT_EQ(lines.size(), 5);
  const auto has = [&](const std::string& text) {
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(has("two: the policy allox is for jobs of one GPU, and job default/two needs 2"));
  EXPECT_TRUE(has("cores: the policy allox counts whole GPUs alone"));
  EXPECT_TRUE(has("wrong: the annotation gpemu.dev/seconds is '-1'"));
  EXPECT_TRUE(has("elsewhere: no node with GPUs has what its nodeSelector asks for"));
  EXPECT_TRUE(has("near: it asks for an affinity, which policies do not know"));
}

TEST(PodScheduler, TaintsKeepPodsOutThatDoNotTolerateThem) {
  World world("fifo");
  const json taint{{"key", "k"}, {"effect", "NoSchedule"}};
  world.add_node("m", 2, "H100", json::array({taint}));
  world.add_node("n", 2);
  const json toleration{{"key", "k"}, {"operator", "Exists"}};
  world.add_pod("a", 2);
  world.add_pod(
      "b", 1, json::object(),
      {{"tolerations", json::array({toleration})}, {"nodeSelector", {{kProductLabel, "H100"}}}});
  world.decide(1000);
  EXPECT_EQ(world.placed(), (Lines{"a n 0,1", "b m 0"}));
}

TEST(PodScheduler, APreemptedJobGoesOnInThePodThatReplacesIt) {
  World world("srtf");
  world.add_node("n", 1);
  world.add_pod("long", 1, {{"gpemu.dev/seconds", "1000"}, {"gpemu.dev/job", "l"}});
  world.decide(1000);
  EXPECT_EQ(world.placed(), (Lines{"long n 0"}));
  world.add_pod("short", 1, {{"gpemu.dev/seconds", "10"}});
  EXPECT_EQ(messages(world.decide(1100)),
            (Lines{"long: the policy srtf gives its GPUs to others"}));
  // The GPU is not free before the pod is gone.
  world.decide(1101);
  EXPECT_EQ(world.placed(), (Lines{"long n 0 ends"}));
  world.remove("long");
  world.decide(1102);
  EXPECT_EQ(world.placed(), (Lines{"short n 0"}));
  world.add_pod(
      "long-2", 1,
      {{"gpemu.dev/seconds", "1000"}, {"gpemu.dev/done-seconds", "100"}, {"gpemu.dev/job", "l"}});
  world.decide(1103);
  world.set_phase("short", "Succeeded");
  world.decide(1112);
  EXPECT_EQ(world.placed(), (Lines{"long-2 n 0", "short n 0"}));
}

TEST(PodScheduler, WhatAJobHasDoneCountsFromItsStart) {
  World world("srtf");
  world.add_node("n", 1);
  world.add_pod("a", 1, {{"gpemu.dev/seconds", "100"}, {"gpemu.dev/job", "a"}});
  world.decide(1000);
  world.start("a", 1060);
  // Since its binding, it would have 20 s left; it has 80, and does not keep its GPU.
  world.add_pod("b", 1, {{"gpemu.dev/seconds", "50"}});
  EXPECT_EQ(messages(world.decide(1080)), (Lines{"a: the policy srtf gives its GPUs to others"}));
}

TEST(PodScheduler, AGroupIsBoundAllOrNone) {
  World world("fifo");
  world.add_node("n", 2);
  world.add_node("m", 2);
  const json group{{"scheduling.x-k8s.io/pod-group", "g"},
                   {"scheduling.x-k8s.io/pod-group-min-size", "2"}};
  world.add_pod("one", 1);
  world.decide(1000);
  world.add_pod("g-0", 2, group);
  world.decide(1001);
  EXPECT_EQ(world.placed(), (Lines{"one m 0"}));
  world.add_pod("g-1", 2, group);
  world.decide(1002);
  EXPECT_EQ(world.placed(), (Lines{"one m 0"}));
  world.set_phase("one", "Succeeded");
  world.decide(1003);
  EXPECT_EQ(world.placed(), (Lines{"g-0 m 0,1", "g-1 n 0,1", "one m 0"}));
}

TEST(PodScheduler, AnotherInstanceKnowsWhatRuns) {
  World world("las-synergy");
  world.add_node("n", 2);
  world.add_pod("a", 1, {{"gpemu.dev/seconds", "100"}});
  world.decide(1000);
  world.add_pod("b", 2);
  world.restart();
  EXPECT_EQ(world.decide(1001).size(), 0);
  EXPECT_EQ(world.placed(), (Lines{"a n 0"}));
  world.set_phase("a", "Succeeded");
  world.decide(1002);
  EXPECT_EQ(world.placed(), (Lines{"a n 0", "b n 0,1"}));
}

TEST(PodScheduler, JobsThatArriveTogetherAreShownTogether) {
  World world("sjf");
  world.add_node("n", 1);
  const auto with = [](const char* seconds) {
    return json{{"gpemu.dev/seconds", seconds}, {"gpemu.dev/together", "2/batch"}};
  };
  world.add_pod("long", 1, with("100"));
  EXPECT_EQ(world.decide(1000).size(), 0);
  world.add_pod("short", 1, with("10"));
  world.decide(1001);
  EXPECT_EQ(world.placed(), (Lines{"short n 0"}));
  world.set_phase("short", "Succeeded");
  world.add_pod("alone", 1, with("1"));
  world.decide(1002);
  EXPECT_EQ(world.placed(), (Lines{"long n 0", "short n 0"}));
  world.set_phase("long", "Succeeded");
  world.decide(1011);
  EXPECT_EQ(world.placed(), (Lines{"long n 0", "short n 0"}));
  world.decide(1013);
  EXPECT_EQ(world.placed(), (Lines{"alone n 0", "long n 0", "short n 0"}));
}

TEST(PodScheduler, APodMayReplaceAnotherBeforeThatIsGone) {
  World world("srtf");
  world.add_node("n", 1);
  const auto with = [](const char* job, const char* seconds) {
    return json{{"gpemu.dev/job", job}, {"gpemu.dev/seconds", seconds}};
  };
  world.add_pod("long-0", 1, with("long", "100"));
  world.decide(1000);
  world.add_pod("short", 1, with("short", "10"));
  world.decide(1001);
  EXPECT_EQ(world.placed(), (Lines{"long-0 n 0 ends"}));
  world.add_pod("long-1", 1, with("long", "100"));  // As a Job's controller makes it.
  EXPECT_TRUE(world.decide(1002).empty());
  world.remove("long-0");
  world.decide(1003);
  EXPECT_EQ(world.placed(), (Lines{"short n 0"}));
  world.set_phase("short", "Succeeded");
  world.decide(1013);
  EXPECT_EQ(world.placed(), (Lines{"long-1 n 0", "short n 0"}));
}

TEST(PodScheduler, AnEvictionThatFailedIsTriedAgain) {
  World world("srtf");
  world.add_node("n", 1);
  world.add_pod("long", 1, {{"gpemu.dev/seconds", "100"}});
  world.decide(1000);
  world.add_pod("short", 1, {{"gpemu.dev/seconds", "10"}});
  const auto evicts = [](const std::vector<PodAction>& actions) {
    return std::ranges::count(actions, PodAction::Kind::kEvict, &PodAction::kind) == 1;
  };
  const auto actions = world.decide(1001, false);
  EXPECT_TRUE(evicts(actions));
  world.scheduler().eviction_failed(actions.back().uid, 1001);
  EXPECT_FALSE(evicts(world.decide(1001.5, false)));
  EXPECT_TRUE(evicts(world.decide(1002.5, false)));
}

TEST(PodScheduler, WhatOnePodSaysStopsNoOther) {
  World world("fifo");
  world.add_node("n", 2);
  world.add_pod("huge", 1, {{"gpemu.dev/seconds", "1e308"}, {"gpemu.dev/iterations", "0.01"}});
  world.add_pod("group", 1,
                {{"scheduling.x-k8s.io/pod-group", "g"},
                 {"scheduling.x-k8s.io/pod-group-min-size", "1e300"}});
  world.add_pod("wrong", 1, {{"gpemu.dev/seconds", "soon"}});
  world.add_pod("gated", 1, json::object(),
                {{"schedulingGates", json::array({json{{"name", "g"}}})}});
  world.add_pod("claims", 1, json::object(),
                {{"resourceClaims", json::array({json{{"name", "c"}}})}});
  world.add_pod("good", 1);
  const Lines told = messages(world.decide(1000));
  EXPECT_EQ(world.placed(), (Lines{"good n 0"}));
  const auto tells = [&](const std::string& text) {
    return std::ranges::any_of(told, [&](const auto& line) { return line.contains(text); });
  };
  EXPECT_TRUE(tells("huge: gpemu.dev/seconds of 1e+308 and"));
  EXPECT_TRUE(tells("group: scheduling.x-k8s.io/pod-group-min-size must be a number"));
  EXPECT_TRUE(tells("claims: it asks for claims of devices"));
  EXPECT_FALSE(tells("gated"));
  world.correct("wrong", {{"gpemu.dev/seconds", "5"}});
  world.decide(1011);
  EXPECT_EQ(world.placed(), (Lines{"good n 0", "wrong n 1"}));
}

TEST(PodScheduler, AGroupThatIsBoundInPartIsCompleted) {
  World world("fifo");
  world.add_node("n", 4);
  const json group{{"scheduling.x-k8s.io/pod-group", "g"},
                   {"scheduling.x-k8s.io/pod-group-min-size", "2"}};
  world.add_pod("g-0", 2, group);
  world.add_pod("g-1", 2, group);
  const std::vector<PodAction> actions = world.decide(1000, false);
  ASSERT_EQ(actions.size(), 2);
  world.act(actions.front());  // The leader dies then.
  world.restart();
  world.add_pod("z", 1);
  world.decide(1001);
  EXPECT_EQ(world.placed().size(), 2);
}

TEST(PodScheduler, ABindingThatFailedIsTriedAgain) {
  World world("fifo");
  world.add_node("n", 1);
  world.add_pod("a", 1);
  const std::vector<PodAction> actions = world.decide(1000, false);
  ASSERT_EQ(actions.size(), 1);
  EXPECT_EQ(world.decide(1001, false).size(), 0);
  world.scheduler().binding_failed(actions[0].uid);
  EXPECT_EQ(world.decide(1002).size(), 1);
  EXPECT_EQ(world.placed(), (Lines{"a n 0"}));
}

TEST(PodScheduler, ANodeThatGoesTakesNoMorePods) {
  World world("fifo");
  world.add_node("n", 2);
  world.add_pod("a", 1);
  world.decide(1000);
  world.scheduler().node_changed("DELETED", {{"metadata", {{"name", "n"}}}});
  world.add_node("m", 2);
  world.add_pod("b", 2);
  world.decide(1001);
  EXPECT_EQ(world.placed(), (Lines{"a n 0", "b m 0,1"}));
}

TEST(PodScheduler, APlacementPutsSharesTogether) {
  World world(nullptr, 1, "fgd");
  world.add_node("n", 2);
  int number = 0;
  for (const char* milli : {"600", "700", "400", "500", "300"}) {
    world.add_pod("p" + std::to_string(number++), 0, {{"gpemu.dev/gpu-milli", milli}});
  }
  world.decide(1000);
  EXPECT_EQ(world.placed(), (Lines{"p0 n 0", "p1 n 1", "p2 n 0", "p4 n 1"}));
}

TEST(PodScheduler, GpusThatAKubeletSharesCountOnce) {
  World world("fifo");
  world.add_shared_node("n", 2, 4);
  for (const char* name : {"a", "b", "c"}) {
    world.add_pod(name, 0, {{"gpemu.dev/gpus", "1"}, {"whole", ""}});
  }
  world.decide(1000);
  EXPECT_EQ(world.placed(), (Lines{"a n 0", "b n 1"}));
}

TEST(PodScheduler, JobsInAGroupOfMuriShareTheirGpusAtASlowerPace) {
  World world("muri-s");
  world.add_node("n", 1);
  const auto with = [](const char* stages) {
    return json{{"gpemu.dev/seconds", "100"},
                {"gpemu.dev/iterations", "100"},
                {"gpemu.dev/gpus", "1"},
                {"gpemu.dev/stage-seconds", stages},
                {"whole", ""}};
  };
  world.add_pod("a", 0, with("0.8,0.1,0.1"));
  world.add_pod("b", 0, with("0.1,0.8,0.1"));
  const std::vector<PodAction> actions = world.decide(1000);
  ASSERT_EQ(actions.size(), 2);
  EXPECT_EQ(world.placed(), (Lines{"a n 0", "b n 0"}));
  EXPECT_EQ(actions[0].annotations.at("gpemu.dev/sharing"), "turns");
  EXPECT_GT(std::stod(actions[0].annotations.at("gpemu.dev/pace")), 0.5);
}

TEST(PodScheduler, SpeedsByKindDecideThePace) {
  World world("allox");
  world.add_node("n", 1, "slow");
  world.add_pod("a", 1,
                {{"gpemu.dev/seconds", "100"},
                 {"gpemu.dev/speeds", "gpu,speed\nslow,0.25\n"},
                 {"whole", ""}});
  const std::vector<PodAction> actions = world.decide(1000);
  ASSERT_EQ(actions.size(), 1);
  EXPECT_EQ(actions[0].annotations.at("gpemu.dev/pace"), "4");
}

struct LeaderElectionTest : testing::Test {
  FakeApiServer server;
  ApiServer api = ApiServer::create(server.access()).value();
  LeaderElection::Time start = std::chrono::steady_clock::now();

  LeaderElection candidate(const char* name) {
    return LeaderElection(
        {.name_space = "default", .name = "lease", .identity = name, .lease_s = 15});
  }
  json lease() {
    return server.items("/apis/coordination.k8s.io/v1/namespaces/default/leases").at(0)["spec"];
  }
};

TEST_F(LeaderElectionTest, OneHoldsItUntilItIsNotRenewed) {
  using std::chrono::seconds;
  LeaderElection a = candidate("a");
  LeaderElection b = candidate("b");
  EXPECT_TRUE(a.try_hold(api, start).value());
  EXPECT_TRUE(a.leads(start + seconds(9)));
  EXPECT_FALSE(a.leads(start + seconds(10)));
  EXPECT_FALSE(b.try_hold(api, start + seconds(1)).value());
  EXPECT_EQ(b.holder(), "a");
  EXPECT_TRUE(a.try_hold(api, start + seconds(5)).value());
  EXPECT_FALSE(b.try_hold(api, start + seconds(6)).value());
  EXPECT_FALSE(b.try_hold(api, start + seconds(20)).value());
  EXPECT_TRUE(b.try_hold(api, start + seconds(21)).value());
  EXPECT_EQ(lease()["holderIdentity"], "b");
  EXPECT_EQ(lease()["leaseTransitions"], 1);
  EXPECT_FALSE(a.try_hold(api, start + seconds(22)).value());
}

TEST_F(LeaderElectionTest, OneThatGivesItBackIsFollowedAtOnce) {
  LeaderElection a = candidate("a");
  LeaderElection b = candidate("b");
  EXPECT_TRUE(a.try_hold(api, start).value());
  EXPECT_TRUE(a.release(api));
  EXPECT_FALSE(a.leads(start));
  EXPECT_TRUE(b.try_hold(api, start).value());
}

}  // namespace
}  // namespace gpemu::tools
