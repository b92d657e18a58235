// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

/// Ends the program when a call of CUDA fails.
#define CHECK(call)                                                              \
  do {                                                                           \
    const cudaError_t check_status = (call);                                     \
    if (check_status != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(check_status)); \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

/// Prints a measured value beside what the GPU's specification allows; ends the program when it
/// lies outside of `low` to `high`.
inline void expect(const char* what, double value, double low, double high, const char* unit) {
  const bool good = value >= low && value <= high;
  std::printf("%-32s %10.3f %-5s (%.3f to %.3f) %s\n", what, value, unit, low, high,
              good ? "ok" : "OUTSIDE");
  if (!good) {
    std::exit(1);
  }
}

inline int attribute(cudaDeviceAttr which) {
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

/// Returns the peak memory bandwidth of device 0 in GB/s: two transfers a clock.
inline double peak_bandwidth() {
  return 2.0 * attribute(cudaDevAttrMemoryClockRate) * 1e3 *
         attribute(cudaDevAttrGlobalMemoryBusWidth) / 8 / 1e9;
}

inline void print_device() {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors, %.1f GiB, %.0f GB/s\n", properties.name,
              properties.multiProcessorCount,
              static_cast<double>(properties.totalGlobalMem) / (1 << 30), peak_bandwidth());
}

/// Returns the milliseconds between two events on the default stream around `work`.
template <typename Work>
double milliseconds(Work&& work) {
  cudaEvent_t start;
  cudaEvent_t end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(start));
  work();
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  float elapsed = 0;
  CHECK(cudaEventElapsedTime(&elapsed, start, end));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(end));
  return elapsed;
}
