// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

class RunCommandTest : public testing::Test {
 protected:
  RunCommandTest() {
    made_up_.variables["PATH"] = "/bin";
    made_up_.program = [this](const StartedProgram& program) {
      started_ = program;
      return exit_code_;
    };
  }

  /// Returns the outcome of `gpemu run OPTIONS -- sh`.
  [[nodiscard]] Outcome run(std::vector<std::string> options) const {
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", "sh"});
    return made_up_.run(std::move(options));
  }

  /// Returns the value of a variable of the program; "unset" if it does not have it.
  [[nodiscard]] std::string variable(const std::string& name) const {
    const auto found = started_->environment.find(name);
    return found == started_->environment.end() ? "unset" : found->second;
  }

  TestWorld made_up_;
  Result<int> exit_code_ = 0;              ///< of the program.
  std::optional<StartedProgram> started_;  ///< the last program.
};

TEST_F(RunCommandTest, StartsTheProgramOnANodeOfItsOwn) {
  made_up_.program = [this](const StartedProgram& program) {
    started_ = program;
    const auto node = device::NodeView::open(variable("GPEMU_NODE"), made_up_.world.nodes);
    EXPECT_EQ(node.value()->device_count(), 3);
    EXPECT_TRUE(std::filesystem::is_directory(variable("GPEMU_RECORD_DIR")));
    return 0;
  };
  EXPECT_EQ(run({"--gpu", "T4:2", "--gpu", "V100", "--quiet"}), (Outcome{0, "", ""}));
  ASSERT_TRUE(started_);
  EXPECT_EQ(started_->words, std::vector<std::string>{"sh"});
  EXPECT_EQ(started_->output, run::ProgramOutput::kAsItIs);
  EXPECT_EQ(variable("PATH"), "/shims/bin:/bin") << "the shims' programs come first";
  EXPECT_EQ(variable("LD_AUDIT"), "/shims/libgpemu_audit.so");
  for (const char* other :
       {"GPEMU_GPU", "GPEMU_CLOCK_PAGE", "LD_PRELOAD", "GPEMU_STRICT", "GPEMU_RECORD_OPERATIONS"}) {
    EXPECT_EQ(variable(other), "unset") << other;
  }
  EXPECT_FALSE(std::filesystem::exists(variable("GPEMU_RECORD_DIR")));
  EXPECT_TRUE(made_up_.run({"node", "list"}).output.starts_with("no nodes in "));
}

TEST_F(RunCommandTest, RemovesWhatItHasMadeBeforeASignalEndsIt) {
  const auto records = [this] {
    return std::ranges::count_if(
        std::filesystem::directory_iterator(made_up_.world.temporary),
        [](const auto& entry) { return entry.path().filename().string().contains("run-"); });
  };
  for (const char* clock : {"real", "virtual"}) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      made_up_.program = [signal](const StartedProgram&) {
        ::raise(signal);
        return 0;
      };
      const pid_t pid = ::fork();
      if (pid == 0) {
        static_cast<void>(run({"--gpu", "T4", "--quiet", "--clock", clock}));
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
      EXPECT_TRUE(std::filesystem::is_empty(made_up_.world.nodes)) << clock << signal;
      EXPECT_EQ(records(), 0) << clock << signal;
    }
  }
}

TEST_F(RunCommandTest, PassesWordsInBracketsAsTheyAre) {
  made_up_.program = [this](const StartedProgram& program) {
    started_ = program;
    return 0;
  };
  const std::vector<std::string> words = {"sh", "[1,2]", "[[0, 1]]", "[]", "[", "a=[b]"};
  for (const bool dashes : {true, false}) {
    std::vector<std::string> all = {"run", "--gpu", "T4", "--quiet"};
    if (dashes) all.emplace_back("--");
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(made_up_.run(all).errors, "");
    ASSERT_TRUE(started_);
    EXPECT_EQ(started_->words, words);
  }
}

TEST_F(RunCommandTest, StartsTheProgramOnTheGpusOfATopology) {
  const std::string file = made_up_.write("box.toml",
                                          "name = \"box\"\n"
                                          "title = \"A box\"\n"
                                          "gpu = \"T4\"\n"
                                          "sockets = [\"A processor\"]\n"
                                          "[[bridge]]\n"
                                          "name = \"cpu0\"\n"
                                          "socket = 0\n"
                                          "numa_node = 0\n"
                                          "gpus = [0, 1]\n"
                                          "source = \"us\"\n"
                                          "[sources]\n"
                                          "us = \"made up\"\n");
  made_up_.program = [this](const StartedProgram& program) {
    started_ = program;
    const auto node = device::NodeView::open(variable("GPEMU_NODE"), made_up_.world.nodes).value();
    EXPECT_EQ(node->device_count(), 2);
    EXPECT_EQ(node->topology()->title, "A box");
    return 0;
  };
  const Outcome outcome = run({"--topology", file, "--quiet", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(parsed(outcome.output)["gpus"], parsed(R"(["T4:2"])"));
  EXPECT_EQ(parsed(outcome.output)["topology"], file);
  EXPECT_EQ(run({"--topology", file, "--gpu", "T4", "--gpu", "T4", "--quiet"}).code, 0);
  EXPECT_EQ(run({"--topology", file, "--gpu", "T4:3"}),
            (Outcome{2, "", "gpemu: the topology box has 2 GPUs, but the node 3\n"}));
  EXPECT_EQ(run({"--topology", file, "--node", "n"}).code, 2);
  EXPECT_EQ(run({"--topology", file, "--clock", "gpu-only"}).code, 2);
  EXPECT_EQ(run({"--topology", "no-such-machine"}).code, 3);
}

TEST_F(RunCommandTest, StartsTheProgramOnTheNamedNode) {
  for (const char* name : {"n0", "n1"}) {
    ASSERT_EQ(made_up_.run({"node", "create", name, "--gpu", "T4"}).code, 0);
  }
  EXPECT_EQ(run({"--node", "n1", "--quiet"}).code, 0);
  EXPECT_EQ(variable("GPEMU_NODE"), "n1");
  made_up_.variables["GPEMU_NODE"] = "n0";
  EXPECT_EQ(run({"--quiet"}).code, 0);
  EXPECT_EQ(variable("GPEMU_NODE"), "n0");
}

TEST_F(RunCommandTest, GivesEachProcessItsOwnTime) {
  EXPECT_EQ(run({"--gpu", "V100", "--clock", "gpu-only", "--quiet"}), (Outcome{0, "", ""}));
  EXPECT_EQ(variable("GPEMU_GPU"), "V100-PCIE-32GB");
  EXPECT_EQ(variable("GPEMU_CLOCK"), "virtual");
  EXPECT_EQ(variable("GPEMU_NODE"), "unset");
}

TEST_F(RunCommandTest, MakesTheProgramsClocksFollowTheNode) {
  made_up_.variables["LD_PRELOAD"] = "mine.so";
  EXPECT_EQ(run({"--gpu", "T4", "--clock", "virtual", "--quiet"}), (Outcome{0, "", ""}));
  EXPECT_EQ(variable("LD_PRELOAD"), "/shims/libgpemu_clock.so:mine.so");
  EXPECT_TRUE(variable("GPEMU_CLOCK_PAGE").contains(":" + made_up_.world.nodes.string()));
}

TEST_F(RunCommandTest, PassesItsOptionsOn) {
  const std::string trace = (made_up_.folder / "trace.json").string();
  EXPECT_EQ(run({"--gpu", "T4", "--strict", "--drop-data", "--context", "300", "--quiet", "--trace",
                 trace}),
            (Outcome{0, "", ""}));
  EXPECT_EQ(variable("GPEMU_STRICT"), "1");
  EXPECT_EQ(variable("GPEMU_DROP_DATA"), "1");
  EXPECT_EQ(variable("GPEMU_CONTEXT_MIB"), "300");
  EXPECT_EQ(variable("GPEMU_RECORD_OPERATIONS"), "1");
  EXPECT_TRUE(std::filesystem::exists(trace));
}

TEST_F(RunCommandTest, LetsOnlyTheFirstRanksRun) {
  made_up_.program = [this](const StartedProgram& program) {
    started_ = program;
    for (const char* name : {"7.phantom", "8.phantom"}) {
      std::ofstream(std::filesystem::path(variable("GPEMU_RECORD_DIR")) / name).flush();
    }
    return 0;
  };
  const Outcome outcome = run({"--gpu", "T4", "--ranks-for-real", "1", "--json", "-"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(variable("GPEMU_REAL_RANKS"), "1");
  EXPECT_EQ(parsed(outcome.output)["ranks_for_real"], 1);
  EXPECT_EQ(parsed(outcome.output)["phantoms"], 2);
  EXPECT_TRUE(outcome.errors.contains("phantoms  2 ranks did not run: rank 0 stands for them\n"))
      << outcome.errors;
}

TEST_F(RunCommandTest, SaysThatAllRanksRan) {
  EXPECT_EQ(run({"--gpu", "T4", "--quiet"}).code, 0);
  EXPECT_EQ(variable("GPEMU_REAL_RANKS"), "unset");
  const Outcome outcome = run({"--gpu", "T4", "--ranks-for-real", "2"});
  EXPECT_TRUE(outcome.errors.contains("phantoms  none: no process was started as rank 2 or later "))
      << outcome.errors;
}

TEST_F(RunCommandTest, RefusesToBeARankOfWhichOnlySomeRun) {
  EXPECT_EQ(run({"--gpu", "T4", "--ranks-for-real", "2", "--clock", "gpu-only"}),
            (Outcome{2, "",
                     "gpemu: --clock gpu-only gives each process its own time: give "
                     "--ranks-for-real 1\n"}));
  made_up_.variables["RANK"] = "3";
  const Outcome outcome = run({"--gpu", "T4", "--ranks-for-real", "1"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.errors.starts_with("gpemu: --ranks-for-real: RANK is set to 3"))
      << outcome.errors;
}

TEST_F(RunCommandTest, ReturnsTheProgramsExitCode) {
  for (const int code : {0, 7, 128 + 9}) {
    exit_code_ = code;
    const Outcome outcome = run({"--gpu", "T4", "--json", "-", "--quiet"});
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(started_->output, run::ProgramOutput::kToStandardError);
    const auto result = parsed(outcome.output);
    EXPECT_EQ(result["exit_code"], code);
    EXPECT_EQ(result["gpus"], parsed(R"(["T4"])"));
    EXPECT_EQ(result["program"], parsed(R"(["sh"])"));
  }
}

TEST_F(RunCommandTest, TellsThatAProgramDidNotUseTheGpu) {
  const Outcome outcome = run({"--gpu", "T4"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.errors.starts_with("\ngpemu: no CUDA call")) << outcome.errors;
}

TEST_F(RunCommandTest, FailsIfTheProgramCannotBeStarted) {
  exit_code_ = fail(ErrorCode::kIo, "cannot start 'sh': too large");
  EXPECT_EQ(run({"--gpu", "T4"}), (Outcome{7, "", "gpemu: cannot start 'sh': too large\n"}));
  exit_code_ = fail(ErrorCode::kNotFound, "cannot start 'sh': gone");
  EXPECT_EQ(run({"--gpu", "T4"}), (Outcome{3, "", "gpemu: cannot start 'sh': gone\n"}));
  made_up_.world.shims = [] { return fail(ErrorCode::kNotFound, "no shims"); };
  started_.reset();
  EXPECT_EQ(run({"--gpu", "T4"}), (Outcome{3, "", "gpemu: no shims\n"}));
  EXPECT_FALSE(started_);
}

TEST_F(RunCommandTest, LeavesTheNodesClockAloneIfTheProgramCannotBeStarted) {
  ASSERT_EQ(made_up_.run({"node", "create", "n", "--gpu", "T4"}).code, 0);
  const auto node = device::Node::open("n", made_up_.world.nodes).value();
  const std::vector<std::string> options = {"--node", "n", "--clock", "virtual", "--quiet"};
  made_up_.world.run_program = [&node](const auto&...) -> Result<int> {
    EXPECT_EQ(node->clock().page().skipping, 1U) << "before the program starts";
    return fail(ErrorCode::kIo, "cannot start 'sh': too large");
  };
  EXPECT_EQ(run(options).code, 7);
  EXPECT_EQ(node->clock().page().skipping, 0U);
  made_up_.world.shims = [] { return fail(ErrorCode::kNotFound, "no shims"); };
  EXPECT_EQ(run(options).code, 3);
  EXPECT_EQ(node->clock().page().skipping, 0U);
  node->clock().page().skipping = 1;
  EXPECT_EQ(run(options).code, 3);
  EXPECT_EQ(node->clock().page().skipping, 1U) << "of another run";
}

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

TEST_F(RunCommandTest, ReportsWhatItSkippedOnTheVirtualClock) {
  const Outcome outcome = run({"--gpu", "T4", "--clock", "virtual"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.errors.starts_with("\nskipped   0.000 s in 0 skips\n")) << outcome.errors;
  EXPECT_NE(variable("GPEMU_CLOCK_PAGE"), "unset");
}

TEST_F(RunCommandTest, SlowsTheHostDownOnTheVirtualClock) {
  made_up_.program = [this](const StartedProgram& program) {
    started_ = program;
    const auto node = device::Node::open(variable("GPEMU_NODE"), made_up_.world.nodes);
    EXPECT_EQ(node.value()->clock().page().pace.permille, 2300U);
    return 0;
  };
  const Outcome outcome =
      run({"--gpu", "T4", "--clock", "virtual", "--host-slowdown", "2.3", "--json", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(parsed(outcome.output)["host_slowdown"], 2.3);
}

TEST_F(RunCommandTest, SlowsTheHostOfANodeOfItsOwnDownOnly) {
  EXPECT_EQ(
      run({"--gpu", "T4", "--host-slowdown", "2"}),
      (Outcome{2, "",
               "gpemu: --host-slowdown needs --clock virtual: on the clock 'real', the host's "
               "work takes its real time\n"}));
  EXPECT_EQ(run({"--node", "n", "--clock", "virtual", "--host-slowdown", "2"}),
            (Outcome{2, "",
                     "gpemu: --host-slowdown needs --gpu or --topology: the clock of a node that "
                     "exists belongs to its other processes, too\n"}));
  EXPECT_EQ(run({"--gpu", "T4", "--clock", "virtual", "--host-slowdown", "0.5"}).code, 2);
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
  EXPECT_EQ(run({"--gpu", "V100", "--gpu", "T4", "--context", "15095"}),
            (Outcome{2, "", "gpemu: --context 15095: T4 has 15095 MiB\n"}));
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
