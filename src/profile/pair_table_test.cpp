// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/pair_table.hpp"

#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::profile {
namespace {

class PairTableTest : public testing::Test {
 protected:
  ~PairTableTest() override { std::filesystem::remove(file_); }

  Result<std::vector<MeasuredPair>> read(const std::string& text) {
    EXPECT_TRUE(write_file_atomically(file_, text));
    return read_pairs(file_);
  }
  /// Returns the message of the fault of a table with this row, without the file's name.
  std::string fault(const std::string& row) {
    const auto pairs = read(header_ + row + "\n");
    return pairs ? "none" : pairs.error().message.substr(file_.string().size() + 1);
  }

  const std::filesystem::path file_ = std::filesystem::path(testing::TempDir()) /
                                      ("gpemu_pairs_" + std::to_string(::getpid()) + ".csv");
  const std::string header_ = "gpu,model_a,batch_a,speed_a,model_b,batch_b,speed_b\n";
};

TEST_F(PairTableTest, HasColumnsInAnyOrder) {
  const auto pairs = read(
      "speed_b,gpu,source,model_a,batch_a,precision_a,speed_a,model_b,batch_b,util_a,memutil_a\n"
      "0.5,RTX 3090,us,VGG,32,amp,1.25,A3C,,90.5,40\n"
      ",RTX 3090,us,VGG,64,amp,,A3C,,90.5,40\n");
  ASSERT_TRUE(pairs) << pairs.error().message;
  ASSERT_EQ(pairs->size(), 1) << "the other pair did not run together";
  const MeasuredPair& pair = pairs->front();
  EXPECT_EQ(pair.gpu, "RTX 3090");
  EXPECT_EQ(pair.jobs[0].model, "VGG");
  EXPECT_EQ(pair.jobs[0].batch, 32);
  EXPECT_EQ(pair.jobs[0].precision, "amp");
  EXPECT_DOUBLE_EQ(pair.jobs[0].utilization.value(), 0.905);
  EXPECT_DOUBLE_EQ(pair.jobs[0].memory_utilization.value(), 0.4);
  EXPECT_EQ(pair.jobs[1].batch, 0);
  EXPECT_EQ(pair.jobs[1].precision, "fp32");
  EXPECT_FALSE(pair.jobs[1].utilization);
  EXPECT_EQ(pair.speeds, (std::array<double, 2>{1.25, 0.5}));
}

TEST_F(PairTableTest, NamesTheLineOfAFault) {
  EXPECT_EQ(fault("K80,VGG,32,0.5,LM,20,0.5"), "none");
  EXPECT_EQ(fault("K80,VGG,32,0,LM,20,0.5"), "2: a speed above 0 was expected");
  EXPECT_EQ(fault("K80,VGG,32,0.5,LM,20,101"), "2: 101 is not from 0 to 100");
  EXPECT_EQ(fault("K80,,32,0.5,LM,20,0.5"), "2: a name of 1 to 100 characters was expected");
  EXPECT_TRUE(fault("K80,VGG,0,0.5,LM,20,0.5").starts_with("2: batch_a is \"0\""));
  EXPECT_TRUE(fault("K80,VGG,32,0.5,LM,20,").starts_with("2: speed_b is \"\""));
  EXPECT_TRUE(fault("K80,VGG").starts_with("2: 2 fields"));
}

TEST_F(PairTableTest, MayHaveTheLineEndsOfSpreadsheets) {
  const auto pairs = read(
      "gpu,model_a,batch_a,speed_a,model_b,batch_b,speed_b\r\n"
      "K80,VGG,32,0.5,LM,20,0.25\r\n");
  ASSERT_TRUE(pairs) << pairs.error().message;
  ASSERT_EQ(pairs->size(), 1U);
  EXPECT_EQ(pairs->front().speeds, (std::array<double, 2>{0.5, 0.25}));
}

TEST_F(PairTableTest, NamesAColumnThatIsMissing) {
  const auto pairs = read("gpu,model_a\nK80,VGG\n");
  ASSERT_FALSE(pairs);
  EXPECT_TRUE(pairs.error().message.contains(":1: there is no column batch_a; ")) << "the first";
  EXPECT_FALSE(read(""));
  EXPECT_EQ(read_pairs("/none.csv").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::profile
