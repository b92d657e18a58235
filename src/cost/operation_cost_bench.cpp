// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "gpemu/cost/operation_cost.hpp"

namespace gpemu::cost {
namespace {

profile::GpuSpec bench_spec() {
  profile::GpuSpec spec;
  spec.multiprocessors = 80;
  spec.fp32_flops = 14e12;
  spec.fp16_tensor_flops = 112e12;
  spec.memory_bandwidth_bytes_per_s = 900e9;
  return spec;
}

void BM_PriceConvolution(benchmark::State& state) {
  const OperationCostModel model(bench_spec());
  const gpemu_operation operation{
      .struct_size = sizeof(gpemu_operation),
      .kind = GPEMU_OPERATION_CONVOLUTION_FORWARD,
      .type = GPEMU_TYPE_FP32,
      .compute_type = GPEMU_TYPE_FP32,
      .channels_last = 0,
      .shape = {32, 256, 256, 1, 2, 14, 14, 1, 3, 3, 1, 14, 14, 1, 1, 1, 1, 1, 1, 1},
      .name = "cudnnConvolutionForward",
      .arguments = nullptr};
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(model.price(operation));
}
BENCHMARK(BM_PriceConvolution);

constexpr const char* kKernelName =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
    "St5arrayIPcLm3EELb0EEEviT0_T1_";

/// A launch of a kernel whose name was analysed before, as libgpemu.so does it.
void BM_PriceKernel(benchmark::State& state) {
  const OperationCostModel model(bench_spec());
  const KernelTraits traits = kernel_traits(kKernelName);
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
    benchmark::DoNotOptimize(model.price(describe_kernel(traits, operation)));
  }
}
BENCHMARK(BM_PriceKernel);

/// What a kernel costs once.
void BM_AnalyseKernelName(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(kernel_traits(kKernelName));
}
BENCHMARK(BM_AnalyseKernelName);

}  // namespace
}  // namespace gpemu::cost
