// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/gpu_spec.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

/// A node "n" with an A100, which its file describes.
class MigCommandTest : public testing::Test {
 protected:
  MigCommandTest() {
    made_up_.variables["GPEMU_GPU_FILES"] = kFile;
    GPEMU_CHECK(made_up_.run({"node", "create", "n", "--gpu", kFile, "--sharing", "mig"}).code == 0,
                "it is new");
  }

  [[nodiscard]] Outcome mig(std::vector<std::string> words) const {
    words.insert(words.begin(), {"mig", "n"});
    return made_up_.run(std::move(words));
  }
  /// Creates GPU instances and expects these to be there, in the order of -lgi.
  void expect_placements(const std::string& profiles, const std::vector<std::string>& rows) const {
    EXPECT_EQ(mig({"-cgi", profiles}).code, 0);
    const std::string listed = mig({"-lgi"}).output;
    std::size_t at = 0;
    for (const std::string& row : rows) {
      at = listed.find(row, at);
      EXPECT_NE(at, std::string::npos) << row << "\n" << listed;
      if (at == std::string::npos) return;
    }
  }

  static constexpr const char* kFile = GPEMU_GPUS_FOLDER "/A100-SXM4-40GB.toml";
  TestWorld made_up_;
};

TEST_F(MigCommandTest, ListsProfilesAsNvidiaSmiDoes) {
  const std::string listed = mig({"-lgip"}).output;
  EXPECT_TRUE(listed.starts_with(
      R"(+-------------------------------------------------------------------------------+
| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|
|   0  MIG 1g.5gb          19     7/7        4.75       No     14     0     0   |
|                                                               1     0     0   |
+-------------------------------------------------------------------------------+
|   0  MIG 1g.5gb+me       20     1/1        4.75       No     14     1     0   |
|                                                               1     1     1   |
+-------------------------------------------------------------------------------+
|   0  MIG 1g.10gb         15     4/4        9.62       No     14     1     0   |
|                                                               1     0     0   |
)")) << listed;
  EXPECT_TRUE(listed.ends_with(
      R"(|   0  MIG 7g.40gb          0     1/1        39.25      No     98     5     0   |
|                                                               7     1     1   |
+-------------------------------------------------------------------------------+
)")) << listed;
}

TEST_F(MigCommandTest, ListsPlacementsAsNvidiaSmiDoes) {
  const std::string listed = mig({"-lgipp"}).output;
  EXPECT_TRUE(listed.starts_with("GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1\n"));
  EXPECT_TRUE(listed.contains("GPU  0 Profile ID  9 Placements: {0,4}:4\n"));
  EXPECT_TRUE(listed.contains("GPU  0 Profile ID  5 Placement : {0}:4\n"));
}

TEST_F(MigCommandTest, CreatesAndListsAsNvidiaSmiDoes) {
  EXPECT_EQ(
      mig({"-cgi", "9,3g.20gb", "-C"}).output,
      "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.20gb (ID  9)\n"
      "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG "
      "3g.20gb (ID  2)\n"
      "Successfully created GPU instance ID  1 on GPU  0 using profile MIG 3g.20gb (ID  9)\n"
      "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 using profile MIG "
      "3g.20gb (ID  2)\n");
  EXPECT_EQ(mig({"-lgi"}).output, R"(+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 3g.20gb          9        1          0:4     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        2          4:4     |
+-------------------------------------------------------+
)");
  EXPECT_EQ(mig({"-dci", "-ci", "0", "-gi", "1"}).output,
            "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  1\n");
  EXPECT_EQ(mig({"-cci", "0", "-gi", "1"}).code, 0);
  EXPECT_EQ(mig({"-lci", "-gi", "1"}).output,
            R"(+-------------------------------------------------------+
| Compute instances:                                    |
| GPU     GPU       Name             Profile   Instance |
|       Instance                       ID        ID     |
|         ID                                            |
|=======================================================|
|   0      1       MIG 1c.3g.20gb       0         0     |
+-------------------------------------------------------+
)");
}

TEST_F(MigCommandTest, ListsComputeInstanceProfilesAsNvidiaSmiDoes) {
  ASSERT_EQ(mig({"-cgi", "9:0", "-C"}).code, 0);
  EXPECT_EQ(
      mig({"-lcip", "-gi", "1"}).output,
      R"(+--------------------------------------------------------------------------------------+
| Compute instance profiles:                                                           |
| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |
|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |
|         ID                                                          CE    JPEG       |
|======================================================================================|
|   0      1       MIG 1c.3g.20gb       0      0/3           14        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
|   0      1       MIG 2c.3g.20gb       1      0/1           28        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
|   0      1       MIG 3g.20gb          2*     0/1           42        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
)");
}

// The three sequences of NVIDIA's MIG guide.
TEST_F(MigCommandTest, PlacesOneOfTwoSlicesAndFiveOfOne) {
  expect_placements("14,19,19,19,19,19", {"19        7          0:1", "19        8          1:1",
                                          "19        9          2:1", "19       10          3:1",
                                          "19       13          6:1", "14        5          4:2"});
}

TEST_F(MigCommandTest, PlacesOneOfThreeSlicesFirst) {
  expect_placements("9,19,14,19", {"19        7          0:1", "19        8          1:1",
                                   "14        4          2:2", " 9        2          4:4"});
}

TEST_F(MigCommandTest, HasNoRoomForOneOfThreeSlicesAtLast) {
  const Outcome outcome = mig({"-cgi", "19,19,14,9"});
  EXPECT_EQ(outcome.code, 9);
  EXPECT_TRUE(outcome.output.ends_with(
      "Unable to create a GPU instance on GPU  0 using profile 9: Insufficient Resources\n"
      "Failed to create GPU instances: Insufficient Resources\n"))
      << outcome.output;
}

TEST_F(MigCommandTest, DestroysWhatNoProcessUses) {
  ASSERT_EQ(mig({"-cgi", "9:0", "-C"}).code, 0);
  {
    const auto node = device::Node::open("n", made_up_.world.nodes).value();
    const auto profiles = profile::load_gpu_spec(kFile).value().mig_profiles;
    const device::MigDevice mig_device =
        node->mig(0).layout(profiles).devices(0, node->device_snapshot(0, {}).uuid).front();
    EXPECT_TRUE(mig({"-L"}).output.ends_with(
        fmt::format("\n  MIG 3g.20gb     Device  0: (UUID: {})\n", mig_device.uuid)));
    const auto device = device::Device::open(node, mig_device, made_up_.clock).value();
    EXPECT_EQ(mig({"-dci"}).output,
              "Unable to destroy compute instance ID  0 from GPU  0 GPU instance ID  1: In use by "
              "another client\n"
              "Failed to destroy compute instances: In use by another client\n");
  }
  EXPECT_EQ(mig({"-dgi"}).output,
            "Unable to destroy GPU instance ID  1 from GPU  0: In use by another client\n"
            "Failed to destroy GPU instances: In use by another client\n")
      << "its compute instance is there";
  EXPECT_EQ(mig({"-dci"}).code, 0);
  EXPECT_EQ(mig({"-dgi"}).output, "Successfully destroyed GPU instance ID  1 from GPU  0\n");
  EXPECT_EQ(mig({"-dgi"}), (Outcome{3, "No GPU instances found: Not Found\n", ""}));
  EXPECT_EQ(mig({"-lgi"}).output, "No GPU instances found: Not Found\n");
}

TEST_F(MigCommandTest, CreatesComputeInstancesThatAreAllOfTheirs) {
  ASSERT_EQ(mig({"-cgi", "14"}).code, 0);
  EXPECT_EQ(mig({"-cci", "-gi", "5"}).output,
            "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  5 using "
            "profile MIG 2g.10gb (ID  1)\n");
}

TEST_F(MigCommandTest, SaysWhatIsWrong) {
  EXPECT_EQ(mig({}), (Outcome{2, "",
                              "gpemu: give what to list, or one of -cgi, -dgi, -cci and -dci; see "
                              "`gpemu mig --help`\n"}));
  EXPECT_EQ(mig({"-cgi", "5g.20gb"}),
            (Outcome{2, "",
                     "gpemu: -cgi 5g.20gb: expected the id or the name of a profile of GPU 0 "
                     "(-lgip lists them), and perhaps a placement, as in 9:4\n"}));
  EXPECT_EQ(mig({"-cgi", "9:2"}),
            (Outcome{2, "", "gpemu: 3g.20gb cannot begin at memory slice 2; it can at 0, 4\n"}));
  EXPECT_EQ(mig({"-i", "1", "-lgi"}),
            (Outcome{3, "", "gpemu: -i 1: node 'n' has no such GPU; its GPUs are 0 to 0\n"}));
  EXPECT_TRUE(mig({"-lgipx"}).errors.contains("there is no option '-lgipx'"));
  ASSERT_EQ(made_up_.run({"node", "create", "plain", "--gpu", "T4"}).code, 0);
  EXPECT_EQ(made_up_.run({"mig", "plain", "-lgip"}).code, 10);
  EXPECT_EQ(
      made_up_.run({"node", "create", "t", "--gpu", "T4", "--sharing", "mig"}),
      (Outcome{2, "",
               "gpemu: --sharing mig: MIG cannot divide a T4 (its file has no table mig)\n"}));
}

}  // namespace
}  // namespace gpemu::tools
