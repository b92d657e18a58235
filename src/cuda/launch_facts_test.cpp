// SPDX-License-Identifier: Apache-2.0
#include "launch_facts.hpp"

#include <cstdint>
#include <initializer_list>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

using cost::ParameterKind;
using Arithmetic = cost::LaunchFacts::Arithmetic;

KernelCode code_of(std::initializer_list<std::uint32_t> sizes) {
  KernelCode code;
  for (const std::uint32_t bytes : sizes) code.parameters.push_back({.offset = 0, .bytes = bytes});
  return code;
}

class LaunchFactsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
};

TEST_F(LaunchFactsTest, KindsComeFromTheNameOrTheCode) {
  EXPECT_EQ(parameter_kinds("_Z3addPKfPfi", nullptr),
            (std::vector{ParameterKind::kConstPointer, ParameterKind::kPointer,
                         ParameterKind::kInteger32}));
  const KernelCode code = code_of({8, 8, 4, 1});
  EXPECT_EQ(parameter_kinds("add_kernel", &code),
            (std::vector{ParameterKind::kPointer, ParameterKind::kPointer,
                         ParameterKind::kInteger32, ParameterKind::kOther}));
  EXPECT_TRUE(parameter_kinds("add_kernel", nullptr).empty());
}

TEST_F(LaunchFactsTest, PointersAreThoseToMemory) {
  std::uint64_t first = 0, second = 0, null = 0, count = 1000, host = 0x7f00'1234'5678;
  ASSERT_EQ(gpemu_cuda_malloc(1 << 20, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_malloc(1 << 21, &second), GPEMU_CUDA_SUCCESS);
  std::uint64_t inside = second + 512;
  std::uint32_t rows = 7, one = 1;
  float scale = 0.5F;
  void* arguments[] = {&first, &inside, &first, &null, &count, &host, &rows, &one, &scale};
  const KernelCode code = code_of({8, 8, 8, 8, 8, 8, 4, 4, 4});
  const cost::LaunchFacts facts =
      launch_facts(parameter_kinds("kernel", &code), arguments, Arithmetic::kTensorCores);
  ASSERT_EQ(facts.pointers, 2);  // The third is the first once more.
  EXPECT_EQ(facts.extents[0], 1 << 20);
  EXPECT_EQ(facts.extents[1], (1 << 21) - 512);
  ASSERT_EQ(facts.integer_count, 2);
  EXPECT_EQ(facts.integers[0], 1000);
  EXPECT_EQ(facts.integers[1], 7);
  EXPECT_EQ(facts.arithmetic, Arithmetic::kTensorCores);
  EXPECT_EQ(launch_facts(parameter_kinds("kernel", &code), nullptr, Arithmetic::kOther).pointers,
            0);
  EXPECT_EQ(gpemu_cuda_free(first), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_free(second), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
