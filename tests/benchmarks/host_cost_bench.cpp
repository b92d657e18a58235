// SPDX-License-Identifier: Apache-2.0
//
// What calls of an emulated program cost the host, through the shim for CUDA's runtime that an
// unmodified program gets, on the real clock; and what allocated memory of the device costs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <unistd.h>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

struct Dim3 {
  unsigned x, y, z;
};

constexpr int kHostToDevice = 1;
constexpr int kDeviceToDevice = 3;
constexpr std::size_t kMostCopied = 1 << 20;

/// Ends the program: a benchmark without what it measures says nothing.
void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "host_cost_bench: %s failed\n", what);
  std::exit(1);
}

/// The runtime shim, loaded as programs do.
struct Runtime {
  int (*launch)(const void*, Dim3, Dim3, void**, std::size_t, void*);
  int (*record)(void*, void*);
  int (*copy)(void*, const void*, std::size_t, int, void*);
  int (*set)(void*, int, std::size_t, void*);
  int (*create_event)(void**);
  int (*allocate)(void**, std::size_t);
  int (*allocate_pinned)(void**, std::size_t, unsigned);
  int (*free)(void*);
  void (*register_kernel)(void**, const char*, char*, const char*, int, void*, void*, void*, void*,
                          int*);
};

template <typename Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  require(function != nullptr, name);
}

/// The host's side of a kernel of PyTorch; nobody calls it.
char kernel;

const Runtime& runtime() {
  static const Runtime loaded = [] {
    ::setenv("GPEMU_GPU", "A100-SXM4-80GB", 1);
    void* const library = ::dlopen(GPEMU_BENCH_RUNTIME, RTLD_NOW | RTLD_LOCAL);
    require(library != nullptr, "dlopen of the runtime shim");
    Runtime result{};
    load(library, "cudaLaunchKernel", result.launch);
    load(library, "cudaEventRecord", result.record);
    load(library, "cudaMemcpyAsync", result.copy);
    load(library, "cudaMemsetAsync", result.set);
    load(library, "cudaEventCreate", result.create_event);
    load(library, "cudaMalloc", result.allocate);
    load(library, "cudaHostAlloc", result.allocate_pinned);
    load(library, "cudaFree", result.free);
    load(library, "__cudaRegisterFunction", result.register_kernel);
    result.register_kernel(nullptr, &kernel, nullptr,
                           "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
                           "15CUDAFunctor_addIfEESt5arrayIPcLm3EELb0EEEviT0_T1_",
                           -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    return result;
  }();
  return loaded;
}

/// Returns the memory that this process has in the host's.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

/// 40 GB of the device's memory, allocated, set to zero, used by kernels, never read back. Fails
/// when the host gives a gigabyte for it. The first benchmark: cudaFree waits for the device, to
/// which the others give more work than it does meanwhile.
void BM_FortyGigabytesOfDeviceMemory(benchmark::State& state) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  constexpr int kBlocks = 38;  // 40.8e9 bytes
  constexpr double kMostOfHost = 1e9;
  const Runtime& cuda = runtime();
  double most = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double before = resident_bytes();
    std::vector<void*> blocks(kBlocks);
    int status = 0;
    for (void*& block : blocks) status |= cuda.allocate(&block, kBytes);
    require(status == 0, "cudaMalloc");
    for (void* block : blocks) {
      status |= cuda.set(block, 0, kBytes, nullptr);
      status |= cuda.launch(&kernel, {1 << 16, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr);
    }
    most = std::max(most, resident_bytes() - before);
    for (void* block : blocks) status |= cuda.free(block);
    require(status == 0, "work in 40 GB");
  }
  state.counters["device_bytes"] = static_cast<double>(kBytes) * kBlocks;
  state.counters["host_bytes"] = most;
  if (most >= kMostOfHost) state.SkipWithError("the host gave a gigabyte or more");
}
BENCHMARK(BM_FortyGigabytesOfDeviceMemory)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// A launch of a kernel that was launched before.
void BM_CudaLaunchKernel(benchmark::State& state) {
  const Runtime& cuda = runtime();
  // As the kernel's signature has it: elements, what to do with them, the tensors' addresses.
  int elements = 1 << 10;
  float scale = 1;
  void* addresses[3] = {};
  void* arguments[] = {&elements, &scale, addresses};
  int status = cuda.launch(&kernel, {1, 1, 1}, {128, 1, 1}, arguments, 0, nullptr);
  for ([[maybe_unused]] auto _ : state) {
    status |= cuda.launch(&kernel, {1, 1, 1}, {128, 1, 1}, arguments, 0, nullptr);
  }
  require(status == 0, "cudaLaunchKernel");
}
BENCHMARK(BM_CudaLaunchKernel);

void BM_CudaEventRecord(benchmark::State& state) {
  const Runtime& cuda = runtime();
  void* event = nullptr;
  int status = cuda.create_event(&event);
  for ([[maybe_unused]] auto _ : state) status |= cuda.record(event, nullptr);
  require(status == 0, "cudaEventRecord");
}
BENCHMARK(BM_CudaEventRecord);

/// Returns memory of the device that is never freed.
void* allocated(std::size_t bytes) {
  void* memory = nullptr;
  require(runtime().allocate(&memory, bytes) == 0, "cudaMalloc");
  return memory;
}

/// A copy whose content nobody keeps: of a word on the device.
void BM_CudaMemcpyAsync(benchmark::State& state) {
  const Runtime& cuda = runtime();
  static void* const memory = allocated(4096);
  int status = 0;
  for ([[maybe_unused]] auto _ : state) {
    status |= cuda.copy(static_cast<char*>(memory) + 512, memory, 4, kDeviceToDevice, nullptr);
  }
  require(status == 0, "cudaMemcpyAsync");
}
BENCHMARK(BM_CudaMemcpyAsync);

/// A copy from page-locked memory, with the content that it may have to keep.
void BM_CudaMemcpyAsyncPinned(benchmark::State& state) {
  const Runtime& cuda = runtime();
  const auto bytes = static_cast<std::size_t>(state.range(0));
  static void* const memory = allocated(kMostCopied);
  static void* const pinned = [&] {
    void* result = nullptr;
    require(cuda.allocate_pinned(&result, kMostCopied, 0) == 0, "cudaHostAlloc");
    return result;
  }();
  int status = 0;
  for ([[maybe_unused]] auto _ : state) {
    status |= cuda.copy(memory, pinned, bytes, kHostToDevice, nullptr);
  }
  require(status == 0, "cudaMemcpyAsync");
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}
BENCHMARK(BM_CudaMemcpyAsyncPinned)->Arg(64)->Arg(kMostCopied);

}  // namespace
