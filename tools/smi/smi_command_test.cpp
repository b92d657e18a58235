// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

class SmiCommandTest : public testing::Test {
 protected:
  SmiCommandTest() {
    GPEMU_CHECK(made_up_.run({"node", "create", "n", "--gpu", "T4:2"}).code == 0, "it is new");
  }

  TestWorld made_up_;
};

TEST_F(SmiCommandTest, ShowsLoadMemoryAndProcessesAsJson) {
  const auto node = device::Node::open("n", made_up_.world.nodes).value();
  const auto device = device::Device::open(node, 1, made_up_.clock).value();
  device->default_stream().launch(50ms);
  const Outcome outcome = made_up_.run({"smi", "n", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const nlohmann::json devices = parsed(outcome.output);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0]["utilization_compute"], 0);
  EXPECT_EQ(devices[0]["processes"].size(), 0U);
  EXPECT_EQ(devices[1]["utilization_compute"], 0.25) << "50 of 200 ms";
  EXPECT_EQ(devices[1]["kernels"], 1);
  EXPECT_EQ(devices[1]["processes"].size(), 1U);
}

TEST_F(SmiCommandTest, ChoosesTheFormat) {
  EXPECT_TRUE(made_up_.run({"smi", "-L"}).output.starts_with("GPU 0: Tesla T4 (UUID: GPU-"));
  EXPECT_TRUE(made_up_.run({"smi"}).output.contains("| Processes:"));
  EXPECT_EQ(made_up_.run({"smi", "-i", "1", "--query-gpu=index,name", "--format=csv,noheader"}),
            (Outcome{0, "1, Tesla T4\n", ""}));
  EXPECT_EQ(made_up_.run({"smi", "--query-compute-apps=pid", "--format=csv"}),
            (Outcome{0, "pid\n", ""}));
}

TEST_F(SmiCommandTest, AQueryNeedsAFormatAndAFormatAQuery) {
  EXPECT_EQ(made_up_.run({"smi", "--query-gpu=index"}),
            (Outcome{2, "", "gpemu: a query needs --format=csv\n"}));
  EXPECT_EQ(made_up_.run({"smi", "--format=csv"}),
            (Outcome{2, "", "gpemu: --format needs --query-gpu or --query-compute-apps\n"}));
}

TEST_F(SmiCommandTest, HintsIfThereAreNoNodes) {
  ASSERT_EQ(made_up_.run({"node", "remove", "n"}).code, 0);
  EXPECT_EQ(made_up_.run({"smi"}),
            (Outcome{0,
                     fmt::format("no nodes that you may open in {}: create one with `gpemu node "
                                 "create`, or start a run\n",
                                 made_up_.world.nodes.string()),
                     ""}));
}

TEST_F(SmiCommandTest, WarnsOfADamagedNodeUnlessAnotherIsNamed) {
  std::ofstream(made_up_.world.nodes / "bad") << "not a node";
  EXPECT_TRUE(made_up_.run({"smi", "-L"}).errors.starts_with("gpemu: warning: "));
  EXPECT_EQ(made_up_.run({"smi", "n", "-L"}).errors, "");
}

}  // namespace
}  // namespace gpemu::tools
