// SPDX-License-Identifier: Apache-2.0
// What events say: their order, what is not ready yet, and that the host waits at least as long as
// they say.
#include <chrono>
#include <limits>

#include "sample.cuh"

__global__ void scale(int count, float* values) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) {
    values[index] *= 2;
  }
}

int main() {
  print_device();
  constexpr int kCount = 64 << 20;
  float* values;
  CHECK(cudaMalloc(&values, kCount * sizeof(float)));
  cudaEvent_t start;
  cudaEvent_t end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaDeviceSynchronize());

  const auto before = std::chrono::steady_clock::now();
  CHECK(cudaEventRecord(start));
  for (int repeat = 0; repeat < 200; ++repeat) {
    scale<<<(kCount + 255) / 256, 256>>>(kCount, values);
  }
  CHECK(cudaEventRecord(end));
  if (cudaEventQuery(end) != cudaErrorNotReady || cudaGetLastError() != cudaErrorNotReady) {
    std::puts("the event is ready before its work");
    return 1;
  }
  CHECK(cudaEventSynchronize(end));
  const std::chrono::duration<double, std::milli> waited =
      std::chrono::steady_clock::now() - before;
  CHECK(cudaEventQuery(end));
  float elapsed = 0;
  CHECK(cudaEventElapsedTime(&elapsed, start, end));
  const double least = 200 * 2.0 * kCount * sizeof(float) / peak_bandwidth() / 1e6;
  expect("time between the events", elapsed, least, 2.5 * least, "ms");
  expect("time the host waited", waited.count(), 0.95 * elapsed,
         std::numeric_limits<double>::infinity(), "ms");
}
