// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/known_writes.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/kernels/parameters.hpp"

namespace gpemu::kernels {
namespace {

TEST(KnownWrites, FindKernelsByTheLastPartOfTheirNames) {
  const KernelName softmax = {
      .function =
          "(anonymous namespace)::softmax_warp_forward<float, float, float, 5, true, false>",
      .parameters = {"float*", "float const*", "int", "int", "int", "bool const*", "int", "bool"},
      .is_cpp = true,
      .mangled = {}};
  const auto writes = known_writes(softmax);
  ASSERT_TRUE(writes.has_value());
  ASSERT_EQ(writes->writes.size(), 1U);
  EXPECT_EQ(writes->writes[0].argument, 0U);
  EXPECT_EQ(writes->writes[0].how, Uncomputed::kWritten);
  std::int32_t batches = 3, stride = 10, elements = 10;
  std::array<void*, 5> arguments = {nullptr, nullptr, &batches, &stride, &elements};
  gpemu_cuda_launch launch{};
  launch.arguments = arguments.data();
  EXPECT_EQ(writes->writes[0].count->of(launch), 30U);
}

TEST(KnownWrites, AreNotThoseOfOthersKernelsOfTheSameName) {
  KernelName name = {
      .function = "mine::roll_cuda_kernel<float>",
      .parameters = {"float const*", "float*", "long", "long", "long", "long", "long", "long"},
      .is_cpp = true,
      .mangled = {}};
  EXPECT_FALSE(known_writes(name).has_value());
  name.function = "at::native::roll_cuda_kernel<float>";
  EXPECT_TRUE(known_writes(name).has_value());
  name.parameters.pop_back();
  EXPECT_FALSE(known_writes(name).has_value()) << "another number of parameters";
  name.parameters.emplace_back("long");
  name.parameters[2] = "float*";
  EXPECT_FALSE(known_writes(name).has_value()) << "the size is no integer";
}

TEST(KnownWrites, MayHaveNone) {
  const KernelName check = {.function = "at::native::masked_scatter_size_check",
                            .parameters = {"long const*", "bool const*", "long"},
                            .is_cpp = true,
                            .mangled = {}};
  const auto writes = known_writes(check);
  ASSERT_TRUE(writes.has_value());
  EXPECT_TRUE(writes->writes.empty());
}

TEST(KnownWrites, SayWhatAKernelAssertsOfTensors) {
  const std::string tensor = "at::GenericPackedTensorAccessor<";
  KernelName name = {
      .function = "at::native::nll_loss2d_forward_no_reduce_kernel<float>",
      .parameters = {"long", tensor + "float, 4ul, at::Traits, long>",
                     tensor + "long, 3ul, at::Traits, long>",
                     tensor + "float, 3ul, at::Traits, long>", "float const*", "long"},
      .is_cpp = true,
      .mangled = {}};
  const auto known = known_writes(name);
  ASSERT_TRUE(known.has_value());
  ASSERT_EQ(known->checks.size(), 1U);
  const KnownCheck& check = known->checks[0];
  EXPECT_EQ(check.argument, 2U);
  EXPECT_FALSE(check.count.has_value()) << "the tensor has its sizes";
  EXPECT_EQ(check.size, 1U);
  EXPECT_EQ(check.dimension, 1U);
  EXPECT_EQ(check.ignored, 5U);
  const auto effect = known_parameters(name, {});
  ASSERT_TRUE(effect.has_value());
  EXPECT_EQ(effect->checks.at(0).type, NumberType::kInt64);
  EXPECT_EQ(effect->checks.at(0).tensor.dimensions, 3U);
  name.parameters[1] = "float const*";
  EXPECT_FALSE(known_parameters(name, {}).has_value()) << "it has no dimensions";
}

TEST(KnownWrites, SayWhichSumsOfBlocksAre) {
  KernelName name = {.function =
                         "at::native::(anonymous "
                         "namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, "
                         "16u, 128u, false, true, false>",
                     .parameters = {"long", "long", "float const*", "float const*", "float const*",
                                    "float const*", "float*", "float*"},
                     .is_cpp = true,
                     .mangled = {}};
  std::int64_t rows = 64, columns = 10;
  std::array<void*, 2> arguments = {&rows, &columns};
  gpemu_cuda_launch launch{};
  launch.grid[1] = 4;
  launch.block[1] = 2;
  launch.arguments = arguments.data();
  EXPECT_EQ(known_writes(name)->writes.at(0).count->of(launch), 10U);
  name.function.replace(name.function.find("false"), 5, "true");
  EXPECT_EQ(known_writes(name)->writes.at(0).count->of(launch), 80U);
}

class ElementsOfGridTest : public testing::Test {
 protected:
  ElementsOfGridTest() {
    for (int i = 0; i < 3; ++i) launch_.grid[i] = launch_.block[i] = 1;
  }
  gpemu_cuda_launch launch_{};
};

TEST_F(ElementsOfGridTest, AreAsManyAsTheBlocksAreFor) {
  launch_.block[0] = 256;
  EXPECT_EQ(elements_of_grid({10, 3}, launch_), 10U);
  launch_.grid[0] = 2;
  EXPECT_EQ(elements_of_grid({10, 300}, launch_), 300U);
  EXPECT_EQ(elements_of_grid({10, 30}, launch_), 300U) << "rows and columns";
  EXPECT_EQ(elements_of_grid({10, 3}, launch_), 0U);
  EXPECT_EQ(elements_of_grid({}, launch_), 0U);
}

TEST_F(ElementsOfGridTest, HaveAnIntegerForEachDimension) {
  launch_.block[0] = launch_.block[1] = 16;
  launch_.grid[0] = 3;
  launch_.grid[1] = 2;
  EXPECT_EQ(elements_of_grid({40, 20}, launch_), 800U);
  EXPECT_EQ(elements_of_grid({40, 10}, launch_), 0U);
}

}  // namespace
}  // namespace gpemu::kernels
