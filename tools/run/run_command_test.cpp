// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

/// Runs that fail before the program starts.
class RunCommandTest : public testing::Test {
 protected:
  RunCommandTest() { made_up_.variables["PATH"] = "/bin"; }

  /// Returns the outcome of `gpemu run OPTIONS -- sh`.
  [[nodiscard]] Outcome run(std::vector<std::string> options) const {
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", "sh"});
    return made_up_.run(std::move(options));
  }

  TestWorld made_up_;
};

TEST_F(RunCommandTest, TakesEitherGpusOrANode) {
  EXPECT_EQ(run({"--gpu", "T4", "--node", "n"}),
            (Outcome{2, "", "gpemu: give either --gpu or --node\n"}));
  EXPECT_EQ(run({"--node", "n"}).code, 3);
}

TEST_F(RunCommandTest, TakesTheOnlyNodeWithoutOptions) {
  const Outcome none = run({});
  EXPECT_EQ(none.code, 3);
  EXPECT_TRUE(none.errors.starts_with("gpemu: there is no node in")) << none.errors;
  for (const char* name : {"n0", "n1"}) {
    ASSERT_EQ(made_up_.run({"node", "create", name, "--gpu", "T4"}).code, 0);
  }
  EXPECT_EQ(run({}), (Outcome{2, "",
                              "gpemu: there are 2 nodes: name one with GPEMU_NODE or, for `gpemu "
                              "run`, with --node (`gpemu node list` shows them)\n"}));
}

TEST_F(RunCommandTest, HasOneGpuIfEachProcessHasItsOwnTime) {
  const std::string needs_one =
      "gpemu: --clock gpu-only needs one --gpu: each process has its own time\n";
  EXPECT_EQ(run({"--clock", "gpu-only"}), (Outcome{2, "", needs_one}));
  EXPECT_EQ(run({"--clock", "gpu-only", "--gpu", "T4", "--gpu", "T4"}),
            (Outcome{2, "", needs_one}));
  EXPECT_EQ(run({"--clock", "gpu-only", "--gpu", "T4:2"}),
            (Outcome{2, "", "gpemu: --clock gpu-only emulates one GPU, not 2\n"}));
}

TEST_F(RunCommandTest, AContextLeavesMemory) {
  EXPECT_EQ(run({"--gpu", "V100", "--gpu", "T4", "--context", "15109"}),
            (Outcome{2, "", "gpemu: --context 15109: T4 has 15109 MiB\n"}));
}

TEST_F(RunCommandTest, RefusesGpuFilesThatItCannotPassOn) {
  EXPECT_EQ(run({"--gpu", "/a:b/gpu.toml"}),
            (Outcome{2, "",
                     "gpemu: --gpu /a:b/gpu.toml: the path of a GPU file may not contain ':', but "
                     "/a:b/gpu.toml does; move or rename it\n"}));
  EXPECT_EQ(run({"--gpu", "/none/gpu.toml:2"}).code, 3) << "the number is a count";
}

TEST_F(RunCommandTest, ChecksItsOutputsFirst) {
  const Outcome outcome = run({"--gpu", "T4", "--json", "/none/result.json"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_TRUE(outcome.errors.contains("/none")) << outcome.errors;
}

}  // namespace
}  // namespace gpemu::tools
