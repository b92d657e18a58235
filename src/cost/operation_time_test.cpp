// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/operation_time.hpp"

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::cost {
namespace {

/// A round GPU: 10 TFLOP/s, 1 TB/s, 100 multiprocessors at 1 GHz.
profile::GpuSpec round_gpu() {
  profile::GpuSpec spec;
  spec.fp32_flops = 10e12;
  spec.memory_bandwidth_bytes_per_s = 1e12;
  spec.multiprocessors = 100;
  spec.boost_clock_mhz = 1000;
  return spec;
}

/// Parameters of a GPU that reaches its datasheet's rates, without latencies.
std::array<double, kOperationParameterCount> ideal() {
  std::array<double, kOperationParameterCount> parameters{};
  parameters.fill(1);
  parameters[kDepth] = 1e-9;
  for (const int latency : {kLatency, kConvolutionLatency, kMatmulLatency, kReductionLatency}) {
    parameters[latency] = 1e-12;
  }
  return parameters;
}

kernels::DescribedOperation operation(gpemu_operation_kind kind, std::vector<std::int64_t> shape) {
  kernels::DescribedOperation described{};
  described.operation.struct_size = sizeof(gpemu_operation);
  described.operation.kind = kind;
  described.operation.type = GPEMU_TYPE_FP32;
  described.operation.name = "test";
  std::ranges::copy(shape, described.operation.shape);
  return described;
}

kernels::DescribedOperation convolution(gpemu_operation_kind kind, std::int64_t channels,
                                        std::int64_t filter, std::int64_t groups = 1) {
  return operation(kind, {32, channels, channels, groups, 2, 56, 56, 1, filter, filter,
                          1,  56,       56,       1,      1, 1,  1,  1, 1,      1});
}

double seconds(const kernels::DescribedOperation& described,
               const profile::GpuSpec& spec = round_gpu(),
               const std::array<double, kOperationParameterCount>& parameters = ideal()) {
  return operation_seconds(operation_work(described, spec), gpu_rates(spec), parameters.data());
}

ConvolutionWork dense(const OperationWork& work) {
  return std::get<ConvolutionWork>(work.kind);
}

/// Returns whether a convolution with groups does not run on tensor cores.
bool is_direct(const OperationWork& work) {
  const auto* const depthwise = work.as<DepthwiseConvolutionWork>();
  if (depthwise != nullptr) return depthwise->direct;
  return std::get<GroupedConvolutionWork>(work.kind).direct;
}

TEST(OperationTime, AFullProductTakesItsArithmeticAndItsBytes) {
  // 12800 x 12800 outputs are 10000 tiles of 128 x 128, half a wave of 100 more than whole ones.
  const double flops = 2.0 * 12800 * 12800 * 1024;
  const double bytes = 4.0 * (2 * 12800 * 1024 + 12800.0 * 12800);
  EXPECT_NEAR(seconds(operation(GPEMU_OPERATION_MATMUL, {1, 12800, 12800, 1024})),
              flops / 10e12 * 100.5 / 100 + bytes / 1e12, 1e-7);
}

TEST(OperationTime, APartOfATileTakesAsLongAsAWholeOne) {
  const auto product = [](std::int64_t rows) {
    return seconds(operation(GPEMU_OPERATION_MATMUL, {1, rows, 32, 64}));
  };
  EXPECT_NEAR(product(2), product(32), 2e-8);  // But for their bytes.
  EXPECT_LT(product(1), product(2) / 10) << "vectors have kernels of their own";
  EXPECT_GT(product(51200), 1.5 * product(12800));
}

TEST(OperationTime, TensorCoresWantTheChannelsOfTheirOperandsLast) {
  profile::GpuSpec spec = round_gpu();
  spec.tf32_tensor_flops = 80e12;
  const auto more_bytes = [&](gpemu_operation_kind kind) {
    // 64 channels of 56 x 56 become 256 of the same.
    kernels::DescribedOperation described = convolution(kind, 64, 1);
    described.operation.shape[2] = 256;
    described.operation.compute_type = GPEMU_TYPE_TF32;
    const double turned = seconds(described, spec);
    described.operation.channels_last = 1;
    return (turned - seconds(described, spec)) * 1e12;
  };
  const double pixels = 4.0 * 32 * 56 * 56;
  // The operands alone: the result is written in either order.
  EXPECT_NEAR(more_bytes(GPEMU_OPERATION_CONVOLUTION_FORWARD), 2 * pixels * 64, 1);
  EXPECT_NEAR(more_bytes(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA), 2 * pixels * 256, 1);
  EXPECT_NEAR(more_bytes(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER), 2 * pixels * 320, 1);
}

TEST(OperationTime, WinogradServesSquareWindowsInFp32Only) {
  const auto work = [](std::int64_t filter, const profile::GpuSpec& spec) {
    return operation_work(convolution(GPEMU_OPERATION_CONVOLUTION_FORWARD, 256, filter), spec);
  };
  EXPECT_EQ(dense(work(1, round_gpu())).winograd_large_flops, 0);
  EXPECT_EQ(dense(work(7, round_gpu())).winograd_large_flops, 0);
  EXPECT_EQ(dense(work(5, round_gpu())).winograd_small_flops, 0);
  // 2 x 2 outputs take 16 multiplications and not 36; 4 x 4 take 36 and not 144.
  const OperationWork wider = work(3, round_gpu());
  EXPECT_NEAR(wider.flops / dense(wider).winograd_small_flops, 2.25, 0.1);
  EXPECT_NEAR(wider.flops / dense(wider).winograd_large_flops, 4, 0.1);
  profile::GpuSpec ampere = round_gpu();
  ampere.tf32_tensor_flops = 80e12;
  kernels::DescribedOperation tensor = convolution(GPEMU_OPERATION_CONVOLUTION_FORWARD, 256, 3);
  tensor.operation.compute_type = GPEMU_TYPE_TF32;
  EXPECT_EQ(dense(operation_work(tensor, ampere)).winograd_large_flops, 0);
  EXPECT_GT(dense(operation_work(tensor, round_gpu())).winograd_large_flops, 0);
  EXPECT_EQ(operation_work(tensor, ampere).peak_flops, 80e12);
}

TEST(OperationTime, ConvolutionsHaveTheFactorOfTheirWindow) {
  const auto factor = [](gpemu_operation_kind kind, std::int64_t channels, std::int64_t filter) {
    return dense(operation_work(convolution(kind, channels, filter), round_gpu())).factor;
  };
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_FORWARD, 64, 1), kPointwiseForward);
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 64, 3), kSquareData);
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 64, 5), kLargeFilter);
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_FORWARD, 3, 3), kFirstForward);
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 3, 3), kFirstFilter);
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 3, 11), kFirstLargeFilter);
  EXPECT_EQ(factor(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 3, 11), -1);
}

TEST(OperationTime, GroupsAreKinds) {
  const auto work = [](std::int64_t groups) {
    return operation_work(convolution(GPEMU_OPERATION_CONVOLUTION_FORWARD, 64, 3, groups),
                          round_gpu());
  };
  EXPECT_TRUE(work(1).is<ConvolutionWork>());
  EXPECT_TRUE(work(8).is<GroupedConvolutionWork>());
  EXPECT_TRUE(work(64).is<DepthwiseConvolutionWork>());
  // 32 x 56 x 56 x 64 outputs of 9 terms, one operation a clock on each of 100 multiprocessors.
  auto parameters = ideal();
  parameters[kConvolutionBandwidth] = 1e9;
  EXPECT_NEAR(
      seconds(convolution(GPEMU_OPERATION_CONVOLUTION_FORWARD, 64, 3, 64), round_gpu(), parameters),
      2.0 * 32 * 56 * 56 * 64 * 9 / (100 * 1e9), 1e-6);
}

TEST(OperationTime, StreamsMoveTheirBytes) {
  constexpr std::int64_t kElements = 1 << 26;
  const double one = 4.0 * kElements / 1e12;
  EXPECT_NEAR(seconds(operation(GPEMU_OPERATION_ELEMENTWISE, {2 * kElements, kElements})), 3 * one,
              1e-9);
  EXPECT_NEAR(seconds(operation(GPEMU_OPERATION_REDUCTION, {kElements, 1})), one, 1e-9);
  // Max pooling has eight bytes more for each output, and compares the elements of its window.
  const kernels::DescribedOperation pooling =
      operation(GPEMU_OPERATION_POOLING, {4 * kElements, kElements, 4, 8});
  auto fast = ideal();
  fast[kPoolingForward] = fast[kConcatenation] = 4;
  EXPECT_NEAR(seconds(pooling, round_gpu(), fast), 7 * one, 1e-9);
  EXPECT_NEAR(seconds(pooling), 4.0 * kElements / (100 * 1e9), 1e-9);  // One element a clock.
  EXPECT_NEAR(
      seconds(operation(GPEMU_OPERATION_POOLING_BACKWARD, {4 * kElements, kElements, 4, 8})),
      7 * one, 1e-9);
  kernels::DescribedOperation joined =
      operation(GPEMU_OPERATION_ELEMENTWISE, {kElements, kElements});
  joined.operation_class = kernels::OperationClass::kCopy;
  EXPECT_NEAR(seconds(joined), 2.0 * kElements / (100 * 1e9), 1e-9);
  EXPECT_NEAR(seconds(joined, round_gpu(), fast), 2 * one, 1e-9) << "its bytes take longer";
  joined.operation.type = GPEMU_TYPE_FP16;
  EXPECT_NEAR(seconds(joined), 2.0 * kElements / (100 * 1e9), 1e-9) << "whatever their size";
  kernels::DescribedOperation strided =
      operation(GPEMU_OPERATION_ELEMENTWISE, {kElements, kElements});
  strided.operation.access = GPEMU_ACCESS_STRIDED;
  EXPECT_NEAR(seconds(strided), 2.0 * kElements / (100 * 1e9), 1e-9);  // One element a clock.
  strided.operation.type = GPEMU_TYPE_FP16;
  EXPECT_NEAR(seconds(strided), 2.0 * kElements / (100 * 1e9), 1e-9) << "whatever their size";
}

TEST(OperationTime, WhatIsBroadcastIsAsFastAsTheMemoryAtMost) {
  auto parameters = ideal();
  parameters[kStrided] = 0.5;
  const auto work = [](std::int64_t reads, std::int64_t writes) {
    kernels::DescribedOperation described = operation(GPEMU_OPERATION_ELEMENTWISE, {reads, writes});
    described.operation.access = GPEMU_ACCESS_STRIDED;
    return described;
  };
  const profile::GpuSpec spec = round_gpu();
  const GpuRates gpu = gpu_rates(spec);
  constexpr std::int64_t kElements = 100'000'000;
  const double rate = gpu.multiprocessors * gpu.clock_hz;
  // Elements in another order, and a factor for each channel.
  EXPECT_NEAR(seconds(work(kElements, kElements), spec, parameters), 2 * kElements / (0.5 * rate),
              1e-9);
  const kernels::DescribedOperation scaled = work(kElements + 64, kElements);
  parameters[kBroadcast] = 0.25;
  EXPECT_NEAR(seconds(scaled, spec, parameters), (2 * kElements + 64) / (0.25 * rate), 1e-9);
  parameters[kBroadcast] = 1e6;
  EXPECT_NEAR(seconds(scaled, spec, parameters), 4.0 * (2 * kElements + 64) / gpu.bandwidth, 1e-9);
}

TEST(OperationTime, ElementsThatLieApartTakeAReadEach) {
  auto parameters = ideal();
  parameters[kStrided] = 4;
  parameters[kApartReads] = 0.5;
  constexpr std::int64_t kElements = 100'000'000;
  const auto transposed = [](std::int64_t reads) {
    kernels::DescribedOperation described =
        operation(GPEMU_OPERATION_ELEMENTWISE, {kElements, kElements, 0, 0, reads});
    described.operation.access = GPEMU_ACCESS_STRIDED;
    return described;
  };
  const profile::GpuSpec spec = round_gpu();
  const double rate = gpu_rates(spec).multiprocessors * gpu_rates(spec).clock_hz;
  EXPECT_NEAR(seconds(transposed(kElements), spec, parameters), 2.0 * kElements / rate, 1e-9);
  EXPECT_NEAR(seconds(transposed(kElements / 2), spec, parameters), 1.0 * kElements / rate, 1e-9);
  EXPECT_NEAR(seconds(transposed(kElements / 8), spec, parameters), 0.5 * kElements / rate, 1e-9)
      << "finding the elements takes longer";
}

TEST(OperationTime, SumsAlongBothOperandsAreSlowerBeforeVolta) {
  profile::GpuSpec spec = round_gpu();
  const kernels::DescribedOperation plain =
      operation(GPEMU_OPERATION_MATMUL, {1, 12800, 12800, 4096});
  const kernels::DescribedOperation along =
      operation(GPEMU_OPERATION_MATMUL, {1, 12800, 12800, 4096, 0, 0, 1});
  auto parameters = ideal();
  parameters[kApart] = 1e-9;
  spec.generation = profile::generation_facts(7, 0).value();
  EXPECT_EQ(seconds(along, spec, parameters), seconds(plain, spec, parameters));
  spec.generation = profile::generation_facts(5, 2).value();
  EXPECT_NEAR(seconds(along, spec, parameters) / seconds(plain, spec, parameters), 1 / 0.82, 1e-6);
}

TEST(OperationTime, SumsAlongBothOperandsAreSlowerOnPascalIfRowsSpanMuch) {
  profile::GpuSpec spec = round_gpu();
  spec.generation = profile::generation_facts(6, 0).value();
  auto parameters = ideal();
  parameters[kApart] = 1e-9;
  const auto share = [&](std::int64_t m, std::int64_t n, std::int64_t depth) {
    return seconds(operation(GPEMU_OPERATION_MATMUL, {1, m, n, depth}), spec, parameters) /
           seconds(operation(GPEMU_OPERATION_MATMUL, {1, m, n, depth, 0, 0, 1}), spec, parameters);
  };
  // The 200 tiles that count are those of one column; with few rows, of many columns.
  EXPECT_NEAR(share(12800, 12800, 1024), 0.82, 1e-6);
  const double spanned = (12800 + 64) * 4096.0 * 4;
  EXPECT_NEAR(share(12800, 12800, 4096), 0.82 * std::sqrt((64 << 20) / spanned), 1e-6);
  EXPECT_NEAR(share(128, 128000, 4096),
              0.82 * std::sqrt((64 << 20) / ((128 + 100 * 64) * 4096.0 * 4)), 1e-6);
  EXPECT_NEAR(share(12800, 12800, 65536), 0.82 * 0.45, 1e-6);
}

TEST(OperationTime, WhatFitsIntoTheCacheIsFaster) {
  profile::GpuSpec spec = round_gpu();
  spec.l2_cache_bytes = 100'000'000;
  auto parameters = ideal();
  parameters[kCache] = 2;
  const auto time = [&](std::int64_t bytes) {
    return seconds(operation(GPEMU_OPERATION_SET, {bytes}), spec, parameters);
  };
  EXPECT_NEAR(time(50'000'000), 25e-6, 1e-9);
  EXPECT_NEAR(time(100'000'000), 100e-6, 1e-9);
  // In between, a part of it is there.
  EXPECT_GT(time(90'000'000), 45e-6);
  EXPECT_LT(time(90'000'000), 90e-6);
}

TEST(OperationTime, TheLongerOfArithmeticAndMemoryHidesAPartOfTheOther) {
  const kernels::DescribedOperation product =
      operation(GPEMU_OPERATION_MATMUL, {1, 12800, 12800, 1024});
  auto parameters = ideal();
  const double together = seconds(product);
  parameters[kApart] = 1e-9;
  const double flops = 2.0 * 12800 * 12800 * 1024;
  EXPECT_NEAR(seconds(product, round_gpu(), parameters), flops / 10e12 * 100.5 / 100, 1e-7);
  EXPECT_LT(seconds(product, round_gpu(), parameters), together);
}

TEST(OperationTime, UnalignedProductsAndOtherKernelsOfAttentionAreSlower) {
  profile::GpuSpec spec = round_gpu();
  spec.fp16_tensor_flops = 100e12;
  spec.generation = profile::generation_facts(9, 0).value();
  auto parameters = ideal();
  parameters[kMatmulUnaligned] = 0.25;
  parameters[kApart] = 1e-9;
  kernels::DescribedOperation product = operation(GPEMU_OPERATION_MATMUL, {1, 4096, 4096, 4096});
  product.operation.type = GPEMU_TYPE_FP16;
  const double aligned = seconds(product, spec, parameters);
  product.operation.access = GPEMU_ACCESS_STRIDED;
  EXPECT_NEAR(seconds(product, spec, parameters) / aligned, 4, 0.01);
  const auto attention = [&](gpemu_attention kernel, int causal) {
    kernels::DescribedOperation described =
        operation(GPEMU_OPERATION_ATTENTION_FORWARD, {8, 16, 16, 4096, 4096, 64, causal, kernel});
    described.operation.type = GPEMU_TYPE_FP16;
    return seconds(described, spec, parameters);
  };
  const double cudnn = attention(GPEMU_ATTENTION_CUDNN, 0);
  EXPECT_GT(attention(GPEMU_ATTENTION_FLASH, 0), 1.5 * cudnn);
  EXPECT_GT(attention(GPEMU_ATTENTION_EFFICIENT, 0), 3 * cudnn);
  EXPECT_NEAR(attention(GPEMU_ATTENTION_CUDNN, 1), cudnn / 2, cudnn / 20);
}

TEST(OperationTime, ABlockOfAttentionComputesAllOfItsRows) {
  const auto flops = [](std::int64_t queries, std::int64_t keys) {
    return operation_work(operation(GPEMU_OPERATION_ATTENTION_FORWARD,
                                    {100, 8, 8, queries, keys, 64, 0, GPEMU_ATTENTION_FLASH}),
                          round_gpu())
        .flops;
  };
  EXPECT_EQ(flops(16, 16), flops(128, 64));
  EXPECT_EQ(flops(129, 65), flops(256, 128));
}

TEST(OperationTime, AMatrixThatAllProductsShareIsReadOnce) {
  const auto bytes = [](std::int64_t a, std::int64_t b) {
    return operation_work(operation(GPEMU_OPERATION_MATMUL, {100, 50, 20, 10, a, b}), round_gpu())
        .bytes;
  };
  EXPECT_EQ(bytes(0, 0), 4 * 100 * (500 + 200 + 1000));
  EXPECT_EQ(bytes(1, 0), 4 * (500 + 100 * (200 + 1000)));
  EXPECT_EQ(bytes(0, 1), 4 * (200 + 100 * (500 + 1000)));
}

TEST(OperationTime, RowsWithBlocksOfTheirOwnAreLimitedByMemoryOrByMultiprocessors) {
  const auto time = [](std::int64_t rows) {
    return seconds(
        operation(GPEMU_OPERATION_NORMALIZATION_FORWARD, {std::int64_t{1} << 20, 0, 2, rows}));
  };
  const double bytes = 2 * 4.0 * (1 << 20);
  EXPECT_NEAR(time(1000), bytes / 1e12, 1e-9);
  // Half a clock a row, on each of 100 multiprocessors, beside what they move.
  EXPECT_NEAR(time(10'000'000), (bytes / kRowBytes + 0.5e7) / (100 * 1e9), 1e-9);
}

TEST(OperationTime, SoftmaxIsNoSum) {
  auto parameters = ideal();
  parameters[kSoftmax] = 0.5;
  const auto time = [&](std::int64_t outputs) {
    return seconds(operation(GPEMU_OPERATION_REDUCTION, {1 << 26, outputs}), round_gpu(),
                   parameters);
  };
  EXPECT_NEAR(time(1 << 26), 2 * 2 * 4.0 * (1 << 26) / 1e12, 1e-6);
  EXPECT_NEAR(time(1024), 4.0 * (1 << 26) / 1e12, 1e-6);
}

TEST(OperationTime, NormalizationWithFewChannelsKeepsFewMultiprocessorsBusy) {
  const auto time = [](std::int64_t channels) {
    return seconds(
        operation(GPEMU_OPERATION_NORMALIZATION_FORWARD, {std::int64_t{1} << 24, channels}));
  };
  EXPECT_GT(time(8), 5 * time(1024));
}

TEST(OperationTime, PyTorchsOwnBatchNormalizationHasABlockForEachChannel) {
  // The statistics of 0.6 elements for each clock of a block, and four bytes of each element.
  const auto statistics = [](std::int64_t channels) {
    return seconds(operation(GPEMU_OPERATION_NORMALIZATION_FORWARD, {100'000'000, channels, 1}));
  };
  EXPECT_NEAR(statistics(10), 1e8 / 10 / 0.6 / 1e9 + 4e8 / 1e12, 1e-9);
  EXPECT_NEAR(statistics(400), 1e8 / 200 / 0.6 / 1e9 + 4e8 / 1e12, 1e-9)
      << "more than two blocks for a multiprocessor";
  EXPECT_NEAR(seconds(operation(GPEMU_OPERATION_NORMALIZATION_BACKWARD, {100'000'000, 10, 5})),
              1e8 / 10 / 0.35 / 1e9 + 5 * 4e8 / 1e12, 1e-9);
  // A library's block handles the elements of each pass at the rate of the parameter.
  EXPECT_NEAR(seconds(operation(GPEMU_OPERATION_NORMALIZATION_FORWARD, {100'000'000, 10})),
              3 * (1e8 / 10 / 1e9 + 4e8 / 1e12), 1e-9);
}

TEST(OperationTime, ChannelsWhoseElementsAreApartMove32BytesForEach) {
  auto described = operation(GPEMU_OPERATION_NORMALIZATION_BACKWARD, {100'000'000, 0, 3});
  described.operation.type = GPEMU_TYPE_FP16;
  EXPECT_NEAR(seconds(described), 3 * 2e8 / 1e12, 1e-9);
  described.operation.access = GPEMU_ACCESS_STRIDED;
  EXPECT_NEAR(seconds(described), 3 * 32e8 / 1e12, 1e-9);
}

TEST(OperationTime, DepthwiseWindowsWiderThanSevenHaveNoFastKernelWithTheChannelsLast) {
  profile::GpuSpec spec = round_gpu();
  spec.fp16_tensor_flops = 100e12;
  const auto each = [&](std::int64_t filter, int channels_last) {
    auto described = convolution(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 64, filter, 64);
    described.operation.type = GPEMU_TYPE_FP16;
    described.operation.channels_last = channels_last;
    return operation_work(described, spec).flops / static_cast<double>(filter * filter);
  };
  EXPECT_NEAR(each(9, 1) / each(7, 1), 1 / 0.12, 1e-9);
  EXPECT_NEAR(each(7, 1) / each(3, 1), 1, 1e-9);
  EXPECT_NEAR(each(9, 0) / each(7, 0), 1, 1e-9);
}

TEST(OperationTime, GroupsOnTensorCoresAreFasterWithTheChannelsLastAsOthersAre) {
  profile::GpuSpec spec = round_gpu();
  spec.fp16_tensor_flops = 100e12;
  const auto time = [&](double last) {
    auto parameters = ideal();
    parameters[kConvolutionLast] = last;
    parameters[kConvolutionBandwidth] = 1e6;
    auto described = convolution(GPEMU_OPERATION_CONVOLUTION_FORWARD, 256, 3, 8);
    described.operation.type = GPEMU_TYPE_FP16;
    described.operation.channels_last = 1;
    return seconds(described, spec, parameters);
  };
  EXPECT_NEAR(time(1) / time(2), 2, 1e-3);
}

TEST(OperationTime, NothingIsFasterThanALatency) {
  auto parameters = ideal();
  parameters[kLatency] = 3e-6;
  EXPECT_GE(seconds(operation(GPEMU_OPERATION_ELEMENTWISE, {1, 1}), round_gpu(), parameters), 3e-6);
}

TEST(OperationTime, SomeGroupsWithTheChannelsLastRunOnTensorCoresBackward) {
  profile::GpuSpec spec = round_gpu();
  spec.fp16_tensor_flops = 100e12;
  const auto work = [&](gpemu_operation_kind kind, std::int64_t channels, std::int64_t groups) {
    kernels::DescribedOperation described = convolution(kind, channels, 3, groups);
    described.operation.type = GPEMU_TYPE_FP16;
    described.operation.channels_last = 1;
    return operation_work(described, spec);
  };
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_FORWARD, 256, 32)));
  const OperationWork few = work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 256, 4);
  const OperationWork wide = work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 1024, 4);
  EXPECT_TRUE(is_direct(few));
  // Groups of four times the channels have 16 times the arithmetic, at twice the rate.
  EXPECT_NEAR(wide.flops / few.flops, 16.0 / 2, 1e-9);
  // A stride of 2 leaves a quarter of the outputs, and of the filter's gradient's arithmetic; the
  // input's gradient takes all windows. On Hopper, it is a product.
  const auto strided_share = [&](gpemu_operation_kind kind) {
    kernels::DescribedOperation described = convolution(kind, 256, 3, 4);
    described.operation.type = GPEMU_TYPE_FP16;
    described.operation.channels_last = 1;
    const double all = operation_work(described, spec).flops;
    for (const int i : {11, 12}) described.operation.shape[i] /= 2;
    for (const int i : {14, 15}) described.operation.shape[i] = 2;
    return operation_work(described, spec).flops / all;
  };
  EXPECT_NEAR(strided_share(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER), 0.25, 1e-9);
  EXPECT_NEAR(strided_share(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA), 1, 1e-9);
  // Groups of up to 40 channels have kernels, if there are enough. They are filled up to a power of
  // two.
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 128, 16)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 64, 8)));
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 256, 8)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 128, 4)));
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 128, 32)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 128, 8)));
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 144, 9)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 216, 9)));
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 560, 14)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 432, 9)));
  // Two groups of 16 take as long as one of 32, where whole ones of 32 are made of few.
  const auto lost = [&](std::int64_t channels, std::int64_t groups) {
    const OperationWork some = work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, channels, groups);
    return some.flops / some.least_flops;
  };
  EXPECT_NEAR(lost(64, 4), 2 * std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(lost(48, 3), 2, 1e-9);
  EXPECT_NEAR(lost(64, 2), std::sqrt(2.0), 1e-9);
  const OperationWork wider = work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 384, 16);
  EXPECT_FALSE(is_direct(wider));
  EXPECT_NEAR(wider.flops / wider.least_flops, 32.0 / 24, 1e-9);
  spec.generation = profile::generation_facts(9, 0).value();
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 128, 32)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 128, 32)));
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 64, 8)));
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 1024, 32)));
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 384, 12)));
  EXPECT_NEAR(strided_share(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA), 0.25, 1e-9);
  // Groups of 48 channels fill three quarters of a tile's sides, and have 9/16 of the arithmetic.
  const OperationWork filled = work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 256, 4);
  const OperationWork part = work(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 192, 4);
  EXPECT_NEAR(part.flops / filled.flops, 1, 1e-9);
  EXPECT_TRUE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_FORWARD, 64, 64))) << "depthwise";
  EXPECT_FALSE(is_direct(work(GPEMU_OPERATION_CONVOLUTION_FORWARD, 60, 60))) << "not whole vectors";
  EXPECT_GT(dense(work(GPEMU_OPERATION_CONVOLUTION_FORWARD, 60, 1)).turned_bytes, 0);
  EXPECT_EQ(dense(work(GPEMU_OPERATION_CONVOLUTION_FORWARD, 64, 1)).turned_bytes, 0);
}

}  // namespace
}  // namespace gpemu::cost
