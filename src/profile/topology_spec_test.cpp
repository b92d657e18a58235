// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/topology_spec.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::profile {
namespace {

const std::string kMachine = R"(name = "toy"
title = "A toy"
gpu = "T4"
sockets = ["A processor"]

[[bridge]]
name = "cpu0"
socket = 0
numa_node = 1
gpus = [2]
source = "made up"

[[switch]]
name = "plx0"
below = "cpu0"
generation = 3
lanes = 16
gpus = [0, 1]
source = "made up"

[[adapter]]
name = "net0"
below = "plx0"
gb_per_s = 12.5
source = "made up"

[nvlink]
bonds = [[0, 1, 2], [2, 1, 1]]
source = "made up"

[sources]
"made up" = "Nobody measured it"
)";

/// Returns the message about the machine with `old` replaced by `changed`.
std::string fault_with(const std::string& old, const std::string& changed) {
  std::string text = kMachine;
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  text.replace(at, old.size(), changed);
  const auto spec = parse_topology_spec(text, "toy.toml");
  if (spec) return "no fault";
  EXPECT_EQ(spec.error().code, ErrorCode::kCorruptData);
  return spec.error().message;
}

TEST(ParseTopologySpec, ReadsEachTable) {
  const TopologySpec spec = parse_topology_spec(kMachine, "toy.toml").value();
  EXPECT_EQ(spec.name, "toy");
  EXPECT_EQ(spec.toml, kMachine);
  EXPECT_EQ(spec.gpu, "T4");
  ASSERT_EQ(spec.gpus.size(), 3U);
  EXPECT_TRUE(spec.gpus[1].below_switch);
  EXPECT_FALSE(spec.gpus[2].below_switch);
  EXPECT_EQ(spec.bridges.at(0).numa_node, 1);
  EXPECT_FALSE(spec.bridges.at(0).bytes_per_s);
  EXPECT_EQ(spec.switches.at(0).uplink.lanes, 16);
  EXPECT_EQ(spec.adapters.at(0).bytes_per_s, 12.5e9);
  ASSERT_EQ(spec.bonds.size(), 2U);
  EXPECT_EQ(spec.bonds[0].links, 2);
  EXPECT_EQ(spec.switched_links, 0);
  EXPECT_EQ(spec.sources.at("switch plx0"), "Nobody measured it");
}

TEST(ParseTopologySpec, NamesTheLineOfAFault) {
  EXPECT_EQ(fault_with("numa_node = 1", "numa_node = -1"),
            "toy.toml:9: bridge cpu0: numa_node: expected a whole number from 0 to 255");
  EXPECT_EQ(fault_with("numa_node = 1", "numa_node = 1\ngb_per_s = 0"),
            "toy.toml:10: bridge cpu0: gb_per_s: expected a number above 0 and below 10000");
  EXPECT_EQ(fault_with("socket = 0", "socket = 1"),
            "toy.toml:8: bridge cpu0: socket: expected a whole number from 0 to 0");
}

TEST(ParseTopologySpec, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(fault_with("lanes = 16", "width = 16"),
            "toy.toml:17: switch plx0: unknown key 'width'");
  EXPECT_EQ(fault_with("title = ", "note = \"x\"\ntitle = "),
            "toy.toml:2: the file: unknown key 'note'");
}

TEST(ParseTopologySpec, RefusesAPlaceThatIsNotThereYet) {
  EXPECT_EQ(fault_with("below = \"cpu0\"", "below = \"plx1\""),
            "toy.toml:15: switch plx0: below: there is no bridge and no earlier switch 'plx1'");
}

TEST(ParseTopologySpec, GivesEachGpuOnePlace) {
  EXPECT_EQ(fault_with("gpus = [2]", "gpus = [1]"),
            "toy.toml:18: switch plx0: gpus: GPU 1 has a place already");
  EXPECT_EQ(fault_with("gpus = [2]", "gpus = [3]"),
            "toy.toml:1: gpus: GPU 2 is missing; they are numbered from 0");
}

TEST(ParseTopologySpec, RefusesTwoOfOneName) {
  EXPECT_EQ(fault_with("name = \"plx0\"", "name = \"cpu0\""),
            "toy.toml:13: switch cpu0: there is another one of this name");
}

TEST(ParseTopologySpec, RefusesAChainOfSwitchesWithoutEnd) {
  const auto chain = [](int switches) {
    std::string text = kMachine;
    for (int i = 1; i < switches; ++i) {
      const std::string tables = "[[switch]]\nname = \"plx" + std::to_string(i) +
                                 "\"\nbelow = \"plx" + std::to_string(i - 1) +
                                 "\"\ngeneration = 3\nlanes = 16\nsource = \"made up\"\n";
      text.insert(text.find("[[adapter]]"), tables);
    }
    return parse_topology_spec(text, "toy.toml");
  };
  EXPECT_TRUE(chain(256));
  ASSERT_FALSE(chain(257));
  EXPECT_TRUE(chain(257).error().message.ends_with(": switch: a machine has at most 256 of them"));
}

TEST(ParseTopologySpec, ChecksNvlinks) {
  EXPECT_EQ(fault_with("[2, 1, 1]", "[1, 0, 1]"),
            "toy.toml:28: nvlink: bonds: GPUs 1 and 0 have another bond");
  EXPECT_EQ(fault_with("[2, 1, 1]", "[3, 1, 1]"),
            "toy.toml:28: nvlink: bonds: expected two of the 3 GPUs and the number of links "
            "between them");
  EXPECT_EQ(fault_with("bonds = [[0", "switched_links = 6\nbonds = [[0"),
            "toy.toml:27: nvlink: expected either switched_links or bonds");
}

TEST(ParseTopologySpec, WantsASourceForEachTable) {
  EXPECT_EQ(fault_with("gb_per_s = 12.5\nsource = \"made up\"", "gb_per_s = 12.5"),
            "toy.toml:21: adapter net0: no source");
}

TEST(ParseTopologySpec, ReadsWhetherTheDriverGivesPeerAccess) {
  EXPECT_FALSE(parse_topology_spec(kMachine, "toy.toml")->has_open_driver);
  const std::string table = "[peer_access]\nsource = \"made up\"\n\n";
  EXPECT_TRUE(parse_topology_spec(kMachine + "\n" + table, "toy.toml")->has_open_driver);
  EXPECT_EQ(fault_with("[sources]", "[peer_access]\n\n[sources]"),
            "toy.toml:31: peer_access: no source");
  EXPECT_EQ(fault_with("[sources]", "[peer_access]\nlevel = 1\n\n[sources]"),
            "toy.toml:32: peer_access: unknown key 'level'");
}

TEST(WithSomeGpus, NumbersThemAnewAndLeavesTheOthersOut) {
  const TopologySpec machine = parse_topology_spec(kMachine, "toy.toml").value();
  const TopologySpec some = with_some_gpus(machine, std::vector<std::size_t>{2, 1}).value();
  ASSERT_EQ(some.gpus.size(), 2U);
  EXPECT_FALSE(some.gpus[0].below_switch) << "GPU 2";
  EXPECT_TRUE(some.gpus[1].below_switch);
  ASSERT_EQ(some.bonds.size(), 1U);
  EXPECT_EQ(some.bonds[0].first, 0);
  EXPECT_EQ(some.bonds[0].second, 1);
  EXPECT_EQ(some.adapters.size(), 1U);
  const TopologySpec again = parse_topology_spec(some.toml, "again").value();
  EXPECT_EQ(again.gpus.size(), 2U);
}

TEST(WithSomeGpus, LeavesOutSourcesOfNothing) {
  std::string text = kMachine;
  text.replace(text.find("source = \"made up\"\n\n[sources]"), 18, "source = \"the links\"");
  text += "\"the links\" = \"Nobody counted them\"\n";
  const TopologySpec machine = parse_topology_spec(text, "toy.toml").value();
  const TopologySpec one = with_some_gpus(machine, std::vector<std::size_t>{1}).value();
  EXPECT_EQ(one.gpus.size(), 1U);
  EXPECT_TRUE(one.bonds.empty());
  EXPECT_FALSE(one.toml.contains("Nobody counted them"));
}

TEST(FindTopology, TakesANameOrAPath) {
  const std::filesystem::path folder = GPEMU_TOPOLOGIES_FOLDER;
  EXPECT_EQ(find_topology(folder, "dgx-1v").value().gpu, "V100-SXM2-32GB");
  EXPECT_EQ(find_topology("/none", (folder / "dgx-1v.toml").string()).value().name, "dgx-1v");
  EXPECT_EQ(find_topology(folder, "dgx-1").error().message,
            "there is no topology \"dgx-1\" (did you mean dgx-1v or dgx-2?); `gpemu node topo` "
            "lists them, and the path of a TOML file describes another machine");
  EXPECT_EQ(find_topology(folder, "none.toml").error().code, ErrorCode::kNotFound);
}

/// The files of the repository.
class TopologyFiles : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(TopologyFiles, DescribeMachinesWithGpusThatAreKnown) {
  const auto spec = load_topology_spec(GetParam());
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name, GetParam().stem());
  const std::filesystem::path gpus = GPEMU_GPUS_FOLDER;
  for (std::size_t i = 0; i < spec->gpus.size(); ++i) {
    const auto one = with_some_gpus(*spec, std::vector{i});
    EXPECT_TRUE(one) << one.error().message;
  }
  const auto gpu = load_gpu_spec(gpus / (spec->gpu + ".toml"));
  ASSERT_TRUE(gpu) << gpu.error().message;
  if (spec->switched_links > 0 || !spec->bonds.empty()) {
    EXPECT_GE(gpu->nvlink_gpus, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TopologyFiles,
                         testing::ValuesIn(list_folder(GPEMU_TOPOLOGIES_FOLDER).value()),
                         [](const auto& file) {
                           std::string name = file.param.stem().string();
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace gpemu::profile
