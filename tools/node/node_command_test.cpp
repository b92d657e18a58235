// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/node.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

TEST(NodeCommandTest, CreatesShowsListsAndRemoves) {
  const TestWorld made_up;
  EXPECT_EQ(made_up.run({"node", "create", "n0", "--gpu", "T4:2", "--gpu", "v100", "--sharing",
                         "exclusive"}),
            (Outcome{0, "created node 'n0' with 3 devices\n", ""}));
  EXPECT_EQ(made_up.run({"node", "create", "n1", "--gpu", "T4"}),
            (Outcome{0, "created node 'n1' with 1 device\n", ""}));
  EXPECT_EQ(squeezed(made_up.run({"node", "list"}).output),
            "node devices first gpu sharing\nn0 3 T4 exclusive\nn1 1 T4 time-slices\n");
  const json node = parsed(made_up.run({"node", "show", "n0", "--json"}).output);
  EXPECT_EQ(node["sharing"], "exclusive");
  EXPECT_EQ(node["temporary"], false);
  ASSERT_EQ(node["devices"].size(), 3U);
  EXPECT_EQ(node["devices"][2]["gpu"], "V100-PCIE-32GB");
  EXPECT_EQ(node["devices"][2]["memory_total_mib"], 32'510);
  EXPECT_EQ(node["devices"][2]["processes"], 0);
  const std::string shown = squeezed(made_up.run({"node", "show", "n1"}).output);
  EXPECT_TRUE(
      shown.starts_with("node 'n1': sharing time-slices\n"
                        "device gpu memory used / MiB processes bus id uuid\n"
                        "0 T4 0 / 15095 0 00000000:01:00.0 GPU-"))
      << shown;
  EXPECT_EQ(made_up.run({"node", "rm", "n0"}), (Outcome{0, "", ""}));
  EXPECT_EQ(parsed(made_up.run({"node", "list", "--json"}).output).size(), 1U);
}

TEST(NodeCommandTest, ShowsWhatFaultsDo) {
  const TestWorld made_up;
  const std::string file =
      made_up.write("faults.toml",
                    "[[fault]]\nkind = \"slow\"\ngpu = 0\nclock = 0.25\nat_s = 0\n"
                    "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_s = 0\n");
  ASSERT_EQ(made_up.run({"node", "create", "n0", "--gpu", "T4:3", "--faults", file}).code, 0);
  const std::string shown = made_up.run({"node", "show", "n0"}).output;
  EXPECT_TRUE(
      shown.ends_with("\ndevice 0 is slow: it has 25 % of its clock\n"
                      "device 1 has fallen off the bus (Xid 79)\n"))
      << shown;
  const json devices = parsed(made_up.run({"node", "show", "n0", "--json"}).output)["devices"];
  EXPECT_EQ(devices[0]["clock_share"], 0.25);
  EXPECT_EQ(devices[1]["lost"], true);
  EXPECT_EQ(devices[2]["lost"], false);
}

TEST(NodeCommandTest, ChangesAndShowsPowerLimitsAndClocks) {
  const TestWorld made_up;
  ASSERT_EQ(made_up.run({"node", "create", "n0", "--gpu", "V100-PCIE-32GB:2"}).code, 0);
  EXPECT_EQ(made_up.run({"node", "power", "n0", "-i", "1", "--limit", "100"}),
            (Outcome{0, "", ""}));
  const std::string title = "device gpu limit / W from to clock / MHz why\n";
  EXPECT_EQ(squeezed(made_up.run({"node", "power", "n0"}).output),
            title +
                "0 V100-PCIE-32GB 250 59 250 1380 the highest\n"
                "1 V100-PCIE-32GB 100 59 250 938 the power limit\n");
  EXPECT_EQ(made_up.run({"node", "power", "n0", "--limit", "0", "--clock", "690"}),
            (Outcome{0, "", ""}));
  EXPECT_EQ(squeezed(made_up.run({"node", "power", "n0", "-i", "0"}).output),
            title + "0 V100-PCIE-32GB 250 59 250 690 locked\n");
  const Outcome refused = made_up.run({"node", "power", "n0", "--limit", "300"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.errors.find("takes a power limit of 59.0 to 250.0 W, not 300"),
            std::string::npos)
      << refused.errors;
  EXPECT_NE(made_up.run({"node", "power", "n0", "-i", "2", "--limit", "100"}).code, 0);
}

TEST(NodeCommandTest, AccessDecidesWhoMayAttach) {
  const TestWorld made_up;
  using std::filesystem::perms;
  constexpr perms kOwner = perms::owner_read | perms::owner_write;
  constexpr perms kGroup = kOwner | perms::group_read | perms::group_write;
  const std::pair<const char*, perms> modes[] = {
      {"owner", kOwner},
      {"group", kGroup},
      {"all", kGroup | perms::others_read | perms::others_write}};
  for (const auto& [access, mode] : modes) {
    ASSERT_EQ(made_up.run({"node", "create", access, "--gpu", "T4", "--access", access}).code, 0);
    EXPECT_EQ(std::filesystem::status(made_up.world.nodes / access).permissions(), mode) << access;
  }
}

/// Writes a machine of three T4s, of which a switch joins the first two.
std::string write_toy(const TestWorld& made_up) {
  return made_up.write("topologies/toy.toml",
                       "name = \"toy\"\n"
                       "title = \"A toy\"\n"
                       "gpu = \"T4\"\n"
                       "sockets = [\"A processor\"]\n"
                       "[[bridge]]\n"
                       "name = \"cpu0\"\n"
                       "socket = 0\n"
                       "numa_node = 1\n"
                       "gpus = [2]\n"
                       "source = \"us\"\n"
                       "[[switch]]\n"
                       "name = \"plx0\"\n"
                       "below = \"cpu0\"\n"
                       "generation = 3\n"
                       "lanes = 16\n"
                       "gpus = [0, 1]\n"
                       "source = \"us\"\n"
                       "[[adapter]]\n"
                       "name = \"net0\"\n"
                       "below = \"plx0\"\n"
                       "gb_per_s = 12.5\n"
                       "source = \"us\"\n"
                       "[sources]\n"
                       "us = \"made up\"\n");
}

TEST(NodeCommandTest, ShowsWhatJoinsTheGpusOfAMachine) {
  const TestWorld made_up;
  const std::string file = write_toy(made_up);
  EXPECT_EQ(squeezed(made_up.run({"node", "topo"}).output),
            "topology machine gpus\ntoy A toy 3 x T4\n");
  const Outcome shown = made_up.run({"node", "topo", "--topology", "toy"});
  EXPECT_EQ(squeezed(shown.output),
            "A toy: 3 x T4\n\n"
            "GPU0 GPU1 GPU2 net0 NUMA node\n"
            "GPU0 X PIX PHB PIX 1\n"
            "GPU1 PIX X PHB PIX 1\n"
            "GPU2 PHB PHB X PHB 1\n"
            "net0 PIX PIX PHB X 1\n\n"
            "socket 0: A processor\n"
            "cpu0 (NUMA node 1): GPU2\n"
            "plx0 (PCIe 3.0 x16): GPU0 GPU1 net0 (12.5 GB/s)\n");
  const json machine = parsed(made_up.run({"node", "topo", "--topology", file, "--json"}).output);
  EXPECT_EQ(machine["matrix"][0], (json{"X", "PIX", "PHB", "PIX"}));
  EXPECT_EQ(machine["devices"], (json{"GPU0", "GPU1", "GPU2", "net0"}));
  EXPECT_EQ(made_up.run({"node", "topo", "--topology", "toys"}).code, 3);
}

TEST(NodeCommandTest, ANodeHasItsTopology) {
  const TestWorld made_up;
  const std::string file = write_toy(made_up);
  EXPECT_EQ(made_up.run({"node", "create", "n0", "--topology", "toy"}),
            (Outcome{0, "created node 'n0' with 3 devices\n", ""}));
  EXPECT_EQ(made_up.run({"node", "create", "n1", "--topology", file, "--gpu", "T4:3"}).code, 0);
  EXPECT_EQ(made_up.run({"node", "topo", "n0"}),
            made_up.run({"node", "topo", "--topology", "toy"}));
  EXPECT_EQ(parsed(made_up.run({"node", "topo", "n1", "--json"}).output)["name"], "toy");
  EXPECT_TRUE(made_up.run({"node", "show", "n0"})
                  .output.starts_with("node 'n0': sharing time-slices, topology toy\n"));
  EXPECT_EQ(parsed(made_up.run({"node", "show", "n0", "--json"}).output)["topology"], "toy");
}

TEST(NodeCommandTest, SmiPrintsTheMatrixOfANode) {
  const TestWorld made_up;
  write_toy(made_up);
  ASSERT_EQ(made_up.run({"node", "create", "n0", "--topology", "toy"}).code, 0);
  const Outcome matrix = made_up.run({"smi", "topo", "-m"});
  EXPECT_EQ(matrix.code, 0) << matrix.errors;
  const std::string words = squeezed(matrix.output);
  EXPECT_TRUE(words.starts_with("GPU0 GPU1 GPU2 net0 NUMA node\nGPU0 X PIX PHB PIX 1\n")) << words;
  EXPECT_EQ(made_up.run({"smi", "topo", "-m", "n0"}), matrix);
  EXPECT_TRUE(made_up.run({"smi", "topo"}).errors.find("give -m") != std::string::npos);
  ASSERT_EQ(made_up.run({"node", "create", "n1", "--gpu", "T4:2"}).code, 0);
  const Outcome none = made_up.run({"smi", "topo", "-m", "n1"});
  EXPECT_TRUE(none.errors.find("the node 'n1' has no topology") != std::string::npos)
      << none.errors;
}

TEST(NodeCommandTest, RefusesATopologyOfOtherGpus) {
  const TestWorld made_up;
  write_toy(made_up);
  const auto refused = [&made_up](std::vector<std::string> words) {
    words.insert(words.begin(), {"node", "create", "n"});
    const Outcome outcome = made_up.run(std::move(words));
    EXPECT_NE(outcome.code, 0);
    return outcome.errors;
  };
  EXPECT_EQ(refused({"--topology", "toy", "--gpu", "T4:2"}),
            "gpemu: the topology toy has 3 GPUs, but the node 2\n");
  EXPECT_EQ(refused({"--topology", "toy", "--gpu", "v100:3"}),
            "gpemu: the topology toy joins GPUs of the kind T4, but device 0 of the node is of the "
            "kind V100-PCIE-32GB\n");
  EXPECT_TRUE(refused({"--topology", "toys"}).contains("there is no topology \"toys\""));
  EXPECT_EQ(refused({}), "gpemu: give --gpu, --topology or both\n");
  ASSERT_EQ(made_up.run({"node", "create", "plain", "--gpu", "T4"}).code, 0);
  EXPECT_TRUE(made_up.run({"node", "topo", "plain"}).errors.contains("has no topology"));
  EXPECT_EQ(made_up.run({"node", "topo", "plain", "--topology", "toy"}).code, 2);
}

TEST(NodeCommandTest, ListsDamagedNodesWithTheReason) {
  const TestWorld made_up;
  ASSERT_EQ(made_up.run({"node", "create", "good", "--gpu", "T4"}).code, 0);
  std::ofstream(made_up.world.nodes / "bad") << "not a node";
  const Outcome outcome = made_up.run({"node", "list"});
  EXPECT_EQ(outcome.code, 0);
  const std::string text = squeezed(outcome.output);
  EXPECT_TRUE(text.starts_with(
      "node devices first gpu sharing\nbad - damaged -\ngood 1 T4 time-slices\n\n"))
      << text;
  EXPECT_TRUE(text.contains((made_up.world.nodes / "bad").string())) << text;
  const json nodes = parsed(made_up.run({"node", "list", "--json"}).output);
  EXPECT_TRUE(nodes[0].contains("problem"));
  EXPECT_FALSE(nodes[1].contains("problem"));
}

TEST(NodeCommandTest, RemovesANodeInUseOnlyByForce) {
  const TestWorld made_up;
  ASSERT_EQ(made_up.run({"node", "create", "n", "--gpu", "T4"}).code, 0);
  const auto attached = device::Node::open("n", made_up.world.nodes).value();
  EXPECT_EQ(made_up.run({"node", "remove", "n"}).code, 9);
  EXPECT_EQ(made_up.run({"node", "remove", "n", "--force"}), (Outcome{0, "", ""}));
  EXPECT_EQ(made_up.run({"node", "remove", "n"}).code, 3);
}

TEST(NodeCommandTest, RefusesCountsOutOfRange) {
  const TestWorld made_up;
  for (const char* gpu : {"T4:0", "T4:4097", "T4:x", "T4:", "T4:1x"}) {
    EXPECT_EQ(made_up.run({"node", "create", "n", "--gpu", gpu}),
              (Outcome{2, "",
                       fmt::format("gpemu: --gpu {}: write NAME or NAME:COUNT with a count of 1 to "
                                   "4096\n",
                                   gpu)}));
  }
}

}  // namespace
}  // namespace gpemu::tools
