// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>

#include <gtest/gtest.h>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/kernels/kernel_traits.hpp"
#include "gpemu/kernels/launch_facts.hpp"

namespace gpemu::cost {
namespace {

using Arithmetic = kernels::LaunchFacts::Arithmetic;

kernels::LaunchFacts facts_of(std::initializer_list<double> extents,
                              std::initializer_list<double> integers,
                              Arithmetic arithmetic = Arithmetic::kOther) {
  kernels::LaunchFacts facts{.arithmetic = arithmetic};
  for (const double extent : extents) facts.extents[facts.pointers++] = extent;
  for (const double integer : integers) facts.integers[facts.integer_count++] = integer;
  return facts;
}

profile::GpuSpec a100() {
  profile::GpuSpec spec;
  spec.multiprocessors = 108;
  spec.boost_clock_mhz = 1410;
  spec.fp32_flops = 19.5e12;
  spec.fp16_tensor_flops = 312e12;
  spec.memory_bandwidth_bytes_per_s = 1555e9;
  return spec;
}

/// Prices a launch of a kernel that is not recognised.
OperationCost price(const kernels::LaunchFacts& facts, std::int64_t blocks, std::int64_t threads,
                    const char* name = "add_kernel") {
  const gpemu_operation launch{.struct_size = sizeof(gpemu_operation),
                               .kind = GPEMU_OPERATION_KERNEL,
                               .shape = {blocks, 1, 1, threads, 1, 1},
                               .name = name};
  return OperationCostModel(a100()).price(
      kernels::describe_kernel(kernels::kernel_traits(launch.name), launch, {.facts = &facts}));
}

// The two launches were recorded of Triton 3.4 on an A100: its tutorials' kernels.
constexpr double kElements = 1 << 26;

TEST(GuessedWork, AnAdditionMovesItsElements) {
  const kernels::LaunchFacts add =
      facts_of({4 * kElements, 4 * kElements, 4 * kElements}, {kElements});
  const kernels::GuessedWork work = kernels::guess_work(add, 65536 * 128);
  EXPECT_EQ(work.bytes, 12 * kElements);
  EXPECT_EQ(work.flops, 0);
  const OperationCost cost = price(add, 65536, 128);
  EXPECT_GE(to_seconds(cost.estimate.time), 12 * kElements / 1555e9);  // By threads: 11 TB/s.
  EXPECT_EQ(cost.estimate.evidence, Evidence::kGuessed);
  EXPECT_EQ(cost.estimate.relative_error, 1);
}

TEST(GuessedWork, AnOnlyTensorIsReadAndWritten) {
  const kernels::LaunchFacts scale = facts_of({4 * kElements}, {kElements});
  EXPECT_EQ(kernels::guess_work(scale, kElements).bytes, 8 * kElements);
}

TEST(GuessedWork, AProductOnTensorCoresStaysBelowTheirPeak) {
  constexpr double kSize = 4096, kMatrix = 2 * kSize * kSize;
  const kernels::LaunchFacts product =
      facts_of({kMatrix, kMatrix, kMatrix}, {kSize, kSize, kSize, kSize, kSize, kSize},
               Arithmetic::kTensorCores);
  const kernels::GuessedWork work = kernels::guess_work(product, 1024 * 128);
  EXPECT_EQ(work.bytes, 3 * kMatrix);
  EXPECT_EQ(work.flops, 2 * kSize * kSize * kSize);
  // By threads: 16,267 TFLOP/s.
  EXPECT_GE(to_seconds(price(product, 1024, 128).estimate.time), work.flops / 312e12);
}

TEST(GuessedWork, TheNameTellsAProductWhereTheCodeCannotBeRead) {
  constexpr double kSize = 4096, kMatrix = 4 * kSize * kSize;
  const auto seconds = [](Arithmetic arithmetic, const char* name) {
    return to_seconds(
        price(facts_of({kMatrix, kMatrix, kMatrix}, {kSize, kSize, kSize}, arithmetic), 1024, 128,
              name)
            .estimate.time);
  };
  constexpr double kLeast = 2 * kSize * kSize * kSize / 19.5e12;
  EXPECT_GE(seconds(Arithmetic::kUnknown, "my_sgemm"), kLeast);
  EXPECT_LT(seconds(Arithmetic::kUnknown, "my_add"), kLeast);
  EXPECT_LT(seconds(Arithmetic::kOther, "my_sgemm"), kLeast);
}

TEST(GuessedWork, SizesOfAProductMustFitItsPointers) {
  // 8192 x 1024 times 1024 x 4096 in FP16, with the strides of the rows.
  const kernels::LaunchFacts product =
      facts_of({2.0 * 8192 * 1024, 2.0 * 1024 * 4096, 2.0 * 8192 * 4096},
               {8192, 4096, 1024, 1024, 4096, 4096}, Arithmetic::kTensorCores);
  EXPECT_EQ(kernels::guess_work(product, 2048 * 128).flops, 2.0 * 8192 * 4096 * 1024);
}

TEST(GuessedWork, RowsTimesColumnsAreElements) {
  const double matrix = 4.0 * 1000 * 3000;
  const kernels::LaunchFacts softmax = facts_of({matrix, matrix}, {3000, 3000, 1000, 3000});
  EXPECT_EQ(kernels::guess_work(softmax, 1000 * 128).bytes, 2 * matrix);
}

TEST(GuessedWork, WithoutSizesEachThreadMovesTheWidestAccess) {
  constexpr double kMany = 1e9;
  EXPECT_EQ(kernels::guess_work(facts_of({kMany, kMany}, {}), 1000).bytes, 2 * 16 * 1000);
  EXPECT_EQ(kernels::guess_work(facts_of({kMany, 4}, {3}), 1000).bytes, 16 * 1000 + 4);
  // More work than a few threads can do does not count, however large the memory is.
  EXPECT_EQ(kernels::guess_work(facts_of({1e12}, {100000, 100000}), 128).bytes, 2 * 400000);
}

TEST(GuessedWork, KnownKernelsHaveNoTensorThatIsLargerThanMemory) {
  constexpr const char* kAdd =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
      "St5arrayIPcLm3EELb0EEEviT0_T1_";
  std::int32_t count = 2'000'000'000;
  void* arguments[] = {&count};
  const gpemu_operation launch{.struct_size = sizeof(gpemu_operation),
                               .kind = GPEMU_OPERATION_KERNEL,
                               .shape = {100, 1, 1, 128, 1, 1},
                               .name = kAdd,
                               .arguments = arguments};
  const kernels::KernelTraits traits = kernels::kernel_traits(kAdd);
  EXPECT_EQ(kernels::describe_kernel(traits, launch, {.memory = 8'000'000'000}).operation.kind,
            GPEMU_OPERATION_ELEMENTWISE);
  const kernels::DescribedOperation refused =
      kernels::describe_kernel(traits, launch, {.memory = 7'999'999'999});
  EXPECT_EQ(refused.operation.kind, GPEMU_OPERATION_KERNEL);
  EXPECT_EQ(OperationCostModel(a100()).price(refused).estimate.evidence, Evidence::kGuessed);
}

}  // namespace
}  // namespace gpemu::cost
