// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <benchmark/benchmark.h>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/kernels/kernel_traits.hpp"

namespace gpemu::cost {
namespace {

profile::GpuSpec bench_spec() {
  profile::GpuSpec spec;
  spec.multiprocessors = 80;
  spec.fp32_flops = 14e12;
  spec.fp16_tensor_flops = 112e12;
  spec.memory_bandwidth_bytes_per_s = 900e9;
  spec.boost_clock_mhz = 1380;
  return spec;
}

gpemu_operation convolution(gpemu_operation_kind kind) {
  return gpemu_operation{
      .struct_size = sizeof(gpemu_operation),
      .kind = kind,
      .type = GPEMU_TYPE_FP32,
      .compute_type = GPEMU_TYPE_FP32,
      .channels_last = 0,
      .shape = {32, 256, 256, 1, 2, 14, 14, 1, 3, 3, 1, 14, 14, 1, 1, 1, 1, 1, 1, 1},
      .name = "cudnnConvolution",
      .arguments = nullptr};
}

void BM_PriceConvolution(benchmark::State& state) {
  const OperationCostModel model(bench_spec());
  const gpemu_operation operation = convolution(GPEMU_OPERATION_CONVOLUTION_FORWARD);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(model.price(operation));
}
BENCHMARK(BM_PriceConvolution);

constexpr const char* kKernelName =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
    "St5arrayIPcLm3EELb0EEEviT0_T1_";

/// A launch of a kernel whose name was analysed before, as libgpemu.so does it.
void BM_PriceKernel(benchmark::State& state) {
  const OperationCostModel model(bench_spec());
  const kernels::KernelTraits traits = kernels::kernel_traits(kKernelName);
  int count = 1 << 20;
  void* arguments[] = {&count};
  const gpemu_operation operation{.struct_size = sizeof(gpemu_operation),
                                  .kind = GPEMU_OPERATION_KERNEL,
                                  .type = GPEMU_TYPE_UNKNOWN,
                                  .compute_type = GPEMU_TYPE_UNKNOWN,
                                  .channels_last = 0,
                                  .shape = {2048, 1, 1, 128, 1, 1, 0},
                                  .name = kKernelName,
                                  .arguments = arguments};
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(model.price(kernels::describe_kernel(traits, operation)));
  }
}
BENCHMARK(BM_PriceKernel);

/// A step of 5,000 operations, equally many of each kind, on 18 GPUs: each with its limit, as
/// `gpemu predict` needs it.
void BM_PriceStep(benchmark::State& state) {
  constexpr int kGpus = 18, kOperations = 5000;
  const std::vector<OperationCostModel> models(kGpus, OperationCostModel(bench_spec()));
  std::vector<kernels::DescribedOperation> step;
  for (const gpemu_operation_kind kind :
       {GPEMU_OPERATION_CONVOLUTION_FORWARD, GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA,
        GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, GPEMU_OPERATION_NORMALIZATION_FORWARD,
        GPEMU_OPERATION_NORMALIZATION_BACKWARD, GPEMU_OPERATION_ELEMENTWISE,
        GPEMU_OPERATION_REDUCTION, GPEMU_OPERATION_MATMUL}) {
    step.push_back({.operation = convolution(kind)});
  }
  for ([[maybe_unused]] auto _ : state) {
    for (const OperationCostModel& model : models) {
      for (int i = 0; i < kOperations; ++i) {
        benchmark::DoNotOptimize(model.price(step[i % step.size()]));
        benchmark::DoNotOptimize(model.limit(step[i % step.size()]));
      }
    }
  }
}
BENCHMARK(BM_PriceStep)->Unit(benchmark::kMillisecond);

/// The one-time cost of a kernel.
void BM_AnalyseKernelName(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(kernels::kernel_traits(kKernelName));
}
BENCHMARK(BM_AnalyseKernelName);

}  // namespace
}  // namespace gpemu::cost
