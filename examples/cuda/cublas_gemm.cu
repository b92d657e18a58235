// SPDX-License-Identifier: Apache-2.0
// A large product runs near the GPU's peak and not above it.
#include <cublas_v2.h>

#include "sample.cuh"

int main() {
  print_device();
  constexpr int kSize = 8192;
  float* memory[3];
  for (float*& matrix : memory) {
    CHECK(cudaMalloc(&matrix, sizeof(float) * kSize * kSize));
  }
  cublasHandle_t handle;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS ||
      cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH) != CUBLAS_STATUS_SUCCESS) {
    std::puts("cuBLAS did not start");
    return 1;
  }
  const float one = 1;
  const float zero = 0;
  const double elapsed = milliseconds([&] {
    if (cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &one, memory[0], kSize,
                    memory[1], kSize, &zero, memory[2], kSize) != CUBLAS_STATUS_SUCCESS) {
      std::puts("the product failed");
      std::exit(1);
    }
  });
  // 64 or 128 FP32 units a multiprocessor, two operations each a clock.
  const double units = attribute(cudaDevAttrMultiProcessorCount) *
                       static_cast<double>(attribute(cudaDevAttrClockRate)) * 1e3 * 2 / 1e12;
  const double rate = 2.0 * kSize * kSize * kSize / elapsed / 1e9;
  expect("FP32 product", rate, 0.5 * 64 * units, 128 * units, "TF/s");
  cublasDestroy(handle);
}
