// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/operation_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>

#include <gtest/gtest.h>

#include "gpemu/kernels/kernel_traits.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {
namespace {

/// Round numbers: 10 TFLOP/s, 80 on tensor cores, 1 TB/s.
profile::GpuSpec toy_spec() {
  profile::GpuSpec spec;
  spec.generation = profile::generation_facts(7, 0).value();
  spec.multiprocessors = 100;
  spec.boost_clock_mhz = 1500;
  spec.fp32_flops = 10e12;
  spec.fp16_tensor_flops = 80e12;
  spec.memory_bandwidth_bytes_per_s = 1e12;
  return spec;
}

gpemu_operation operation_of(gpemu_operation_kind kind, std::initializer_list<std::int64_t> shape,
                             gpemu_data_type type = GPEMU_TYPE_FP32) {
  gpemu_operation operation{.struct_size = sizeof(gpemu_operation),
                            .kind = kind,
                            .type = type,
                            .compute_type = GPEMU_TYPE_UNKNOWN,
                            .channels_last = 0,
                            .shape = {},
                            .name = "",
                            .arguments = nullptr};
  std::copy(shape.begin(), shape.end(), operation.shape);
  return operation;
}

Duration time_of(const gpemu_operation& operation) {
  return OperationCostModel(toy_spec()).price(operation).estimate.time;
}

Limit limit_of(const gpemu_operation& operation) {
  return OperationCostModel(toy_spec()).limit({.operation = operation});
}

TEST(OperationCostModel, NothingIsFree) {
  for (int kind = GPEMU_OPERATION_KERNEL; kind <= GPEMU_OPERATION_WAIT; ++kind) {
    const gpemu_operation operation = operation_of(static_cast<gpemu_operation_kind>(kind), {});
    const OperationCost cost = OperationCostModel(toy_spec()).price(operation);
    EXPECT_GE(cost.estimate.time, std::chrono::microseconds(2)) << kind;
    EXPECT_LE(cost.estimate.time, std::chrono::microseconds(20)) << kind;
    EXPECT_EQ(limit_of(operation), Limit::kLatency) << kind;
    const Evidence evidence =
        kind == GPEMU_OPERATION_KERNEL ? Evidence::kGuessed : Evidence::kAnalytic;
    EXPECT_EQ(cost.estimate.evidence, evidence) << kind;
    EXPECT_GT(cost.estimate.relative_error, 0) << kind;
  }
}

TEST(OperationCostModel, NonsenseShapesStayWithinAnHour) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (int kind = GPEMU_OPERATION_KERNEL; kind <= GPEMU_OPERATION_WAIT; ++kind) {
    for (const std::int64_t size : {kMost, std::int64_t{-1}, -kMost}) {
      gpemu_operation operation = operation_of(static_cast<gpemu_operation_kind>(kind), {});
      std::ranges::fill(operation.shape, size);
      EXPECT_GT(time_of(operation), Duration(0)) << kind << ' ' << size;
      EXPECT_LE(time_of(operation), std::chrono::hours(2)) << kind << ' ' << size;
    }
  }
}

TEST(OperationCostModel, LargeProductsAreBoundByArithmetic) {
  const gpemu_operation operation = operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192});
  const OperationCost cost = OperationCostModel(toy_spec()).price(operation);
  EXPECT_EQ(cost.operation_class, kernels::OperationClass::kMatmul);
  EXPECT_EQ(limit_of(operation), Limit::kCompute);
  // 1.1 TFLOP: 110 ms at the peak, which no product reaches.
  EXPECT_GT(cost.estimate.time, std::chrono::milliseconds(110));
  EXPECT_LT(cost.estimate.time, std::chrono::milliseconds(220));
}

TEST(OperationCostModel, ProductsWithVectorsAreBoundByMemory) {
  EXPECT_EQ(limit_of(operation_of(GPEMU_OPERATION_MATMUL, {1, 65536, 1, 65536})), Limit::kMemory);
}

TEST(OperationCostModel, OnlyTimeForMemoryDoesNotFollowTheClock) {
  const auto share = [](const gpemu_operation& operation) {
    return OperationCostModel(toy_spec()).price(operation).memory_share;
  };
  EXPECT_LT(share(operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192})), 0.05);
  const gpemu_operation copy = operation_of(GPEMU_OPERATION_COPY_ON_DEVICE, {1'000'000'000});
  EXPECT_GT(share(copy), 0.5);
  EXPECT_LE(share(copy), 1);
  EXPECT_LT(share(operation_of(GPEMU_OPERATION_COPY_ON_DEVICE, {1})), 0.01) << "it is latency";
}

TEST(OperationCostModel, OneMoreTileTakesAnotherWave) {
  // 100 tiles of 128 x 128 fill the multiprocessors once.
  const Duration full = time_of(operation_of(GPEMU_OPERATION_MATMUL, {1, 1280, 1280, 4096}));
  const Duration more = time_of(operation_of(GPEMU_OPERATION_MATMUL, {1, 1281, 1280, 4096}));
  EXPECT_GT(to_seconds(more), 1.2 * to_seconds(full));
}

TEST(OperationCostModel, TensorCoresServeTheTypesTheyHave) {
  const std::initializer_list<std::int64_t> shape = {1, 8192, 8192, 8192};
  const double fp32 = to_seconds(time_of(operation_of(GPEMU_OPERATION_MATMUL, shape)));
  const double fp16 =
      to_seconds(time_of(operation_of(GPEMU_OPERATION_MATMUL, shape, GPEMU_TYPE_FP16)));
  const double bf16 =
      to_seconds(time_of(operation_of(GPEMU_OPERATION_MATMUL, shape, GPEMU_TYPE_BF16)));
  EXPECT_NEAR(fp32 / fp16, 8, 0.3);
  EXPECT_NEAR(fp32 / bf16, 1, 0.1);  // The toy has none for BF16.
}

TEST(OperationCostModel, OlderGpusDoNotHaveTheGroupsOfHopper) {
  profile::GpuSpec spec = toy_spec();
  spec.fp16_tensor_flops = 100e12;
  spec.name = "X-1";
  spec.generation = profile::generation_facts(8, 0).value();
  spec.calibration = profile::Calibration{.gpu = "Y-1", .tensor_cores = true};
  std::ranges::transform(profile::kOperationParameters, spec.calibration->parameters.begin(),
                         &profile::Parameter::typical);
  gpemu_operation groups = operation_of(
      GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA,
      {64, 192, 192, 4, 2, 56, 56, 1, 3, 3, 1, 56, 56, 1, 1, 1, 1, 1, 1, 1}, GPEMU_TYPE_FP16);
  groups.channels_last = 1;
  const auto seconds = [&] {
    return to_seconds(OperationCostModel(spec).price(groups).estimate.time);
  };
  spec.calibration->generation = spec.generation;
  const double typical = seconds();
  spec.calibration->parameters[profile::kGroupedLastData] *= 10;
  EXPECT_LT(seconds(), typical / 2);
  spec.calibration->generation = profile::generation_facts(9, 0).value();
  EXPECT_DOUBLE_EQ(seconds(), typical) << "theirs have tensor cores";
}

TEST(OperationCostModel, ProductsInFp64UseTensorCores) {
  const gpemu_operation product =
      operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192}, GPEMU_TYPE_FP64);
  profile::GpuSpec spec = toy_spec();
  spec.fp64_flops = 1e12;
  const double without = to_seconds(OperationCostModel(spec).price(product).estimate.time);
  spec.fp64_tensor_flops = 2e12;
  const double with = to_seconds(OperationCostModel(spec).price(product).estimate.time);
  EXPECT_NEAR(without / with, 2, 0.05);
}

TEST(OperationCostModel, CopiesReadAndWrite) {
  const double copy = to_seconds(time_of(operation_of(GPEMU_OPERATION_COPY_ON_DEVICE, {1 << 30})));
  const double set = to_seconds(time_of(operation_of(GPEMU_OPERATION_SET, {1 << 30})));
  EXPECT_GT(copy, 2 * 1.07e-3);
  EXPECT_NEAR(copy / set, 2, 0.01);
}

TEST(OperationCostModel, WinogradServesFiltersOfThreeAndFiveInFp32) {
  const auto convolution = [](std::int64_t filter, std::int64_t groups) {
    return to_seconds(time_of(operation_of(
        GPEMU_OPERATION_CONVOLUTION_FORWARD,
        {32, 256, 256, groups, 2, 56, 56, 1, filter, filter, 1, 56, 56, 1, 1, 1, 1, 1, 1, 1})));
  };
  EXPECT_LT(convolution(3, 1), 5 * convolution(1, 1));
  EXPECT_LT(convolution(5, 1), 10 * convolution(1, 1));
  EXPECT_GT(convolution(7, 1), 40 * convolution(1, 1));
  // A depthwise convolution does 1/256 of the work, but not in 1/256 of the time.
  EXPECT_LT(convolution(3, 256), convolution(3, 1));
  EXPECT_GT(convolution(3, 256), convolution(3, 1) / 50);
}

gpemu_operation launch(const char* name, std::int64_t blocks, std::int64_t threads,
                       void* const* arguments) {
  gpemu_operation operation =
      operation_of(GPEMU_OPERATION_KERNEL, {blocks, 1, 1, threads, 1, 1, 0});
  operation.name = name;
  operation.arguments = arguments;
  return operation;
}

TEST(OperationCostModel, ElementWiseKernelsCostTheirBytes) {
  int count = 100'000'000;
  void* arguments[] = {&count};
  const gpemu_operation add = launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
      "St5arrayIPcLm3EELb0EEEviT0_T1_",
      195313, 128, arguments);
  // 1.2 GB at 80 % of 1 TB/s.
  EXPECT_NEAR(to_milliseconds(time_of(add)), 1.5, 0.01);
}

TEST(OperationCostModel, ReductionsCostTheirInputs) {
  // Two floats of members, then the configuration: element size, inputs, outputs, steps, blocks
  // per output, five factors, block width and height, threads.
  std::array<std::int32_t, 64> reduction{};
  constexpr std::array<std::int32_t, 14> kConfig = {4, 10000, 5000, 1, 1,  1, 0,
                                                    0, 0,     0,    0, 32, 4, 128};
  std::ranges::copy(kConfig, reduction.begin() + 2);
  void* arguments[] = {reduction.data()};
  const char* name = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_";
  gpemu_operation sum = launch(name, 1250, 32, arguments);
  sum.shape[4] = 4;
  // 50 million floats: 200 MB at 70 % of 1 TB/s, and 8 us.
  EXPECT_NEAR(to_milliseconds(time_of(sum)), 0.2937, 0.001);
  // A configuration that is not this launch's is ignored.
  sum.shape[4] = 8;
  EXPECT_LT(to_milliseconds(time_of(sum)), 0.01);
}

/// The first argument of PyTorch's kernel over lists of tensors, here of two lists.
struct TwoLists {
  const void* addresses[2][64];
  std::int64_t sizes[64];
  unsigned char block_tensors[320];
  std::int32_t block_chunks[320];
};

TEST(OperationCostModel, ListsOfTensorsCostTheirElements) {
  auto lists = std::make_unique<TwoLists>();
  // The first tensor has 300 chunks left of 1300; 19 small ones follow, and one that goes on.
  lists->sizes[0] = std::int64_t{1300} * 65536;
  for (int i = 0; i < 300; ++i) lists->block_chunks[i] = 1000 + i;
  for (int i = 1; i < 20; ++i) {
    lists->sizes[i] = 64;
    lists->block_tensors[299 + i] = static_cast<unsigned char>(i);
  }
  lists->sizes[20] = std::int64_t{50} * 65536;
  lists->block_tensors[319] = 20;
  void* arguments[] = {lists.get()};
  const char* name =
      "_ZN2at6native55_GLOBAL__N__f86471ef_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_apply_"
      "kernelINS1_18TensorListMetadataILi2EEENS1_24BinaryOpListAlphaFunctorIfLi2ELi2ELi0EEE"
      "JSt4plusIfEfEEEvT_T0_DpT1_";
  const auto cost = [&](std::int64_t blocks) {
    return 1e3 * to_milliseconds(time_of(launch(name, blocks, 512, arguments))) - 3;
  };
  const double chunk_us = 3.0 * 65536 * 4 / 0.8e12 * 1e6;
  EXPECT_NEAR(cost(320), (301 + 19 * 64 / 65536.0) * chunk_us, 0.1);
  EXPECT_NEAR(cost(319), (300 + 19 * 64 / 65536.0) * chunk_us, 0.1);
  const auto tensors = [&](std::int64_t blocks) {
    const gpemu_operation called = launch(name, blocks, 512, arguments);
    return kernels::describe_kernel(kernels::kernel_traits(name), called)
        .operation.shape[kernels::kListedTensors];
  };
  EXPECT_EQ(tensors(320), 20) << "the next launch finishes the last one";
  EXPECT_EQ(tensors(319), 20);
  EXPECT_EQ(tensors(318), 19);
  // Impossible lists count as full chunks.
  lists->sizes[5] = std::int64_t{1} << 40;
  EXPECT_NEAR(cost(320), 320 * chunk_us, 0.1);
  EXPECT_EQ(tensors(320), 0) << "not known";
}

/// The first argument of PyTorch's fused optimizers, here of four lists.
struct FusedLists {
  const void* addresses[4][36];
  std::int64_t sizes[36];
  const void* steps[36];
  unsigned char block_tensors[320];
  std::int32_t block_chunks[320];
};

TEST(OperationCostModel, FusedOptimizersCostTheirElements) {
  auto lists = std::make_unique<FusedLists>();
  for (int i = 0; i < 30; ++i) {
    lists->sizes[i] = 1024;
    lists->steps[i] = lists.get();
    lists->block_tensors[i] = static_cast<unsigned char>(i);
  }
  void* arguments[] = {lists.get()};
  const gpemu_operation adam = launch(
      "_ZN2at6native51_GLOBAL__N__b7f847be_18_fused_adam_impl_cu_454205f325multi_tensor_apply_"
      "kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_"
      "9ADAM_MODEE0ELb0EEEJPKfdddddbS9_S9_EEEvT_T0_DpT1_",
      30, 512, arguments);
  const double us = 7.0 * 30 * 1024 * 4 / 0.8e12 * 1e6;  // Four lists read, three written.
  EXPECT_NEAR(1e3 * to_milliseconds(time_of(adam)) - 3, us, 0.1);
}

TEST(OperationCostModel, SleepingKernelsTakeTheirCycles) {
  std::int64_t cycles = 15'000'000'000;  // Beyond 32 bits.
  void* arguments[] = {&cycles};
  const gpemu_operation sleep = launch(
      "_ZN2at4cuda40_GLOBAL__N__b51f33dc_8_Sleep_cu_088d913f11spin_kernelEl", 1, 1, arguments);
  EXPECT_NEAR(to_milliseconds(time_of(sleep)), 10'000, 0.01);
  EXPECT_LT(to_milliseconds(time_of(launch(sleep.name, 1, 1, nullptr))), 0.01);
}

TEST(OperationCostModel, AttentionBackwardsReadsItsSizes) {
  // From byte 144 on: sizes of heads of queries and of values, queries, keys, and heads.
  std::array<std::int32_t, 64> params{};
  constexpr std::array<std::int32_t, 5> kSizes = {64, 64, 2048, 2048, 8};
  std::ranges::copy(kSizes, params.begin() + 36);
  void* arguments[] = {params.data()};
  gpemu_operation backward = launch("fmha_cutlassB_f16_aligned_64x64_k64_sm70", 1, 32, arguments);
  backward.shape[1] = 8;
  backward.shape[2] = 4;
  // Only PyTorch's own kernel's argument is read.
  EXPECT_LT(to_milliseconds(time_of(backward)), 0.1);
  backward.name = "_Z40fmha_cutlassB_f16_aligned_64x64_k64_sm70N22PyTorchMemEffAttention6ParamsE";
  // 86 GFLOP at no more than 80 TFLOP/s.
  EXPECT_GT(to_milliseconds(time_of(backward)), 10 * 4 * 8 * 2048.0 * 2048 * 64 / 80e9);
}

TEST(OperationCostModel, UnknownKernelsCostTheirThreads) {
  const OperationCost cost =
      OperationCostModel(toy_spec()).price(launch("_Z3addPfS_S_", 1 << 20, 256, nullptr));
  EXPECT_EQ(cost.operation_class, kernels::OperationClass::kOther);
  EXPECT_GT(cost.estimate.time, std::chrono::milliseconds(1));
  EXPECT_EQ(cost.estimate.relative_error, 1.0);
}

/// The toy's parameters as if they had been fitted on a GPU, without tensor cores or with.
profile::Calibration calibration(const char* gpu, bool tensor_cores) {
  profile::Calibration made{.gpu = gpu, .tensor_cores = tensor_cores};
  std::ranges::transform(profile::kOperationParameters, made.parameters.begin(),
                         &profile::Parameter::typical);
  return made;
}

Evidence evidence_of(const profile::GpuSpec& spec, const gpemu_operation& operation) {
  const OperationCost cost = OperationCostModel(spec).price(operation);
  EXPECT_GT(cost.estimate.relative_error, 0);
  return cost.estimate.evidence;
}

TEST(OperationCostModel, EvidenceIsThatOfTheGpuAndItsArithmetic) {
  const auto product = [](gpemu_data_type type) {
    return operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024}, type);
  };
  const gpemu_operation set = operation_of(GPEMU_OPERATION_SET, {1 << 20});
  const gpemu_operation attention =
      operation_of(GPEMU_OPERATION_ATTENTION_FORWARD, {8, 8, 8, 128, 128, 64});
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.calibration = calibration("X-1", false);
  EXPECT_EQ(evidence_of(spec, product(GPEMU_TYPE_FP32)), Evidence::kCalibrated);
  EXPECT_EQ(evidence_of(spec, set), Evidence::kCalibrated);
  EXPECT_EQ(evidence_of(spec, attention), Evidence::kAnalytic) << "no measured step has any";
  EXPECT_EQ(evidence_of(spec, product(GPEMU_TYPE_FP64)), Evidence::kTransferred);
  EXPECT_EQ(evidence_of(spec, product(GPEMU_TYPE_FP16)), Evidence::kAnalytic)
      << "nobody knows its tensor cores";
  spec.other_arithmetic = calibration("Y-1", true);
  EXPECT_EQ(evidence_of(spec, product(GPEMU_TYPE_FP16)), Evidence::kTransferred);
  spec.calibration->gpu = "Z-1";
  EXPECT_EQ(evidence_of(spec, product(GPEMU_TYPE_FP32)), Evidence::kTransferred);
  EXPECT_EQ(evidence_of(spec, set), Evidence::kTransferred);
  const auto error = [&](const profile::GpuSpec& gpu) {
    return OperationCostModel(gpu).price(set).estimate.relative_error;
  };
  EXPECT_LT(error(spec), error(toy_spec()));
}

TEST(OperationCostModel, WithTheSameMultiprocessorsSomeRatesGrowWithTheRootOfTheBandwidth) {
  constexpr std::int64_t kElements = std::int64_t{1} << 28;
  const gpemu_operation sums =
      operation_of(GPEMU_OPERATION_REDUCTION, {kElements, kElements / 1024});
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.calibration = calibration("X-1", false);
  spec.calibration->compute_capability = profile::compute_capability(spec);
  spec.calibration->bytes_per_clock = profile::bytes_per_clock(spec);
  spec.calibration->parameters[profile::kReduction] = 0.5;
  const auto seconds = [&] {
    return to_seconds(OperationCostModel(spec).price(sums).estimate.time);
  };
  const double own = seconds();
  spec.name = "X-2";
  EXPECT_DOUBLE_EQ(seconds(), own) << "the same but for its name";
  spec.memory_bandwidth_bytes_per_s *= 4;
  EXPECT_NEAR(seconds() / own, 1.0 / 2, 0.01);
  spec.compute_capability_minor += 1;
  EXPECT_NEAR(seconds() / own, 1.0 / 4, 0.01) << "other multiprocessors";
}

TEST(OperationCostModel, ProductsInFp32HaveABarOfTheirOwnOnOtherGpus) {
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  const auto bar = [&spec](gpemu_data_type type) {
    const gpemu_operation product =
        operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024}, type);
    return OperationCostModel(spec).price(product).estimate.relative_error;
  };
  spec.calibration = calibration("Y-1", false);
  spec.calibration->bars = profile::CalibrationBars{.unseen_model = 0.3, .other_gpu = 0.4};
  EXPECT_LT(bar(GPEMU_TYPE_FP32), 0.3) << "that of language models and linear layers";
  const auto in_training = [&spec](gpemu_data_type type) {
    const gpemu_operation product =
        operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024}, type);
    return OperationCostModel(spec).price(product).training_error;
  };
  EXPECT_GT(in_training(GPEMU_TYPE_FP32), 1.5 * bar(GPEMU_TYPE_FP32));
  EXPECT_DOUBLE_EQ(in_training(GPEMU_TYPE_FP64), bar(GPEMU_TYPE_FP64));
  EXPECT_DOUBLE_EQ(bar(GPEMU_TYPE_FP64), 0.5) << "which were not measured";
  spec.calibration->gpu = "X-1";
  EXPECT_DOUBLE_EQ(bar(GPEMU_TYPE_FP32), 0.3) << "its own";
  EXPECT_DOUBLE_EQ(in_training(GPEMU_TYPE_FP32), 0.3);
}

TEST(OperationCostModel, AnArithmeticWithTooFewStepsHasTheBarOfOtherGpus) {
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.calibration = calibration("X-1", true);
  spec.calibration->half = true;
  spec.calibration->tf32 = spec.calibration->fp32 = spec.calibration->parameters;
  spec.calibration->bars =
      profile::CalibrationBars{.unseen_model = 0.3, .other_gpu = 0.4, .fp32 = 0.07};
  const auto bar = [&spec](gpemu_data_type type) {
    const gpemu_operation product =
        operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024}, type);
    return OperationCostModel(spec).price(product).estimate.relative_error;
  };
  EXPECT_DOUBLE_EQ(bar(GPEMU_TYPE_FP16), 0.3);
  EXPECT_DOUBLE_EQ(bar(GPEMU_TYPE_FP32), 0.07);
  EXPECT_GT(bar(GPEMU_TYPE_FP64), 0.4) << "which was not measured";
  spec.calibration->bars->fp32.reset();
  const double of_others = bar(GPEMU_TYPE_FP32);
  EXPECT_GT(of_others, 0.07);
  // Another GPU with these parameters knows no more.
  spec.calibration->gpu = "Y-1";
  EXPECT_DOUBLE_EQ(bar(GPEMU_TYPE_FP32), of_others);
  spec.calibration->bars->fp32 = 0.37;
  EXPECT_GE(bar(GPEMU_TYPE_FP32), 0.37);
}

TEST(OperationCostModel, StepsIn16BitsSayLittleOfTf32) {
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.tf32_tensor_flops = spec.fp32_flops * 8;
  spec.calibration = calibration("X-1", true);
  spec.calibration->half = true;
  spec.calibration->bars = profile::CalibrationBars{.unseen_model = 0.3, .other_gpu = 0.4};
  const auto price = [&spec](gpemu_data_type type) {
    return OperationCostModel(spec)
        .price(operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024}, type))
        .estimate;
  };
  EXPECT_EQ(price(GPEMU_TYPE_FP16).evidence, Evidence::kPublished);
  EXPECT_DOUBLE_EQ(price(GPEMU_TYPE_FP16).relative_error, 0.3);
  EXPECT_EQ(price(GPEMU_TYPE_TF32).evidence, Evidence::kTransferred);
  EXPECT_DOUBLE_EQ(price(GPEMU_TYPE_TF32).relative_error, 0.5);
}

TEST(OperationCostModel, InHalfPrecisionBarsGrowWithWhatIsNotKnown) {
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.calibration = calibration("X-1", false);
  spec.other_arithmetic = calibration("Y-1", true);
  const auto bar = [&spec](std::int64_t groups, gpemu_data_type type) {
    const gpemu_operation convolution = operation_of(
        GPEMU_OPERATION_CONVOLUTION_FORWARD,
        {32, 256, 256, groups, 2, 28, 28, 1, 3, 3, 1, 28, 28, 1, 1, 1, 1, 1, 1, 1}, type);
    return OperationCostModel(spec).price(convolution).estimate.relative_error;
  };
  const gpemu_operation product =
      operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024}, GPEMU_TYPE_FP16);
  const double of_product = OperationCostModel(spec).price(product).estimate.relative_error;
  EXPECT_LT(bar(1, GPEMU_TYPE_FP32), of_product);
  EXPECT_LE(of_product, bar(1, GPEMU_TYPE_FP16));
  EXPECT_EQ(bar(256, GPEMU_TYPE_FP16), bar(1, GPEMU_TYPE_FP16)) << "depthwise";
  EXPECT_LT(bar(1, GPEMU_TYPE_FP16), bar(32, GPEMU_TYPE_FP16));
}

TEST(OperationCostModel, OtherArithmeticHasTheSharesOfAGpuThatKnowsIt) {
  const auto seconds = [](const profile::GpuSpec& spec, gpemu_data_type type) {
    const gpemu_operation product =
        operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192}, type);
    return to_seconds(OperationCostModel(spec).price(product).estimate.time);
  };
  profile::GpuSpec spec = toy_spec();
  spec.calibration = calibration("", false);
  spec.other_arithmetic = calibration("Y-1", true);
  const double fp32 = seconds(spec, GPEMU_TYPE_FP32), fp16 = seconds(spec, GPEMU_TYPE_FP16);
  spec.other_arithmetic->parameters[profile::kMatmul] /= 2;
  EXPECT_NEAR(seconds(spec, GPEMU_TYPE_FP16) / fp16, 2, 0.1);
  EXPECT_EQ(seconds(spec, GPEMU_TYPE_FP32), fp32);
  // The memory is the GPU's own.
  spec.other_arithmetic->parameters[profile::kMatmulBandwidth] /= 8;
  EXPECT_NEAR(seconds(spec, GPEMU_TYPE_FP16) / fp16, 2, 0.1);
}

gpemu_operation half_convolution(std::int64_t channels, std::int64_t groups, bool last,
                                 gpemu_operation_kind kind) {
  gpemu_operation operation = operation_of(
      kind, {64, channels, channels, groups, 2, 28, 28, 1, 3, 3, 1, 28, 28, 1, 1, 1, 1, 1, 1, 1},
      GPEMU_TYPE_FP16);
  operation.channels_last = last ? 1 : 0;
  return operation;
}

TEST(OperationCostModel, HalfPrecisionHasTheSharesOfTheGpuWhoseStepsWerePublished) {
  const auto seconds = [](const profile::GpuSpec& spec, gpemu_data_type type) {
    return to_seconds(OperationCostModel(spec)
                          .price(operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192}, type))
                          .estimate.time);
  };
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.calibration = calibration("X-1", false);
  spec.other_arithmetic = calibration("Y-1", true);
  const double fp32 = seconds(spec, GPEMU_TYPE_FP32);
  spec.half = calibration("Z-1", true);
  spec.half->half = true;
  spec.half->tensor_rate = profile::tensor_rate(spec);
  spec.half->generation = spec.generation;
  const double fp16 = seconds(spec, GPEMU_TYPE_FP16);
  spec.half->parameters[profile::kMatmul] /= 2;
  EXPECT_NEAR(seconds(spec, GPEMU_TYPE_FP16) / fp16, 2, 0.1);
  EXPECT_EQ(seconds(spec, GPEMU_TYPE_FP32), fp32);
  // Tensor cores that could do more than those that were measured wait for their operands.
  spec.half->tensor_rate /= 4;
  EXPECT_GT(seconds(spec, GPEMU_TYPE_FP16) / fp16, 2.2);
}

TEST(OperationCostModel, WhatPublishedStepsGaveSaysSo) {
  profile::GpuSpec spec = toy_spec();
  spec.name = "X-1";
  spec.calibration = calibration("X-1", true);
  spec.calibration->half = true;
  spec.calibration->tensor_rate = profile::tensor_rate(spec);
  spec.calibration->bars = profile::CalibrationBars{.unseen_model = 0.15, .other_gpu = 0.15};
  spec.other_arithmetic = calibration("Y-1", false);
  const OperationCostModel model(spec);
  const auto estimate = [&](bool last, gpemu_operation_kind kind) {
    return model.price(half_convolution(256, 4, last, kind)).estimate;
  };
  EXPECT_EQ(estimate(false, GPEMU_OPERATION_CONVOLUTION_FORWARD).evidence, Evidence::kPublished);
  EXPECT_EQ(evidence_of(spec, operation_of(GPEMU_OPERATION_SET, {1 << 20})), Evidence::kPublished);
  EXPECT_EQ(evidence_of(spec, operation_of(GPEMU_OPERATION_MATMUL, {1, 1024, 1024, 1024})),
            Evidence::kTransferred)
      << "in FP32";
  // What does not run on tensor cores depends on the library's version.
  EXPECT_GT(estimate(true, GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA).relative_error,
            1.5 * estimate(false, GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA).relative_error);
}

TEST(OperationCostModel, APowerLimitLowersTheRateOfProducts) {
  profile::GpuSpec spec = toy_spec();
  const auto seconds = [&](gpemu_operation_kind kind, std::initializer_list<std::int64_t> shape) {
    return to_seconds(OperationCostModel(spec).price(operation_of(kind, shape)).estimate.time);
  };
  const double product = seconds(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192});
  const double set = seconds(GPEMU_OPERATION_SET, {1 << 28});
  spec.sustained_clock_mhz = spec.boost_clock_mhz / 2;
  EXPECT_NEAR(seconds(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192}) / product, 2, 0.1);
  EXPECT_EQ(seconds(GPEMU_OPERATION_SET, {1 << 28}), set);
}

TEST(OperationCostModel, NoProductBeatsWhatBoardsAreReportedToReach) {
  profile::GpuSpec spec = toy_spec();
  const auto seconds = [&](gpemu_data_type type) {
    gpemu_operation product = operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192});
    product.type = product.compute_type = type;
    return to_seconds(OperationCostModel(spec).price(product).estimate.time);
  };
  const std::array types = {GPEMU_TYPE_FP32, GPEMU_TYPE_FP16, GPEMU_TYPE_BF16, GPEMU_TYPE_FP64};
  spec.fp16_tensor_flops = spec.bf16_tensor_flops = 100e12;
  std::array<double, types.size()> before{};
  std::ranges::transform(types, before.begin(), seconds);
  spec.fp32_product_flops = spec.fp32_flops / 2;
  EXPECT_NEAR(seconds(GPEMU_TYPE_FP32) / before[0], 2, 0.01);
  EXPECT_EQ(seconds(GPEMU_TYPE_FP16), before[1]);
  spec.fp16_product_flops = 25e12;
  EXPECT_NEAR(seconds(GPEMU_TYPE_FP16) / before[1], 4, 0.04);
  EXPECT_NEAR(seconds(GPEMU_TYPE_BF16) / before[2], 4, 0.04);
  EXPECT_EQ(seconds(GPEMU_TYPE_FP64), before[3]);
}

TEST(OperationCostModel, NoProductBeatsThePeak) {
  profile::GpuSpec spec = toy_spec();
  spec.calibration = calibration("", false);
  spec.calibration->parameters[profile::kMatmul] = 1.3;
  const gpemu_operation product = operation_of(GPEMU_OPERATION_MATMUL, {1, 8192, 8192, 8192});
  EXPECT_NEAR(to_seconds(OperationCostModel(spec).price(product).estimate.time),
              2 * std::pow(8192.0, 3) / 10e12, 1e-6);
}

TEST(OperationCostModel, MoreWorkTakesNoLess) {
  const OperationCostModel model(toy_spec());
  for (const gpemu_operation_kind kind :
       {GPEMU_OPERATION_ATTENTION_FORWARD, GPEMU_OPERATION_ATTENTION_BACKWARD}) {
    Duration before{};
    for (std::int64_t length = 1; length <= 1 << 14; length *= 2) {
      const Duration time =
          model.price(operation_of(kind, {4, 16, 16, length, length, 64})).estimate.time;
      EXPECT_GE(time, before) << length;
      before = time;
    }
  }
  const auto recurrent = [&](gpemu_operation_kind kind, std::int64_t length) {
    return to_seconds(
        model.price(operation_of(kind, {2, 1, length, 64, 512, 512, 4})).estimate.time);
  };
  // One step after the other.
  EXPECT_GT(recurrent(GPEMU_OPERATION_RNN_FORWARD, 200),
            1.8 * recurrent(GPEMU_OPERATION_RNN_FORWARD, 100));
  EXPECT_GT(recurrent(GPEMU_OPERATION_RNN_BACKWARD, 100),
            1.8 * recurrent(GPEMU_OPERATION_RNN_FORWARD, 100));
}

TEST(OperationCost, WhatIsDescribedCostsTheSame) {
  const OperationCostModel model(toy_spec());
  std::int64_t elements = 100'000'000;
  std::array<void*, 1> arguments = {&elements};
  gpemu_operation add = operation_of(GPEMU_OPERATION_KERNEL, {8, 1, 1, 128, 1, 1});
  add.name =
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEE"
      "viT0_T1_";
  add.arguments = arguments.data();
  const auto described = kernels::describe_kernel(kernels::kernel_traits(add.name), add);
  EXPECT_NEAR(to_milliseconds(model.price(described).estimate.time), 1.2, 0.5);
  for (const gpemu_operation& operation :
       {described.operation,
        operation_of(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER,
                     {4, 24, 48, 24, 2, 110, 112, 1, 5, 3, 1, 55, 56, 1, 2, 2, 1, 1, 1, 1})}) {
    const auto again = kernels::describe_operation(operation);
    EXPECT_EQ(model.price(again).estimate.time, model.price(operation).estimate.time);
  }
}

}  // namespace
}  // namespace gpemu::cost
