// SPDX-License-Identifier: Apache-2.0
// Both runtime stand-ins on an emulated GPU: argument checks, last errors, layouts.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

enum Status {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidPitch = 12,
  kInvalidSymbol = 13,
  kInvalidDirection = 21,
  kInvalidFunction = 98,
  kInvalidDevice = 101,
  kInvalidHandle = 400,
  kNotSupported = 801
};

struct Runtime {
  const char* path;
  int major;
  size_t properties_bytes;
  size_t multiprocessors_offset;  // of cudaDeviceProp::multiProcessorCount
  const char* get_properties;
};

class CudaRuntime : public testing::TestWithParam<Runtime> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("GPEMU_GPU", "V100-PCIE-32GB", 1), 0);
    ASSERT_EQ(setenv("GPEMU_CLOCK", "virtual", 1), 0);
    library_ = dlopen(GetParam().path, RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    (void)call("cudaGetLastError");
  }

  /// Calls a function of the runtime; integers and pointers arrive as its prototype wants them.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) {
      ADD_FAILURE() << name << " is missing";
      return -1;
    }
    return function(arguments...);
  }

  void* library_ = nullptr;
};

void* const kNull = nullptr;

TEST_P(CudaRuntime, NullPointersAreRefusedAndRemembered) {
  EXPECT_EQ(call("cudaMalloc", kNull, size_t{16}), kInvalidValue);
  EXPECT_EQ(call("cudaGetLastError"), kInvalidValue);
  EXPECT_EQ(call("cudaGetLastError"), kSuccess);
  EXPECT_EQ(call("cudaGetDevice", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaGetDeviceCount", kNull), kInvalidValue);
  EXPECT_EQ(call(GetParam().get_properties, kNull, 0), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceGetAttribute", kNull, 16, 0), kInvalidValue);
  EXPECT_EQ(call("cudaHostAlloc", kNull, size_t{16}, 0U), kInvalidValue);
  EXPECT_EQ(call("cudaMemGetInfo", kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaPointerGetAttributes", kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaStreamCreate", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaEventCreate", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaEventElapsedTime", kNull, kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaGraphCreate", kNull, 0U), kInvalidValue);
  EXPECT_EQ(call("cudaGraphInstantiate", kNull, kNull, 0ULL), kInvalidValue);
  EXPECT_EQ(call("cudaLaunchKernelExC", kNull, kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaMemcpy3D", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaRuntimeGetVersion", kNull), kInvalidValue);
}

TEST_P(CudaRuntime, SuccessDoesNotClearTheLastError) {
  int device = -1;
  EXPECT_EQ(call("cudaSetDevice", 4096), kInvalidDevice);
  EXPECT_EQ(call("cudaGetDevice", &device), kSuccess);
  EXPECT_EQ(call("cudaPeekAtLastError"), kInvalidDevice);
  EXPECT_EQ(call("cudaGetLastError"), kInvalidDevice);
  EXPECT_EQ(call("cudaPeekAtLastError"), kSuccess);
}

TEST_P(CudaRuntime, DeadHandlesAreRefused) {
  void* stray = &library_;
  EXPECT_EQ(call("cudaStreamSynchronize", stray), kInvalidHandle);
  EXPECT_EQ(call("cudaStreamQuery", stray), kInvalidHandle);
  EXPECT_EQ(call("cudaEventSynchronize", stray), kInvalidHandle);
  EXPECT_EQ(call("cudaEventRecord", stray, kNull), kInvalidHandle);
  void* stream = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), kSuccess);
  EXPECT_EQ(call("cudaStreamDestroy", stream), kSuccess);
  EXPECT_EQ(call("cudaStreamDestroy", stream), kInvalidHandle);
}

TEST_P(CudaRuntime, UnknownFunctionsAndSymbolsAreRefused) {
  char attributes[144];
  void* address = nullptr;
  EXPECT_EQ(call("cudaFuncGetAttributes", static_cast<void*>(attributes), kNull), kInvalidFunction);
  EXPECT_EQ(
      call("cudaFuncGetAttributes", static_cast<void*>(attributes), static_cast<void*>(&address)),
      kInvalidFunction);
  EXPECT_EQ(call("cudaGetSymbolAddress", &address, static_cast<void*>(&address)), kInvalidSymbol);
}

TEST_P(CudaRuntime, CopiesCheckDirectionAndPitch) {
  char from[64] = {};
  char to[64] = {};
  EXPECT_EQ(call("cudaMemcpy", to, from, sizeof(to), 5), kInvalidDirection);
  EXPECT_EQ(call("cudaMemcpy", to, from, sizeof(to), -1), kInvalidDirection);
  EXPECT_EQ(call("cudaMemcpy2D", to, size_t{8}, from, size_t{8}, size_t{16}, size_t{2}, 0),
            kInvalidPitch);
}

TEST_P(CudaRuntime, MemoryKeepsWhatIsCopiedAndEndsAtTheCapacity) {
  void* memory = nullptr;
  ASSERT_EQ(call("cudaMalloc", &memory, size_t{4096}), kSuccess);
  const std::vector<char> from(4096, 'x');
  std::vector<char> to(4096, '\0');
  EXPECT_EQ(call("cudaMemcpy", memory, from.data(), from.size(), 1), kSuccess);
  EXPECT_EQ(call("cudaMemcpy", to.data(), memory, to.size(), 2), kSuccess);
  EXPECT_EQ(from, to);
  EXPECT_EQ(call("cudaFree", memory), kSuccess);
  EXPECT_EQ(call("cudaFree", memory), kInvalidValue);
  EXPECT_EQ(call("cudaMalloc", &memory, size_t{1} << 40), kOutOfMemory);
}

TEST_P(CudaRuntime, PropertiesAgreeWithAttributes) {
  // A guard behind the structure shows that no more than its layout is written.
  std::vector<char> properties(GetParam().properties_bytes + 64, '\x5a');
  ASSERT_EQ(call(GetParam().get_properties, properties.data(), 0), kSuccess);
  EXPECT_NE(std::string(properties.data()).find("V100"), std::string::npos);
  int32_t from_structure = 0;
  std::memcpy(&from_structure, properties.data() + GetParam().multiprocessors_offset, 4);
  int from_attribute = 0;
  EXPECT_EQ(call("cudaDeviceGetAttribute", &from_attribute, 16, 0), kSuccess);
  EXPECT_EQ(from_attribute, 80);
  EXPECT_EQ(from_structure, from_attribute);
  EXPECT_EQ(std::string(properties.end() - 64, properties.end()), std::string(64, '\x5a'));
  EXPECT_EQ(call("cudaDeviceGetAttribute", &from_attribute, 146, 0), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceGetAttribute", &from_attribute, 16, -1), kInvalidDevice);
}

TEST_P(CudaRuntime, WhatIsNotSupportedSaysSo) {
  EXPECT_EQ(call("cudaMallocArray", kNull), kNotSupported);
  void* table = &library_;
  EXPECT_EQ(call("cudaGetExportTable", &table, kNull), 500);
  EXPECT_EQ(table, nullptr);
}

TEST_P(CudaRuntime, VersionIsTheOneOfItsName) {
  int version = 0;
  EXPECT_EQ(call("cudaRuntimeGetVersion", &version), kSuccess);
  EXPECT_EQ(version / 1000, GetParam().major);
}

INSTANTIATE_TEST_SUITE_P(
    Majors, CudaRuntime,
    testing::Values(Runtime{GPEMU_TEST_RUNTIME_12, 12, 1032, 388, "cudaGetDeviceProperties_v2"},
                    Runtime{GPEMU_TEST_RUNTIME_13, 13, 1008, 384, "cudaGetDeviceProperties"}),
    [](const auto& runtime) { return "Cuda" + std::to_string(runtime.param.major); });

}  // namespace
