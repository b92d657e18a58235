// SPDX-License-Identifier: Apache-2.0
// A kernel that the memory bounds runs near the memory's bandwidth. The emulator does not see what
// the kernel reads; it prices the launch by its grid, so that a factor of two remains open.
#include "sample.cuh"

__global__ void add(int count, const float* left, const float* right, float* sum) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) {
    sum[index] = left[index] + right[index];
  }
}

int main() {
  print_device();
  constexpr int kCount = 64 << 20;
  constexpr int kThreads = 256;
  constexpr int kRepeats = 20;
  float* memory[3];
  for (float*& array : memory) {
    CHECK(cudaMalloc(&array, kCount * sizeof(float)));
  }
  const double elapsed = milliseconds([&] {
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      add<<<(kCount + kThreads - 1) / kThreads, kThreads>>>(kCount, memory[0], memory[1],
                                                            memory[2]);
    }
  });
  CHECK(cudaGetLastError());
  const double bytes = 3.0 * kCount * sizeof(float) * kRepeats;
  const double peak = peak_bandwidth();
  expect("bandwidth", bytes / elapsed / 1e6, 0.5 * peak, 2 * peak, "GB/s");
  for (float* array : memory) {
    CHECK(cudaFree(array));
  }
}
