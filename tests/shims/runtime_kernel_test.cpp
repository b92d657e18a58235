// SPDX-License-Identifier: Apache-2.0
// The runtime's kernels, libraries and entry points: one good call of each function and one bad
// one.
#include <cstdint>
#include <fstream>

#include "cubin.hpp"
#include "runtime_calls.hpp"

namespace {

// dim3, cudaLaunchConfig_t and cudaLaunchAttribute.
struct Dim3 {
  unsigned x, y, z;
};
struct LaunchAttribute {
  int id;
  char padding[4];
  unsigned value[16];
};
struct LaunchConfig {
  Dim3 grid, block;
  size_t shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr size_t kNoShared = 0;
constexpr int kCooperativeTooLarge = 720, kNotFound = 500, kInvalidConfiguration = 9,
              kFileNotFound = 301, kInvalidImage = 200;

class RuntimeKernels : public RuntimeCalls {
 protected:
  void SetUp() override {
    RuntimeCalls::SetUp();
    call_as<void>("__cudaRegisterFunction", call_as<void*>("__cudaRegisterFatBinary", &binary_),
                  function_, none_, "add", -1, none_, none_, none_, none_, none_);
    ASSERT_EQ(call("cudaGetKernel", &kernel_, function_), kSuccess);
  }
  void TearDown() override { call_as<void>("__cudaUnregisterFatBinary", &binary_); }

  /// Returns the status for an address at which there is no function: CUDA 13 calls it a handle.
  static int no_function() { return GetParam() < 13 ? kInvalidFunction : kInvalidHandle; }

  int binary_ = 0;
  void* const function_ = &kernel_;  ///< the address that the program launches.
  void* kernel_ = nullptr;
};

TEST_P(RuntimeKernels, KernelsAreFoundByTheirFunctions) {
  for (const char* get : {"__cudaGetKernel", "cudaGetKernel", "cudaGetFuncBySymbol"}) {
    void* kernel = nullptr;
    EXPECT_EQ(call(get, &kernel, function_), kSuccess) << get;
    EXPECT_EQ(kernel, kernel_) << get;
    EXPECT_EQ(call(get, &kernel, dead_), no_function()) << get;
    EXPECT_EQ(call(get, none_, function_), kInvalidValue) << get;
  }
  uint64_t attributes[18] = {};  // cudaFuncAttributes, which was 56 bytes until CUDA 11
  attributes[7] = 1;
  EXPECT_EQ(call("cudaFuncGetAttributes", &attributes[0], function_), kSuccess);
  EXPECT_EQ(attributes[3] & 0xffffffff, 1024U) << "threads of a block";
  EXPECT_EQ(attributes[7], GetParam() == 11 ? 1U : 0U);
  const char* name = nullptr;
  EXPECT_EQ(call("cudaFuncGetName", &name, function_), kSuccess);
  EXPECT_STREQ(name, "add");
  EXPECT_EQ(call("cudaFuncGetName", none_, function_), kInvalidValue);
  EXPECT_EQ(call("cudaFuncGetName", &name, dead_), no_function());
  call_as<void>("__cudaUnregisterFatBinary", &binary_);
  EXPECT_EQ(call("cudaFuncGetName", &name, function_), no_function());
}

TEST_P(RuntimeKernels, KernelsAreLaunched) {
  const Dim3 grid{80, 1, 1}, block{256, 1, 1}, none{0, 1, 1}, many{1 << 20, 1, 1};
  for (const char* launch : {"cudaLaunchKernel", "cudaLaunchCooperativeKernel"}) {
    twins(launch, kSuccess, function_, grid, block, none_, kNoShared, none_);
    twins(launch, GetParam() < 13 ? kInvalidConfiguration : kInvalidValue, function_, none, block,
          none_, kNoShared, none_);
    twins(launch, no_function(), dead_, grid, block, none_, kNoShared, none_);
    twins(launch, kInvalidHandle, function_, grid, block, none_, kNoShared, dead_);
  }
  twins("cudaLaunchCooperativeKernel", kCooperativeTooLarge, function_, many, block, none_,
        kNoShared, none_);
  twins("__cudaLaunchKernel", kSuccess, kernel_, grid, block, none_, kNoShared, none_);
  twins("__cudaLaunchKernel", kInvalidHandle, dead_, grid, block, none_, kNoShared, none_);
  LaunchAttribute attribute{2, {}, {1}};  // cudaLaunchAttributeCooperative
  LaunchConfig config{grid, block, 0, nullptr, &attribute, 1};
  twins("cudaLaunchKernelExC", kSuccess, &config, function_, none_);
  attribute = {4, {}, {2, 1, 1}};  // cudaLaunchAttributeClusterDimension
  twins("cudaLaunchKernelExC", kNotSupported, &config, function_, none_);
  twins("cudaLaunchKernelExC", kInvalidValue, none_, function_, none_);
  EXPECT_EQ(call("cudaDeviceSynchronize"), kSuccess);
}

TEST_P(RuntimeKernels, KernelsHaveAttributesAndAnOccupancy) {
  constexpr int kMaxThreads = 0, kMaxDynamicShared = 8, kCarveout = 9;
  EXPECT_EQ(call("cudaFuncSetAttribute", function_, kMaxDynamicShared, 65536), kSuccess);
  EXPECT_EQ(call("cudaFuncSetAttribute", function_, kMaxThreads, 512), kInvalidValue);
  EXPECT_EQ(call("cudaFuncSetAttribute", dead_, kMaxDynamicShared, 65536), no_function());
  const char* const set_for_device = "cudaKernelSetAttributeForDevice";
  EXPECT_EQ(call(set_for_device, kernel_, kCarveout, 50, 0), kSuccess);
  EXPECT_EQ(call(set_for_device, kernel_, kCarveout, 101, 0), kInvalidValue);
  EXPECT_EQ(call(set_for_device, kernel_, kCarveout, 50, kNoSuchDevice), kInvalidDevice);
  for (const auto& [advise, largest] :
       {std::pair{"cudaFuncSetCacheConfig", 3}, {"cudaFuncSetSharedMemConfig", 2}}) {
    EXPECT_EQ(call(advise, function_, largest), kSuccess) << advise;
    EXPECT_EQ(call(advise, function_, largest + 1), kInvalidValue) << advise;
    EXPECT_EQ(call(advise, dead_, 0), no_function()) << advise;
  }
  int blocks = 0;
  for (const char* count : {"cudaOccupancyMaxActiveBlocksPerMultiprocessor",
                            "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"}) {
    EXPECT_EQ(call(count, &blocks, function_, 1024, kNoShared, 0U), kSuccess) << count;
    EXPECT_EQ(blocks, 2) << "2048 threads";
    EXPECT_EQ(call(count, &blocks, function_, 0, kNoShared, 0U), kInvalidValue) << count;
    EXPECT_EQ(call(count, &blocks, dead_, 1024, kNoShared, 0U), no_function()) << count;
  }
  size_t shared = 0;
  const char* const available = "cudaOccupancyAvailableDynamicSMemPerBlock";
  EXPECT_EQ(call(available, &shared, function_, 2, 1024), kSuccess);
  EXPECT_EQ(shared, 48U << 10) << "half of 96 KiB";
  EXPECT_EQ(call(available, &shared, function_, 0, 1024), kInvalidValue);
  const LaunchConfig config{{80, 1, 1}, {1024, 1, 1}, 0, nullptr, nullptr, 0};
  EXPECT_EQ(call("cudaOccupancyMaxActiveClusters", &blocks, function_, &config), kSuccess);
  EXPECT_EQ(blocks, 160) << "clusters of one block";
  EXPECT_EQ(call("cudaOccupancyMaxPotentialClusterSize", &blocks, function_, &config), kSuccess);
  EXPECT_EQ(blocks, 1) << "a V100 has no clusters";
  each({"cudaOccupancyMaxActiveClusters", "cudaOccupancyMaxPotentialClusterSize"}, kInvalidValue,
       &blocks, function_, none_);
}

TEST_P(RuntimeKernels, LibrariesAreLoaded) {
  // PTX, whose kernels are found by any name and whose number is not known.
  const std::string image = ".version 7.0\n.target sm_70\n";
  const std::string path =
      testing::TempDir() + "gpemu_runtime_kernel_test_" + std::to_string(GetParam()) + ".ptx";
  std::ofstream(path) << image;
  void *library = nullptr, *kernel = nullptr, *address = nullptr;
  unsigned count = 0;
  size_t bytes = 0;
  const auto load = [&](const char* function, const char* from) {
    return call(function, &library, from, none_, none_, 0U, none_, none_, 0U);
  };
  ASSERT_EQ(load("cudaLibraryLoadFromFile", path.c_str()), kSuccess);
  EXPECT_EQ(call("cudaLibraryUnload", library), kSuccess);
  EXPECT_EQ(call("cudaLibraryUnload", library), kInvalidHandle);
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(load("cudaLibraryLoadFromFile", path.c_str()), kFileNotFound);
  EXPECT_EQ(load("cudaLibraryLoadData", "garbage"), kInvalidImage);
  EXPECT_EQ(load("cudaLibraryLoadData", nullptr), kInvalidValue);
  ASSERT_EQ(load("cudaLibraryLoadData", image.c_str()), kSuccess);
  EXPECT_EQ(call("cudaLibraryGetKernel", &kernel, library, "add"), kSuccess);
  EXPECT_EQ(
      call("__cudaLaunchKernel", kernel, Dim3{1, 1, 1}, Dim3{1, 1, 1}, none_, kNoShared, none_),
      kSuccess);
  EXPECT_EQ(call("cudaLibraryGetKernel", &kernel, library, none_), kInvalidValue);
  EXPECT_EQ(call("cudaLibraryGetKernel", &kernel, dead_, "add"), kInvalidHandle);
  EXPECT_EQ(call("cudaLibraryGetKernelCount", &count, library), kNotSupported);
  EXPECT_EQ(call("cudaLibraryGetKernelCount", &count, dead_), kInvalidHandle);
  EXPECT_EQ(call("cudaLibraryEnumerateKernels", &kernel, 1U, library), kNotSupported);
  EXPECT_EQ(call("cudaLibraryEnumerateKernels", &kernel, 0U, library), kInvalidValue);
  EXPECT_EQ(call("cudaLibraryGetGlobal", &address, &bytes, library, "answer"), kNotFound);
  EXPECT_EQ(call("cudaLibraryGetGlobal", &address, &bytes, library, none_), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceSynchronize"), kSuccess);
  EXPECT_EQ(call("cudaLibraryUnload", library), kSuccess);
  const std::string code = cubin();
  ASSERT_EQ(load("cudaLibraryLoadData", code.data()), kSuccess);
  EXPECT_EQ(call("cudaLibraryGetKernelCount", &count, library), kSuccess);
  EXPECT_EQ(count, 1U);
  kernel = nullptr;
  EXPECT_EQ(call("cudaLibraryEnumerateKernels", &kernel, 1U, library), kSuccess);
  EXPECT_NE(kernel, nullptr);
  EXPECT_EQ(call("cudaLibraryGetGlobal", &address, &bytes, library, "answer"), kSuccess);
  EXPECT_EQ(bytes, 4U);
  EXPECT_EQ(call("cudaLibraryUnload", library), kSuccess);
}

TEST_P(RuntimeKernels, EntryPointsOfTheDriverAreFound) {
  constexpr uint64_t kUsual = 0, kUnknownFlag = 4;
  // The runtime finds the driver by its name, as a program does that has loaded it.
  load({GPEMU_TEST_DRIVER});
  void *of_thread = nullptr, *usual = nullptr;
  int found = -1;
  EXPECT_EQ(call("cudaGetDriverEntryPoint", "cuLaunchKernel", &usual, kUsual, &found), kSuccess);
  EXPECT_EQ(found, GetParam() == 11 ? -1 : 0) << "CUDA 11 has no such argument";
  EXPECT_EQ(call("cudaGetDriverEntryPoint_ptsz", "cuLaunchKernel", &of_thread, kUsual, &found),
            kSuccess);
  EXPECT_NE(usual, of_thread);
  const std::string by_version = "cudaGetDriverEntryPointByVersion";
  for (const auto& [suffix, expected] : {std::pair{"", usual}, {"_ptsz", of_thread}}) {
    const auto find = [&](const char* symbol, unsigned version, uint64_t flags, void** function) {
      return call((by_version + suffix).c_str(), symbol, function, version, flags, &found);
    };
    void* function = nullptr;
    EXPECT_EQ(find("cuLaunchKernel", 12000, kUsual, &function), kSuccess);
    EXPECT_EQ(function, expected) << suffix;
    EXPECT_EQ(find("cuNone", 12000, kUsual, &function), kSuccess);
    EXPECT_EQ(found, 1) << "the output, and not the status, shows it";
    EXPECT_EQ(function, nullptr);
    EXPECT_EQ(find("cuLaunchKernel", 12000, kUnknownFlag, &function), kInvalidValue);
    EXPECT_EQ(find("cuLaunchKernel", 12000, kUsual, nullptr), kInvalidValue);
  }
  twins("cudaGetDriverEntryPoint", kInvalidValue, "cuInit", none_, kUsual, &found);
  if (GetParam() == 13) {
    EXPECT_EQ(call_as<void*>("__cudaGetProcAddress", "cuInit"), nullptr);
  }
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeKernels);

}  // namespace
