// SPDX-License-Identifier: Apache-2.0
// Copies on one stream run beside kernels on another, as their own engine does them.
#include "sample.cuh"

__global__ void scale(int count, float* values) {
  for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < count;
       index += gridDim.x * blockDim.x) {
    values[index] *= 2;
  }
}

int main() {
  print_device();
  constexpr int kCount = 64 << 20;
  constexpr size_t kBytes = kCount * sizeof(float);
  constexpr int kKernels = 40;
  float* values;
  float* target;
  float* host;
  CHECK(cudaMalloc(&values, kBytes));
  CHECK(cudaMalloc(&target, kBytes));
  CHECK(cudaMallocHost(&host, kBytes));
  cudaStream_t compute;
  cudaStream_t transfer;
  CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&transfer, cudaStreamNonBlocking));
  const auto kernels = [&] {
    for (int repeat = 0; repeat < kKernels; ++repeat) {
      scale<<<(kCount + 255) / 256, 256, 0, compute>>>(kCount, values);
    }
  };
  const auto copy = [&] {
    CHECK(cudaMemcpyAsync(target, host, kBytes, cudaMemcpyHostToDevice, transfer));
  };
  const auto timed = [&](bool with_kernels, bool with_copy) {
    cudaEvent_t start;
    cudaEvent_t ends[2];
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&ends[0]));
    CHECK(cudaEventCreate(&ends[1]));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(start, compute));
    CHECK(cudaStreamWaitEvent(transfer, start, 0));
    if (with_kernels) {
      kernels();
    }
    if (with_copy) {
      copy();
    }
    CHECK(cudaEventRecord(ends[0], compute));
    CHECK(cudaEventRecord(ends[1], transfer));
    CHECK(cudaDeviceSynchronize());
    float elapsed[2];
    CHECK(cudaEventElapsedTime(&elapsed[0], start, ends[0]));
    CHECK(cudaEventElapsedTime(&elapsed[1], start, ends[1]));
    return static_cast<double>(elapsed[0] > elapsed[1] ? elapsed[0] : elapsed[1]);
  };
  // The first use of memory is the host's page faults, not the link.
  (void)timed(true, true);
  const double alone = timed(true, false);
  const double copying = timed(false, true);
  const double both = timed(true, true);
  const double longer = alone > copying ? alone : copying;
  std::printf("kernels %.3f ms, copy %.3f ms\n", alone, copying);
  expect("both at once", both, 0.99 * longer, 1.1 * longer, "ms");
  CHECK(cudaFreeHost(host));
}
