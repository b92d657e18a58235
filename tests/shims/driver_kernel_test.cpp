// SPDX-License-Identifier: Apache-2.0
// The driver's modules, kernels and tensor maps: one good call of each function and one bad one.
#include <array>
#include <cstring>
#include <fstream>
#include <vector>

#include "cubin.hpp"
#include "driver_test.hpp"

namespace {

class DriverKernel : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_EQ(call("cuModuleLoadData", &module_, image_.data()), kSuccess);
    ASSERT_EQ(call("cuModuleGetFunction", &kernel_, module_, "add"), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(call("cuModuleUnload", module_), kSuccess);
    Driver::TearDown();
  }

  const std::string image_ = cubin();
  void* module_ = nullptr;
  void* kernel_ = nullptr;
};

TEST_F(DriverKernel, ModulesAreLoadedAndUnloaded) {
  const std::string path = testing::TempDir() + "gpemu_driver_kernel_test.cubin";
  std::ofstream(path, std::ios::binary) << image_;
  const char* const garbage = "garbage";
  void* module = nullptr;
  const auto unload = [&](const char* function) {
    EXPECT_EQ(call(function, module), kSuccess) << function;
    EXPECT_EQ(call(function, module), kInvalidHandle) << function;
  };
  for (const char* load : {"cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"}) {
    EXPECT_EQ(call(load, &module, image_.data(), 0U, none_, none_), kSuccess) << load;
    unload("cuModuleUnload");
    EXPECT_EQ(call(load, &module, garbage, 0U, none_, none_), kInvalidImage) << load;
    EXPECT_EQ(call(load, &module, none_, 0U, none_, none_), kInvalidValue) << load;
  }
  EXPECT_EQ(call("cuModuleLoadDataEx", &module, image_.data(), 1U, none_, none_), kInvalidValue);
  EXPECT_EQ(call("cuModuleLoad", &module, path.c_str()), kSuccess);
  unload("cuModuleUnload");
  EXPECT_EQ(call("cuLibraryLoadData", &module, image_.data(), none_, none_, 0U, none_, none_, 0U),
            kSuccess);
  unload("cuLibraryUnload");
  EXPECT_EQ(call("cuLibraryLoadData", &module, garbage, none_, none_, 0U, none_, none_, 0U),
            kInvalidImage);
  const char* const load_file = "cuLibraryLoadFromFile";
  EXPECT_EQ(call(load_file, &module, path.c_str(), none_, none_, 0U, none_, none_, 0U), kSuccess);
  unload("cuLibraryUnload");
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(call("cuModuleLoad", &module, path.c_str()), kFileNotFound);
  EXPECT_EQ(call(load_file, &module, path.c_str(), none_, none_, 0U, none_, none_, 0U),
            kFileNotFound);
  int mode = 0;
  EXPECT_EQ(call("cuModuleGetLoadingMode", &mode), kSuccess);
  EXPECT_EQ(mode, 2) << "lazy";
  EXPECT_EQ(call("cuModuleGetLoadingMode", none_), kInvalidValue);
}

TEST_F(DriverKernel, ModulesHaveKernelsAndVariables) {
  for (const char* get : {"cuModuleGetFunction", "cuLibraryGetKernel"}) {
    void* kernel = nullptr;
    EXPECT_EQ(call(get, &kernel, module_, "add"), kSuccess) << get;
    EXPECT_EQ(kernel, kernel_) << get;
    EXPECT_EQ(call(get, &kernel, module_, "subtract"), kNotFound) << get;
    EXPECT_EQ(call(get, &kernel, dead_, "add"), kInvalidHandle) << get;
    EXPECT_EQ(call(get, &kernel, module_, none_), kInvalidValue) << get;
  }
  for (const char* get : {"cuModuleGetFunctionCount", "cuLibraryGetKernelCount"}) {
    unsigned count = 0;
    EXPECT_EQ(call(get, &count, module_), kSuccess) << get;
    EXPECT_EQ(count, 1U) << get;
    EXPECT_EQ(call(get, &count, dead_), kInvalidHandle) << get;
    EXPECT_EQ(call(get, none_, module_), kInvalidValue) << get;
  }
  for (const char* get : {"cuModuleEnumerateFunctions", "cuLibraryEnumerateKernels"}) {
    void* kernel = nullptr;
    EXPECT_EQ(call(get, &kernel, 1U, module_), kSuccess) << get;
    EXPECT_EQ(kernel, kernel_) << get;
    EXPECT_EQ(call(get, &kernel, 0U, module_), kInvalidValue) << get;
    EXPECT_EQ(call(get, &kernel, 1U, dead_), kInvalidHandle) << get;
  }
  for (const char* get : {"cuModuleGetGlobal_v2", "cuLibraryGetGlobal"}) {
    Address address = 0;
    size_t bytes = 0;
    int value = 0;
    EXPECT_EQ(call(get, &address, &bytes, module_, "answer"), kSuccess) << get;
    EXPECT_EQ(bytes, sizeof(value));
    EXPECT_EQ(call("cuMemcpyDtoH_v2", &value, address, bytes), kSuccess);
    EXPECT_EQ(value, 42);
    EXPECT_EQ(call(get, &address, &bytes, module_, "question"), kNotFound) << get;
    EXPECT_EQ(call(get, &address, &bytes, module_, none_), kInvalidValue) << get;
  }
  void* module = nullptr;
  EXPECT_EQ(call("cuLibraryGetModule", &module, module_), kSuccess);
  EXPECT_EQ(module, module_);
  EXPECT_EQ(call("cuLibraryGetModule", &module, dead_), kInvalidHandle);
}

TEST_F(DriverKernel, KernelsHaveProperties) {
  constexpr int kMaxThreads = 0, kMaxDynamicShared = 8, kCarveout = 9, kUnknown = 16;
  int value = 0;
  EXPECT_EQ(call("cuFuncGetAttribute", &value, kMaxThreads, kernel_), kSuccess);
  EXPECT_EQ(value, 1024);
  EXPECT_EQ(call("cuFuncGetAttribute", &value, kUnknown, kernel_), kInvalidValue);
  EXPECT_EQ(call("cuFuncGetAttribute", &value, kMaxThreads, dead_), kInvalidHandle);
  EXPECT_EQ(call("cuFuncSetAttribute", kernel_, kMaxDynamicShared, 65536), kSuccess);
  EXPECT_EQ(call("cuFuncSetAttribute", kernel_, kMaxDynamicShared, 1 << 20), kInvalidValue);
  EXPECT_EQ(call("cuFuncSetAttribute", kernel_, kMaxThreads, 512), kInvalidValue);
  EXPECT_EQ(call("cuKernelGetAttribute", &value, kMaxDynamicShared, kernel_, 0), kSuccess);
  EXPECT_EQ(value, 65536);
  EXPECT_EQ(call("cuKernelSetAttribute", kCarveout, 50, kernel_, 0), kSuccess);
  EXPECT_EQ(call("cuKernelGetAttribute", &value, kCarveout, kernel_, 0), kSuccess);
  EXPECT_EQ(value, 50);
  EXPECT_EQ(call("cuKernelSetAttribute", kCarveout, 101, kernel_, 0), kInvalidValue);
  EXPECT_EQ(call("cuKernelGetAttribute", &value, kCarveout, kernel_, kNoSuchDevice),
            kInvalidDevice);
  EXPECT_EQ(call("cuKernelSetAttribute", kCarveout, 50, kernel_, kNoSuchDevice), kInvalidDevice);
  const struct {
    const char* function;
    int largest;
  } advice[] = {
      {"cuFuncSetCacheConfig", 3}, {"cuFuncSetSharedMemConfig", 2}, {"cuKernelSetCacheConfig", 3}};
  for (const auto& [function, largest] : advice) {
    EXPECT_EQ(call(function, kernel_, largest, 0), kSuccess) << function;
    EXPECT_EQ(call(function, kernel_, largest + 1, 0), kInvalidValue) << function;
    EXPECT_EQ(call(function, dead_, 0, 0), kInvalidHandle) << function;
  }
  EXPECT_EQ(call("cuKernelSetCacheConfig", kernel_, 0, kNoSuchDevice), kInvalidDevice);
  const struct {
    const char* function;
    const void* expected;
  } parts[] = {{"cuFuncGetModule", module_},
               {"cuKernelGetLibrary", module_},
               {"cuKernelGetFunction", kernel_}};
  for (const auto& [function, expected] : parts) {
    const void* part = nullptr;
    EXPECT_EQ(call(function, &part, kernel_), kSuccess) << function;
    EXPECT_EQ(part, expected) << function;
  }
  for (const char* get : {"cuFuncGetName", "cuKernelGetName"}) {
    const char* name = nullptr;
    EXPECT_EQ(call(get, &name, kernel_), kSuccess) << get;
    EXPECT_STREQ(name, "add") << get;
  }
  EXPECT_EQ(call("cuFuncIsLoaded", &value, kernel_), kSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(call("cuFuncLoad", kernel_), kSuccess);
  EXPECT_EQ(call("cuFuncLoad", dead_), kInvalidHandle);
  for (const char* get : {"cuFuncGetModule", "cuKernelGetLibrary", "cuKernelGetFunction",
                          "cuFuncGetName", "cuKernelGetName", "cuFuncIsLoaded"}) {
    void* part = nullptr;
    EXPECT_EQ(call(get, &part, dead_), kInvalidHandle) << get;
    EXPECT_EQ(call(get, none_, kernel_), kInvalidValue) << get;
  }
}

// CUlaunchConfig and CUlaunchAttribute.
struct LaunchAttribute {
  int id;
  char padding[4];
  unsigned value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr int kCooperative = 2, kClusters = 4;

TEST_F(DriverKernel, KernelsAreLaunched) {
  void* extra[] = {nullptr};
  const auto launch = [&](const std::string& name, void* kernel, unsigned grid, unsigned block,
                          void* stream, void** arguments, void** packed) {
    return call(name.c_str(), kernel, grid, 1U, 1U, block, 1U, 1U, 0U, stream, arguments, packed);
  };
  for (const std::string suffix : {"", "_ptsz"}) {
    for (const std::string& name :
         {"cuLaunchKernel" + suffix, "cuLaunchCooperativeKernel" + suffix}) {
      EXPECT_EQ(launch(name, kernel_, 80, 256, none_, nullptr, nullptr), kSuccess) << name;
      EXPECT_EQ(launch(name, kernel_, 0, 256, none_, nullptr, nullptr), kInvalidValue) << name;
      EXPECT_EQ(launch(name, kernel_, 80, 1025, none_, nullptr, nullptr), kInvalidValue) << name;
      EXPECT_EQ(launch(name, dead_, 80, 256, none_, nullptr, nullptr), kInvalidHandle) << name;
      EXPECT_EQ(launch(name, kernel_, 80, 256, dead_, nullptr, nullptr), kInvalidHandle) << name;
    }
    EXPECT_EQ(launch("cuLaunchKernel" + suffix, kernel_, 80, 256, none_, extra, extra),
              kInvalidValue);
    EXPECT_EQ(launch("cuLaunchCooperativeKernel" + suffix, kernel_, 1 << 20, 1024, none_, nullptr,
                     nullptr),
              720)
        << "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE";
    const std::string launch_ex = "cuLaunchKernelEx" + suffix;
    LaunchAttribute attribute{kCooperative, {}, {1}};
    LaunchConfig config{{80, 1, 1}, {256, 1, 1}, 0, nullptr, &attribute, 1};
    EXPECT_EQ(call(launch_ex.c_str(), &config, kernel_, none_, none_), kSuccess);
    attribute = {kClusters, {}, {2, 1, 1}};
    EXPECT_EQ(call(launch_ex.c_str(), &config, kernel_, none_, none_), kNotSupported);
    EXPECT_EQ(call(launch_ex.c_str(), none_, kernel_, none_, none_), kInvalidValue);
    config.attributes = nullptr;
    EXPECT_EQ(call(launch_ex.c_str(), &config, kernel_, none_, none_), kInvalidValue);
  }
  EXPECT_EQ(call("cuCtxSynchronize"), kSuccess);
}

TEST_F(DriverKernel, OccupancyFollowsFromTheLimitsOfAMultiprocessor) {
  int blocks = 0, grid = 0, block = 0;
  size_t shared = 0;
  const std::string count = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
  const std::string best = "cuOccupancyMaxPotentialBlockSize";
  for (const std::string& name : {count, count + "WithFlags"}) {
    EXPECT_EQ(call(name.c_str(), &blocks, kernel_, 1024, size_t{0}, 0U), kSuccess) << name;
    EXPECT_EQ(blocks, 2) << "2048 threads";
    EXPECT_EQ(call(name.c_str(), &blocks, kernel_, 0, size_t{0}, 0U), kInvalidValue) << name;
    EXPECT_EQ(call(name.c_str(), &blocks, dead_, 1024, size_t{0}, 0U), kInvalidHandle) << name;
    EXPECT_EQ(call(name.c_str(), none_, kernel_, 1024, size_t{0}, 0U), kInvalidValue) << name;
  }
  EXPECT_EQ(call((count + "WithFlags").c_str(), &blocks, kernel_, 1024, size_t{0}, 2U),
            kInvalidValue);
  for (const std::string& name : {best, best + "WithFlags"}) {
    const auto find = [&](int* threads, void* kernel, int limit, unsigned flags) {
      return call(name.c_str(), &grid, threads, kernel, none_, size_t{0}, limit, flags);
    };
    EXPECT_EQ(find(&block, kernel_, 0, 0), kSuccess) << name;
    EXPECT_EQ(grid * block, 80 * 2048) << name;
    EXPECT_EQ(find(&block, kernel_, 128, 0), kSuccess) << name;
    EXPECT_EQ(block, 128) << name;
    EXPECT_EQ(find(nullptr, kernel_, 0, 0), kInvalidValue) << name;
    EXPECT_EQ(find(&block, dead_, 0, 0), kInvalidHandle) << name;
  }
  EXPECT_EQ(call((best + "WithFlags").c_str(), &grid, &block, kernel_, none_, size_t{0}, 0, 2U),
            kInvalidValue);
  const char* const available = "cuOccupancyAvailableDynamicSMemPerBlock";
  EXPECT_EQ(call(available, &shared, kernel_, 2, 1024), kSuccess);
  EXPECT_EQ(shared, 48U << 10) << "half of 96 KiB";
  EXPECT_EQ(call(available, &shared, kernel_, 0, 1024), kInvalidValue);
  LaunchConfig config{{80, 1, 1}, {1024, 1, 1}, 0, nullptr, nullptr, 0};
  EXPECT_EQ(call("cuOccupancyMaxActiveClusters", &blocks, kernel_, &config), kSuccess);
  EXPECT_EQ(blocks, 160) << "clusters of one block";
  EXPECT_EQ(call("cuOccupancyMaxPotentialClusterSize", &blocks, kernel_, &config), kSuccess);
  EXPECT_EQ(blocks, 1) << "a V100 has no clusters";
  each({"cuOccupancyMaxActiveClusters", "cuOccupancyMaxPotentialClusterSize"}, kInvalidValue,
       &blocks, kernel_, none_);
  each({"cuOccupancyMaxActiveClusters", "cuOccupancyMaxPotentialClusterSize"}, kInvalidHandle,
       &blocks, dead_, &config);
}

}  // namespace
