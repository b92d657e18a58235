// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

constexpr const char* kWrongWords =
    "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n";

/// A node "n" with two T4.
class NvidiaSmiCommandTest : public testing::Test {
 protected:
  NvidiaSmiCommandTest() {
    GPEMU_CHECK(made_up_.run({"node", "create", "n", "--gpu", "T4:2"}).code == 0, "it is new");
  }

  [[nodiscard]] Outcome smi(std::vector<std::string> words) const {
    words.insert(words.begin(), "nvidia-smi");
    return made_up_.run(std::move(words));
  }

  TestWorld made_up_;
};

TEST_F(NvidiaSmiCommandTest, ShowsTheGpusOfTheOnlyNode) {
  EXPECT_TRUE(smi({}).output.contains("| NVIDIA-SMI 595.45.04  "));
  EXPECT_TRUE(smi({"-L"}).output.starts_with("GPU 0: Tesla T4 (UUID: GPU-"));
  EXPECT_TRUE(smi({"-q", "-x"}).output.contains("<attached_gpus>2</attached_gpus>"));
  EXPECT_EQ(smi({"-i", "1", "--query-gpu=index,name", "--format=csv,noheader"}),
            (Outcome{0, "1, Tesla T4\n", ""}));
  EXPECT_TRUE(smi({"--version"}).output.starts_with("NVIDIA-SMI version  : 595.45.04\n"));
  EXPECT_TRUE(
      smi({"--help-query-gpu"}).output.contains("\"clocks.current.sm\" or \"clocks.sm\"\n"));
}

TEST_F(NvidiaSmiCommandTest, NumbersThePartThatTheProcessSees) {
  made_up_.variables["GPEMU_DEVICES"] = "1";
  const Outcome listed = smi({"--query-gpu=index,pci.bus_id", "--format=csv,noheader"});
  EXPECT_EQ(listed.output, "0, 00000000:02:00.0\n");
  EXPECT_EQ(smi({"-c", "3"}).output,
            "Set compute mode to EXCLUSIVE_PROCESS for GPU 00000000:02:00.0.\nAll done.\n");
}

TEST_F(NvidiaSmiCommandTest, FindsGpusByTheirNames) {
  const auto query = [this](const std::string& id) {
    return smi({"--id=" + id, "--query-gpu=index", "--format=csv,noheader"});
  };
  const std::string uuid =
      smi({"-i", "1", "--query-gpu=uuid", "--format=csv,noheader"}).output.substr(0, 40);
  EXPECT_EQ(query(uuid).output, "1\n");
  EXPECT_EQ(query("00000000:02:00.0").output, "1\n");
  EXPECT_EQ(query("0000:02:00.0").output, "1\n");
  EXPECT_EQ(query("2"), (Outcome{6, "No devices were found\n", ""}));
  EXPECT_EQ(query("0,2").code, 6);
}

TEST_F(NvidiaSmiCommandTest, ChangesTheComputeModeOfAGpu) {
  EXPECT_EQ(smi({"-i", "0", "-c", "EXCLUSIVE_PROCESS"}),
            (Outcome{0,
                     "Set compute mode to EXCLUSIVE_PROCESS for GPU 00000000:01:00.0.\n"
                     "All done.\n",
                     ""}));
  EXPECT_EQ(smi({"-i", "0", "-c", "3"}).output,
            "Compute mode is already set to EXCLUSIVE_PROCESS for GPU 00000000:01:00.0.\n"
            "All done.\n");
  EXPECT_EQ(smi({"--query-gpu=compute_mode", "--format=csv,noheader"}).output,
            "Exclusive_Process\nDefault\n");
  EXPECT_TRUE(smi({}).output.contains("E. Process |"));
  EXPECT_EQ(smi({"-c", "prohibited"}).code, 0);
  const auto node = device::Node::open("n", made_up_.world.nodes).value();
  EXPECT_EQ(device::Device::open(node, 1, made_up_.clock).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(smi({"-c", "1"}).code, 3) << "EXCLUSIVE_THREAD";
  EXPECT_EQ(smi({"-c", "4"}).code, 2);
}

TEST_F(NvidiaSmiCommandTest, ChangesTheTimeSlicesOfAGpu) {
  EXPECT_EQ(smi({"compute-policy", "-i", "1", "--set-timeslice", "3"}),
            (Outcome{0, "Set time slice to LONG for GPU 00000000:02:00.0.\nAll done.\n", ""}));
  const std::string listed = smi({"compute-policy", "-l"}).output;
  EXPECT_TRUE(
      listed.contains("|   0   TIMESLICE               DEFAULT           |\n"
                      "|   1   TIMESLICE               LONG              |\n"))
      << listed;
  EXPECT_EQ(smi({"compute-policy", "--set-timeslice=4"}).code, 2);
  EXPECT_EQ(smi({"compute-policy"}).code, 2);
  ASSERT_EQ(made_up_.run({"node", "create", "fifo", "--gpu", "T4", "--sharing", "fifo"}).code, 0);
  made_up_.variables["GPEMU_NODE"] = "fifo";
  EXPECT_EQ(smi({"compute-policy", "--set-timeslice=1"}).code, 3);
}

TEST_F(NvidiaSmiCommandTest, LimitsThePower) {
  EXPECT_EQ(smi({"-i", "0", "-pl", "50"}).output,
            "Power limit for GPU 00000000:01:00.0 was set to 50.00 W from 70.00 W.\nAll done.\n");
  EXPECT_EQ(smi({"--query-gpu=power.limit,power.max_limit", "--format=csv,noheader"}).output,
            "50.00 W, 70.00 W\n70.00 W, 70.00 W\n");
  EXPECT_EQ(smi({"-pl", "0"}).code, 2);
  EXPECT_EQ(smi({"-pl", "71"}).code, 2);
  EXPECT_EQ(smi({"-pl", "nan"}).code, 2);
  EXPECT_EQ(smi({"-pl", "50W"}).code, 2);
}

TEST_F(NvidiaSmiCommandTest, RefusesWhatTheGpusDoNotHave) {
  EXPECT_EQ(smi({"-i", "0", "-gtt", "80"}),
            (Outcome{0,
                     "Setting GPU target temperature is not supported for GPU "
                     "00000000:01:00.0.\nTreating as warning and moving on.\nAll done.\n",
                     ""}));
  EXPECT_EQ(smi({"-i", "0", "-gtt", "80", "-eow"}).code, 3);
  EXPECT_EQ(smi({"-i", "0", "-mig", "1"}).output,
            "Unable to enable MIG Mode for GPU 00000000:01:00.0: Not Supported\n"
            "Treating as warning and moving on.\nAll done.\n");
  EXPECT_EQ(smi({"nvlink", "-s"}),
            (Outcome{3, "Not Supported\n", "gpemu: nvlink is not supported\n"}));
  EXPECT_EQ(smi({"topo", "-m"}).output, "Not Supported\n") << "without a topology";
  EXPECT_EQ(smi({"topo", "-m"}).code, 3);
  EXPECT_EQ(smi({"mig", "-lgip"}).output, "No MIG-enabled devices found.\n");
  EXPECT_EQ(smi({"mig", "-lgip"}).code, 6);
}

TEST_F(NvidiaSmiCommandTest, SaysWhatIsWrong) {
  EXPECT_EQ(
      smi({"--no-such"}),
      (Outcome{255, "ERROR: Option --no-such is not recognized. Please run 'nvidia-smi -h'.\n\n",
               "gpemu: there is no option '--no-such'\n"}));
  EXPECT_EQ(smi({"no-such"}).code, 2);
  EXPECT_EQ(smi({"--query-gpu=no_such", "--format=csv"}),
            (Outcome{2, "Field \"no_such\" is not a valid field to query.\n\n", ""}));
  EXPECT_EQ(smi({"--query-gpu=index"}).code, 2) << "it needs a format";
  EXPECT_EQ(smi({"-q", "-d", "NO_SUCH"}).code, 2);
  ASSERT_EQ(made_up_.run({"node", "remove", "n"}).code, 0);
  const Outcome none = smi({});
  EXPECT_EQ(none.code, 9);
  EXPECT_TRUE(none.output.starts_with("NVIDIA-SMI has failed because it couldn't communicate"));
  EXPECT_TRUE(none.errors.starts_with("gpemu: there is no node in ")) << none.errors;
}

TEST_F(NvidiaSmiCommandTest, RepeatsAndWritesToAFile) {
  const Outcome twice = smi({"dmon", "-s", "m", "-c", "2", "-i", "1"});
  EXPECT_EQ(twice.output,
            "# gpu     fb   bar1   ccpm \n# Idx     MB     MB     MB \n"
            "    1      0      -      - \n    1      0      -      - \n");
  const std::string path = made_up_.folder / "out";
  EXPECT_EQ(smi({"-L", "-f", path}), (Outcome{0, "", ""}));
  EXPECT_TRUE(read_file(path)->starts_with("GPU 0: Tesla T4"));
  EXPECT_EQ(smi({"-L", "-f", made_up_.folder / "none" / "out"}).code, 255);
}

TEST_F(NvidiaSmiCommandTest, DividesGpus) {
  constexpr const char* kFile = GPEMU_GPUS_FOLDER "/A100-SXM4-40GB.toml";
  made_up_.variables["GPEMU_GPU_FILES"] = kFile;
  made_up_.variables["GPEMU_NODE"] = "mig";
  ASSERT_EQ(made_up_.run({"node", "create", "mig", "--gpu", kFile, "--sharing", "mig"}).code, 0);
  EXPECT_TRUE(smi({}).output.contains("|  No MIG devices found"));
  EXPECT_EQ(smi({"-i", "0", "mig", "-cgi", "9", "-C"}).code, 0);
  EXPECT_TRUE(smi({"-L"}).output.contains("\n  MIG 3g.20gb     Device  0: (UUID: MIG-"));
  EXPECT_TRUE(smi({}).output.contains(
      "\n|  0    2   0   0  |               0MiB / 19968MiB    | 42    N/A |  3   0    2    0    0 "
      "|\n"))
      << smi({}).output;
  EXPECT_TRUE(
      smi({"-q"}).output.contains("        Index                                          : 0"));
  EXPECT_EQ(smi({"--query-gpu=utilization.gpu,mig.mode.current", "--format=csv,noheader"}).output,
            "[N/A], Enabled\n");
  EXPECT_EQ(smi({"mig", "-cgi", "0"}).code, 23) << "insufficient resources";
  EXPECT_EQ(smi({"mig", "-dgi", "-gi", "5"}).code, 6) << "not found";
  EXPECT_EQ(smi({"mig", "-dgi"}).code, 19) << "in use";
  EXPECT_EQ(smi({"-mig", "0"}).output, "Disabled MIG Mode for GPU 00000000:01:00.0\nAll done.\n");
  EXPECT_EQ(smi({"-L"}).output.find("MIG"), std::string::npos);
  const Outcome off = smi({"mig", "-lgi"});
  EXPECT_EQ(off.code, 6);
  EXPECT_TRUE(off.errors.starts_with("gpemu: MIG is off for these GPUs")) << off.errors;
  EXPECT_EQ(smi({"--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader"}).output,
            "Disabled, Disabled\n");
  EXPECT_EQ(smi({"-mig", "1"}).output, "Enabled MIG Mode for GPU 00000000:01:00.0\nAll done.\n");
  EXPECT_TRUE(smi({"mig", "-lgi"}).output.contains("No GPU instances found"));
}

}  // namespace
}  // namespace gpemu::tools
