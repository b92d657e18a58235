// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/element_count.hpp"

#include <array>
#include <cstdint>
#include <string_view>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

const KernelName kKernel = {.function = "add<8, float>",
                            .parameters = {"float*", "int", "long", "unsigned int", "float"},
                            .mangled = {}};

class ElementCountTest : public testing::Test {
 protected:
  [[nodiscard]] Bytes count(std::string_view formula) {
    launch_.grid[0] = 7;
    launch_.block[1] = 3;
    launch_.arguments = arguments_.data();
    const auto read = ElementCount::read(formula, kKernel);
    return read ? read->of(launch_) : ~Bytes{0};
  }

  std::int32_t five_ = 5;
  std::int64_t negative_ = -2;
  std::uint32_t ten_ = 10;
  std::array<void*, 5> arguments_ = {nullptr, &five_, &negative_, &ten_, nullptr};
  gpemu_cuda_launch launch_{};
};

TEST_F(ElementCountTest, IsAProductOfSums) {
  EXPECT_EQ(count("1"), 5U);
  EXPECT_EQ(count("gx*1"), 35U);
  EXPECT_EQ(count("by*1+2*#4"), 3U * 3 * 4);
  EXPECT_EQ(count("3*1/#2"), 25U);
  EXPECT_EQ(count("t0*1"), 40U);
}

TEST_F(ElementCountTest, IsZeroIfAFactorIsNegative) {
  EXPECT_EQ(count("1*2"), 0U);
}

TEST_F(ElementCountTest, RefusesArgumentsThatAreNoIntegers) {
  for (const char* const wrong : {"", "0", "4", "5", "1*", "gw", "t2", "1++3", "x"}) {
    EXPECT_EQ(count(wrong), ~Bytes{0}) << wrong;
  }
}

}  // namespace
}  // namespace gpemu::kernels
