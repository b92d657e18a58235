// SPDX-License-Identifier: Apache-2.0
// What the compiler wrote down of kernels and variables: registers, shared memory, launch bounds,
// initial values.
#include "sample.cuh"

namespace {

constexpr int kBlock = 256;

__device__ int answer = 42;
__device__ float unset[100];
__constant__ float factors[16] = {1, 2, 3};

__global__ void __launch_bounds__(kBlock) reverse(float* data) {
  __shared__ float block[kBlock];
  block[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] =
      block[kBlock - 1 - threadIdx.x] * factors[1] + static_cast<float>(answer) + unset[3];
}

/// Keeps 40 doubles, two registers each, at once.
__global__ void many_registers(double* data, int count) {
  constexpr int kValues = 40;
  double values[kValues];
  for (int i = 0; i < kValues; ++i) values[i] = data[i * count];
  for (int k = 0; k < count; ++k) {
    for (int i = 0; i < kValues; ++i) {
      values[i] = values[i] * values[(i + 7) % kValues] + data[k];
    }
  }
  for (int i = 0; i < kValues; ++i) data[i] = values[i];
}

int blocks_of(const void* kernel, int threads) {
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
  return blocks;
}

void check_kernels() {
  cudaFuncAttributes light;
  cudaFuncAttributes heavy;
  CHECK(cudaFuncGetAttributes(&light, reverse));
  CHECK(cudaFuncGetAttributes(&heavy, many_registers));
  expect("registers, few needed", light.numRegs, 8, 31, "");
  expect("registers, 40 doubles", heavy.numRegs, 80, 255, "");
  const double shared = sizeof(float) * kBlock;
  expect("static shared memory", static_cast<double>(light.sharedSizeBytes), shared, shared, "B");
  expect("constant memory", static_cast<double>(light.constSizeBytes), sizeof(factors),
         sizeof(factors), "B");
  expect("launch bounds", light.maxThreadsPerBlock, kBlock, kBlock, "");
  // Registers are given to warps in units of 256, to four warps at a time.
  const int of_warp = (heavy.numRegs * 32 + 255) / 256 * 256;
  const int warps = attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / of_warp / 4 * 4;
  const int blocks = blocks_of(reinterpret_cast<const void*>(many_registers), 128);
  expect("blocks a multiprocessor holds", blocks, warps / 4, warps / 4, "");
}

void check_variables() {
  void* address = nullptr;
  size_t bytes = 0;
  int number = 0;
  CHECK(cudaMemcpyFromSymbol(&number, answer, sizeof(number)));
  expect("initial value", number, 42, 42, "");
  number = 7;
  CHECK(cudaMemcpyToSymbol(answer, &number, sizeof(number)));
  CHECK(cudaGetSymbolAddress(&address, answer));
  number = 0;
  CHECK(cudaMemcpy(&number, address, sizeof(number), cudaMemcpyDeviceToHost));
  expect("value behind the address", number, 7, 7, "");
  CHECK(cudaGetSymbolSize(&bytes, unset));
  expect("size", static_cast<double>(bytes), sizeof(unset), sizeof(unset), "B");
  float host[3];
  CHECK(cudaMemcpyFromSymbol(host, factors, sizeof(host)));
  expect("initial value of a constant", host[2], 3, 3, "");
  CHECK(cudaMemcpyFromSymbol(host, unset, sizeof(float), sizeof(float)));
  expect("without initial value", host[0], 0, 0, "");
}

}  // namespace

int main() {
  print_device();
  check_kernels();
  check_variables();
  return 0;
}
