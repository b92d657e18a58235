// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/launch_facts.hpp"

#include <cstdint>
#include <initializer_list>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

using kernels::ParameterKind;
using Arithmetic = kernels::LaunchFacts::Arithmetic;

std::vector<kernels::ParameterPlace> places_of(std::initializer_list<std::uint32_t> sizes) {
  std::vector<kernels::ParameterPlace> places;
  for (const std::uint32_t bytes : sizes) places.push_back({.offset = 0, .bytes = bytes});
  return places;
}

class LaunchFactsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
};

TEST_F(LaunchFactsTest, ParametersComeFromTheNameOrTheCode) {
  EXPECT_EQ(launch::launch_parameters("_Z3addPKfPfi", {}),
            (std::vector<launch::LaunchParameter>{{.kind = ParameterKind::kConstPointer},
                                                  {.kind = ParameterKind::kPointer},
                                                  {.kind = ParameterKind::kInteger32}}));
  EXPECT_EQ(
      launch::launch_parameters("_Z3addPKf4Args", places_of({8, 48})),
      (std::vector<launch::LaunchParameter>{{.kind = ParameterKind::kConstPointer, .bytes = 8},
                                            {.kind = ParameterKind::kOther, .bytes = 48}}));
  EXPECT_EQ(launch::launch_parameters("add_kernel", places_of({8, 4, 1})),
            (std::vector<launch::LaunchParameter>{{.kind = ParameterKind::kPointer, .bytes = 8},
                                                  {.kind = ParameterKind::kInteger32, .bytes = 4},
                                                  {.kind = ParameterKind::kOther, .bytes = 1}}));
  EXPECT_TRUE(launch::launch_parameters("add_kernel", {}).empty());
  // Numba's names have Python's arguments, its code the kernel's parameters.
  EXPECT_EQ(
      launch::launch_parameters("_Z3add5ArrayIfLi1EE", places_of({8, 4})),
      (std::vector<launch::LaunchParameter>{{.kind = ParameterKind::kPointer, .bytes = 8},
                                            {.kind = ParameterKind::kInteger32, .bytes = 4}}));
}

TEST_F(LaunchFactsTest, PointersAreThoseToMemory) {
  std::uint64_t first = 0, second = 0, null = 0, count = 1000, host = 0x7f00'1234'5678;
  ASSERT_EQ(gpemu_cuda_malloc(1 << 20, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_malloc(1 << 21, &second), GPEMU_CUDA_SUCCESS);
  std::uint64_t inside = second + 512;
  std::uint32_t rows = 7, one = 1;
  float scale = 0.5F;
  void* arguments[] = {&first, &inside, &first, &null, &count, &host, &rows, &one, &scale};
  const auto parameters =
      launch::launch_parameters("kernel", places_of({8, 8, 8, 8, 8, 8, 4, 4, 4}));
  const kernels::LaunchFacts facts =
      launch::launch_facts(parameters, arguments, Arithmetic::kTensorCores);
  ASSERT_EQ(facts.pointers, 2);  // The third is the first once more.
  EXPECT_EQ(facts.extents[0], 1 << 20);
  EXPECT_EQ(facts.extents[1], (1 << 21) - 512);
  ASSERT_EQ(facts.integer_count, 2);
  EXPECT_EQ(facts.integers[0], 1000);
  EXPECT_EQ(facts.integers[1], 7);
  EXPECT_EQ(facts.arithmetic, Arithmetic::kTensorCores);
  EXPECT_EQ(launch::launch_facts(parameters, nullptr, Arithmetic::kOther).pointers, 0);
  EXPECT_EQ(gpemu_cuda_free(first), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
}

TEST_F(LaunchFactsTest, StructsAreLookedInto) {
  struct Args {
    std::uint32_t rows = 1000, columns = 512;
    std::uint64_t data = 0;
    float scale = 0.5F;
    std::uint32_t depth = 64;
    std::uint64_t count = 512'000;
  } args;
  ASSERT_EQ(gpemu_cuda_malloc(1 << 20, &args.data), GPEMU_CUDA_SUCCESS);
  void* arguments[] = {&args};
  const auto facts_of_size = [&](std::uint32_t bytes) {
    return launch::launch_facts({{.kind = ParameterKind::kOther, .bytes = bytes}}, arguments,
                                Arithmetic::kOther);
  };
  const kernels::LaunchFacts facts = facts_of_size(sizeof(args));
  ASSERT_EQ(facts.pointers, 1);
  EXPECT_EQ(facts.extents[0], 1 << 20);
  ASSERT_EQ(facts.integer_count, 4);
  EXPECT_EQ(facts.integers[0], 1000);
  EXPECT_EQ(facts.integers[1], 512);
  EXPECT_EQ(facts.integers[2], 64);
  EXPECT_EQ(facts.integers[3], 512'000);
  EXPECT_EQ(facts_of_size(0).pointers, 0);
  EXPECT_EQ(facts_of_size(12).pointers, 0);  // The pointer is not whole.
  EXPECT_EQ(gpemu_cuda_free(args.data), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
