// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

namespace fs = std::filesystem;

/// A world with iproute2, which does nothing.
class ClusterCommandTest : public testing::Test {
 protected:
  ClusterCommandTest() {
    for (const char* tool : {"ip", "tc", "nsenter", "unshare"}) {
      fs::permissions(world.write(fs::path("tools") / tool, ""), fs::perms::owner_all);
    }
    world.variables["PATH"] = (world.folder / "tools").string();
    world.program = [this](const StartedProgram& program) -> Result<int> {
      started.push_back(program);
      return program.words.front() == fails ? 1 : 0;
    };
  }

  Outcome up() {
    return world.run({"cluster", "up", "--name", "unit-test", "--nodes", "3", "--gpu",
                      "V100-PCIE-32GB:2", "--network", "tcp:10gbit", "--rate", "1gbit"});
  }
  [[nodiscard]] bool is_left(const char* file) const {
    return fs::exists(world.world.clusters / file);
  }

  TestWorld world;
  std::vector<StartedProgram> started;
  std::string fails;
};

TEST_F(ClusterCommandTest, MakesANodeWithTheDevicesOfAllHosts) {
  const Outcome made = up();
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_EQ(made.output,
            "cluster 'unit-test': 3 hosts with 2 x V100-PCIE-32GB, network tcp:10gbit, interfaces "
            "limited to 1gbit\n");
  const Outcome node = world.run({"node", "show", "unit-test", "--json"});
  EXPECT_EQ(parsed(node.output)["devices"].size(), 6);
  const Outcome listed = world.run({"cluster", "list", "--json"});
  ASSERT_EQ(listed.code, 0) << listed.errors;
  EXPECT_EQ(parsed(listed.output)[0]["hosts"], 3);
  EXPECT_NE(world.run({"cluster", "list"}).output.find("10.77.0.1 to 10.77.0.3"),
            std::string::npos);
}

TEST_F(ClusterCommandTest, LeavesNothing) {
  ASSERT_EQ(up().code, 0);
  const Outcome down = world.run({"cluster", "down", "--name", "unit-test"});
  EXPECT_EQ(down.code, 0) << down.errors;
  EXPECT_FALSE(fs::exists(world.world.clusters));
  EXPECT_TRUE(fs::is_empty(world.world.nodes));
  EXPECT_EQ(world.run({"cluster", "list"}).output, "no clusters\n");
  EXPECT_EQ(world.run({"cluster", "down", "--name", "unit-test"}).code, 3);
}

TEST_F(ClusterCommandTest, LeavesNothingIfItCannotBeMade) {
  fails = "tc";
  const Outcome made = up();
  EXPECT_NE(made.code, 0);
  EXPECT_NE(made.errors.find("`tc -n gpemu-unit-test-0 qdisc add dev eth0"), std::string::npos)
      << made.errors;
  EXPECT_FALSE(fs::exists(world.world.clusters));
  EXPECT_TRUE(fs::is_empty(world.world.nodes));
}

TEST_F(ClusterCommandTest, RunsTheProgramOnTheClustersNode) {
  ASSERT_EQ(up().code, 0);
  started.clear();
  const Outcome run = world.run({"cluster", "run", "--name", "unit-test", "--quiet", "--",
                                 (world.folder / "tools" / "ip").string(), "--gpu"});
  EXPECT_EQ(run.code, 0) << run.errors;
  ASSERT_EQ(started.size(), 1U);
  const std::vector<std::string>& words = started.front().words;
  EXPECT_EQ(words.front(), world.world.executable.string());
  EXPECT_EQ(words[2], "start-hosts");
  EXPECT_EQ(words[words.size() - 2], (world.folder / "tools" / "ip").string());
  EXPECT_EQ(words.back(), "--gpu");
  EXPECT_EQ(started.front().environment.at("GPEMU_NODE"), "unit-test");
}

TEST_F(ClusterCommandTest, MakesARealNetworkOfTheRateOfTheInterfaces) {
  const auto up_real = [this](std::vector<std::string> more) {
    std::vector<std::string> words = {"cluster",          "up",        "--gpu",
                                      "V100-PCIE-32GB:2", "--network", "real"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome made = world.run(words);
    EXPECT_EQ(made.code, 0) << made.errors;
    const Outcome list = world.run({"cluster", "list", "--json"});
    EXPECT_EQ(world.run({"cluster", "down"}).code, 0);
    return parsed(list.output)[0]["network"].get<std::string>();
  };
  EXPECT_EQ(up_real({"--rate", "1gbit"}), "real:1gbit");
  EXPECT_EQ(up_real({}), "real:10gbit");
}

TEST_F(ClusterCommandTest, SkipsNoTimeOfARealNetwork) {
  ASSERT_EQ(world.run({"cluster", "up", "--gpu", "V100-PCIE-32GB:2", "--network", "real"}).code, 0);
  const std::string program = (world.folder / "tools" / "ip").string();
  const Outcome run = world.run({"cluster", "run", "--clock", "virtual", "--", program});
  EXPECT_NE(run.code, 0);
  EXPECT_NE(run.errors.find("the network of cluster 'cluster' is real"), std::string::npos)
      << run.errors;
  EXPECT_EQ(world.run({"cluster", "run", "--quiet", "--", program}).code, 0);
}

TEST_F(ClusterCommandTest, SaysThatTheKernelHasNoNetem) {
  fails = "tc";
  const Outcome made = world.run(
      {"cluster", "up", "--gpu", "V100-PCIE-32GB:2", "--network", "real", "--delay", "50us"});
  EXPECT_EQ(made.code, 10);
  EXPECT_NE(made.errors.find("--delay needs netem"), std::string::npos) << made.errors;
  EXPECT_FALSE(fs::exists(world.world.clusters));
}

TEST_F(ClusterCommandTest, SaysWhatIsWrong) {
  const auto expect = [this](const std::vector<std::string>& words, const char* message) {
    std::vector<std::string> all = {"cluster"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = world.run(all);
    EXPECT_NE(outcome.code, 0) << message;
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << outcome.errors;
    EXPECT_FALSE(is_left("cluster.json")) << message;
  };
  expect({"up"}, "give --topology or --gpu");
  expect({"up", "--gpu", "V100-PCIE-32GB"}, "give --network");
  expect({"up", "--gpu", "V100-PCIE-32GB", "--network", "10gbit"}, "\"10gbit\" is not a network");
  expect({"up", "--gpu", "V100-PCIE-32GB", "--network", "tcp:1gbit", "--rate", "fast"},
         "\"fast\" is not a rate");
  expect({"up", "--gpu", "V100-PCIE-32GB", "--network", "real", "--rate", "fast"},
         "\"fast\" is not a rate");
  expect({"up", "--gpu", "V100-PCIE-32GB", "--network", "real", "--delay", "5"},
         "\"5\" is not a delay");
  expect({"up", "--gpu", "none", "--network", "tcp:1gbit"}, "none");
  expect({"up", "--topology", "none"}, "none");
  expect({"up", "--name", "A/B", "--gpu", "V100-PCIE-32GB"}, "'A/B' is not a cluster's name");
  expect({"run", "--", "true"}, "there is no cluster 'cluster'");
  expect({"down", "--name", "../x"}, "'../x' is not a cluster's name");
  ASSERT_EQ(up().code, 0);
  const Outcome again = up();
  EXPECT_NE(again.errors.find("there is a cluster 'unit-test' already"), std::string::npos);
  world.variables["PATH"] = "/nowhere";
  expect({"up", "--gpu", "V100-PCIE-32GB", "--network", "tcp:1gbit"}, "install");
}

TEST_F(ClusterCommandTest, TakesDownNoNodeOfSomebodyElse) {
  ASSERT_EQ(world.run({"node", "create", "unit-test", "--gpu", "V100-PCIE-32GB"}).code, 0);
  const Outcome made = up();
  EXPECT_NE(made.errors.find("there is a node 'unit-test' already"), std::string::npos)
      << made.errors;
  EXPECT_EQ(world.run({"node", "show", "unit-test"}).code, 0);
}

TEST_F(ClusterCommandTest, MendsWhatItFinds) {
  ASSERT_EQ(up().code, 0);
  const std::string whole = read_file(world.world.clusters / "unit-test.json").value();
  for (const std::string& damaged :
       {std::string(), std::string("{}"), whole.substr(0, whole.size() / 2),
        std::regex_replace(whole, std::regex("unit-test"), "another")}) {
    SCOPED_TRACE(damaged);
    world.write("clusters/unit-test.json", damaged);
    ASSERT_EQ(world
                  .run({"cluster", "up", "--name", "other", "--gpu", "V100-PCIE-32GB", "--network",
                        "tcp:1gbit"})
                  .code,
              0);
    const Outcome list = world.run({"cluster", "list", "--json"});
    EXPECT_EQ(list.code, 0);
    EXPECT_EQ(parsed(list.output).size(), 1) << "the other one is there";
    EXPECT_NE(list.errors.find("`gpemu cluster down --name unit-test` removes what is left of it"),
              std::string::npos)
        << list.errors;
    for (const char* name : {"unit-test", "other"}) {
      const Outcome down = world.run({"cluster", "down", "--name", name});
      EXPECT_EQ(down.code, 0) << down.errors;
    }
    EXPECT_FALSE(fs::exists(world.world.clusters));
    EXPECT_TRUE(fs::is_empty(world.world.nodes));
    ASSERT_EQ(up().code, 0);
  }
}

TEST_F(ClusterCommandTest, IsDescribedAsAWholeBeforeAnythingElseIsMade) {
  std::string seen;
  world.program = [&](const StartedProgram&) -> Result<int> {
    if (seen.empty()) seen = read_file(world.world.clusters / "unit-test.json").value();
    return 1;
  };
  EXPECT_NE(up().code, 0);
  EXPECT_EQ(parsed(seen)["hosts"], 3);
}

TEST_F(ClusterCommandTest, LeavesNothingAfterASignalAtAnyTime) {
  std::size_t commands = 0;
  for (std::size_t at = 1; at == 1 || at <= commands; ++at) {
    commands = 0;
    world.program = [&](const StartedProgram&) -> Result<int> {
      if (++commands == at) ::raise(SIGINT);
      return 0;
    };
    const Outcome made = up();
    // A cluster that is complete by then stays.
    if (made.code == 0) {
      EXPECT_EQ(commands, at);
      EXPECT_EQ(world.run({"cluster", "down", "--name", "unit-test"}).code, 0);
    } else {
      EXPECT_EQ(made.code, 130) << made.errors;
    }
    EXPECT_FALSE(fs::exists(world.world.clusters)) << at;
    EXPECT_TRUE(fs::is_empty(world.world.nodes)) << at;
    if (made.code == 0) break;
    commands = at + 1;
  }
}

}  // namespace
}  // namespace gpemu::tools
