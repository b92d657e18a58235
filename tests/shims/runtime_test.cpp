// SPDX-License-Identifier: Apache-2.0
// Both runtime shims on an emulated GPU: argument checks, last errors, layouts.
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "loaded_libraries.hpp"

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

/// Keeps addresses out of the names of tests.
void PrintTo(const Runtime& runtime, std::ostream* stream) {
  *stream << "CUDA " << runtime.major;
}

class CudaRuntime : public LoadedLibraries, public testing::WithParamInterface<Runtime> {
 protected:
  void SetUp() override {
    load({GetParam().path});
    (void)call("cudaGetLastError");
  }

  int host_ = 0;
};

void* const kNull = nullptr;

TEST_P(CudaRuntime, AConfigurationStaysUntilThereIsRoomForIt) {
  struct Sizes {
    unsigned x, y, z;
  };
  Sizes grid{};
  Sizes block{};
  size_t shared = 0;
  void* stream = &shared;
  ASSERT_EQ(call("__cudaPushCallConfiguration", Sizes{2, 1, 1}, Sizes{3, 1, 1}, size_t{5}, kNull),
            kSuccess);
  EXPECT_EQ(call("__cudaPopCallConfiguration", kNull, &block, &shared, &stream), kInvalidValue);
  EXPECT_EQ(call("__cudaPopCallConfiguration", &grid, &block, &shared, kNull), kInvalidValue);
  EXPECT_EQ(call("__cudaPopCallConfiguration", &grid, &block, &shared, &stream), kSuccess);
  EXPECT_EQ(grid.x, 2U);
  EXPECT_EQ(block.x, 3U);
  EXPECT_EQ(shared, 5U);
  EXPECT_EQ(stream, nullptr);
}

TEST_P(CudaRuntime, NullPointersAreRefusedAndRemembered) {
  EXPECT_EQ(call("cudaMalloc", kNull, size_t{16}), kInvalidValue);
  EXPECT_EQ(call("cudaGetLastError"), kInvalidValue);
  EXPECT_EQ(call("cudaGetLastError"), kSuccess);
  EXPECT_EQ(call("cudaGetDevice", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaGetDeviceCount", kNull), kInvalidValue);
  EXPECT_EQ(call(GetParam().get_properties, kNull, 0), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceGetAttribute", kNull, 16, 0), kInvalidValue);
  EXPECT_EQ(call("cudaHostAlloc", kNull, size_t{16}, 0U), kInvalidValue);
  EXPECT_EQ(call("cudaMemGetInfo", kNull, kNull), kSuccess) << "results are optional";
  EXPECT_EQ(call("cudaPointerGetAttributes", kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaStreamCreate", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaEventCreate", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaEventElapsedTime", kNull, kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaGraphCreate", kNull, 0U), kInvalidValue);
  EXPECT_EQ(call("cudaGraphInstantiateWithFlags", kNull, kNull, 0ULL), kInvalidValue);
  EXPECT_EQ(call("cudaLaunchKernelExC", kNull, kNull, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaMemcpy3D", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaRuntimeGetVersion", kNull), kInvalidValue);
  EXPECT_EQ(call("cudaSetValidDevices", kNull, 1), kInvalidValue);
  int more_than_exist[] = {0, 0};
  EXPECT_EQ(call("cudaSetValidDevices", &more_than_exist[0], 2), kInvalidValue);
}

TEST_P(CudaRuntime, TheDeviceThatIsChosenHasWhatIsWanted) {
  int device = -1, count = 0;
  std::vector<char> properties(GetParam().properties_bytes);
  void* const wanted = properties.data();
  ASSERT_EQ(call(GetParam().get_properties, wanted, 0), kSuccess);
  EXPECT_EQ(call("cudaChooseDevice", &device, wanted), kSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(call("cudaChooseDevice", kNull, wanted), kInvalidValue);
  EXPECT_EQ(call("cudaChooseDevice", &device, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaGetDeviceCount", &count), kSuccess);
  EXPECT_EQ(count, 1);
}

TEST_P(CudaRuntime, MemoryIsKnownByItsAddress) {
  constexpr int kHost = 1;
  void* memory = nullptr;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(call("cudaHostAlloc", &memory, size_t{16}, 0U), kSuccess);
  struct {
    int type, device;
    void *on_device, *on_host;
    long reserved[8];
  } attributes{};
  EXPECT_EQ(call("cudaPointerGetAttributes", &attributes, memory), kSuccess);
  EXPECT_EQ(attributes.type, kHost);
  EXPECT_EQ(attributes.on_host, memory);
  EXPECT_EQ(call("cudaFreeHost", memory), kSuccess);
  EXPECT_EQ(call("cudaMemGetInfo", &free_bytes, &total_bytes), kSuccess);
  EXPECT_GT(free_bytes, 0U);
  EXPECT_GT(total_bytes, free_bytes);
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
  void* stray = &host_;
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
      GetParam().major < 13 ? kInvalidFunction : kInvalidHandle);
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

TEST_P(CudaRuntime, PlanesLieBehindEachOther) {
  struct Pitched {
    void* pointer;
    size_t pitch, width, height;
  };
  struct Extent {
    size_t width, height, depth;
  };
  constexpr size_t kWithoutEnd = SIZE_MAX;
  void* memory = nullptr;
  ASSERT_EQ(call("cudaMalloc", &memory, size_t{4096}), kSuccess);
  EXPECT_EQ(call("cudaMemset3D", Pitched{memory, 16, 16, 16}, 1, Extent{16, 8, 16}), kSuccess);
  char first[2 * 16 * 16];
  EXPECT_EQ(call("cudaMemcpy", static_cast<void*>(first), static_cast<const void*>(memory),
                 sizeof(first), 2),
            kSuccess);
  EXPECT_EQ(first[127], 1);
  EXPECT_EQ(first[128], 0) << "a row that the extent leaves out";
  EXPECT_EQ(first[256], 1) << "the second plane";
  EXPECT_EQ(call("cudaMemset3D", Pitched{memory, 16, 16, 16}, 1, Extent{0, 8, kWithoutEnd}),
            kSuccess);
  EXPECT_EQ(call("cudaMemset3D", Pitched{memory, 16, 16, 0}, 1, Extent{16, 1, kWithoutEnd}),
            kInvalidValue);
  EXPECT_EQ(call("cudaMemset3D", Pitched{memory, 16, 16, 16}, 1, Extent{16, 16, kWithoutEnd}),
            kInvalidValue);
  EXPECT_EQ(call("cudaMemset3D", Pitched{nullptr, 16, 16, 16}, 1, Extent{16, 8, 2}), kInvalidValue);
  // Planes whose distance wraps around to zero.
  constexpr std::size_t kHalf = std::size_t{1} << 32;
  EXPECT_EQ(call("cudaMemset3D", Pitched{memory, kHalf, 16, kHalf}, 1, Extent{1, 1, kWithoutEnd}),
            kInvalidValue);
  EXPECT_EQ(call("cudaFree", memory), kSuccess);
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
  EXPECT_EQ(call("cudaDeviceGetAttribute", &from_attribute, 148, 0), kInvalidValue);
  EXPECT_EQ(call("cudaDeviceGetAttribute", &from_attribute, 16, -1), kInvalidDevice);
}

// cudaMemsetParams.
struct SetParameters {
  void* destination;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};

TEST_P(CudaRuntime, GraphsAreBuiltChangedAndLaunched) {
  void *memory = nullptr, *graph = nullptr, *set = nullptr, *copy = nullptr, *exec = nullptr;
  void* stream = nullptr;
  std::vector<unsigned> result(4, 0);
  ASSERT_EQ(call("cudaMalloc", &memory, size_t{16}), kSuccess);
  ASSERT_EQ(call("cudaStreamCreateWithFlags", &stream, 1U), kSuccess);
  ASSERT_EQ(call("cudaGraphCreate", &graph, 0U), kSuccess);
  SetParameters parameters{memory, 0, 5, 4, 4, 1};
  ASSERT_EQ(call("cudaGraphAddMemsetNode", &set, graph, kNull, size_t{0}, &parameters), kSuccess);
  ASSERT_EQ(call("cudaGraphAddMemcpyNode1D", &copy, graph, kNull, size_t{0},
                 static_cast<void*>(result.data()), memory, size_t{16}, 2),
            kSuccess);
  // CUDA 13 has data of edges in between.
  ASSERT_EQ(GetParam().major < 13
                ? call("cudaGraphAddDependencies", graph, &set, &copy, size_t{1})
                : call("cudaGraphAddDependencies", graph, &set, &copy, kNull, size_t{1}),
            kSuccess);
  ASSERT_EQ(call("cudaGraphInstantiateWithFlags", &exec, graph, 1ULL), kSuccess);
  ASSERT_EQ(call("cudaGraphLaunch", exec, stream), kSuccess);
  ASSERT_EQ(call("cudaStreamSynchronize", stream), kSuccess);
  EXPECT_EQ(result, std::vector<unsigned>(4, 5));
  parameters.value = 6;
  ASSERT_EQ(call("cudaGraphExecMemsetNodeSetParams", exec, set, &parameters), kSuccess);
  EXPECT_EQ(call("cudaGraphExecMemsetNodeSetParams", exec, copy, &parameters), kInvalidValue);
  ASSERT_EQ(call("cudaGraphLaunch", exec, stream), kSuccess);
  EXPECT_EQ(result, std::vector<unsigned>(4, 6));
  EXPECT_EQ(call("cudaGraphExecDestroy", exec), kSuccess);
  EXPECT_EQ(call("cudaGraphDestroy", graph), kSuccess);
  EXPECT_EQ(call("cudaGraphDestroy", graph), kInvalidValue);
  EXPECT_EQ(call("cudaStreamDestroy", stream), kSuccess);
  EXPECT_EQ(call("cudaFree", memory), kSuccess);
}

TEST_P(CudaRuntime, CaptureRefusesAndTellsWhatHappens) {
  void *stream = nullptr, *graph = &stream, *memory = nullptr;
  int status = -1;
  ASSERT_EQ(call("cudaStreamCreateWithFlags", &stream, 1U), kSuccess);
  EXPECT_EQ(call("cudaStreamBeginCapture", stream, 3), kInvalidValue);
  EXPECT_EQ(call("cudaStreamBeginCapture", kNull, 0), 900);
  ASSERT_EQ(call("cudaStreamBeginCapture", stream, 0), kSuccess);
  ASSERT_EQ(call("cudaStreamIsCapturing", stream, &status), kSuccess);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(call("cudaMalloc", &memory, size_t{16}), 900);
  ASSERT_EQ(call("cudaStreamIsCapturing", stream, &status), kSuccess);
  EXPECT_EQ(status, 2);
  EXPECT_EQ(call("cudaStreamEndCapture", stream, &graph), 901);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(call("cudaStreamDestroy", stream), kSuccess);
  uint64_t used = 1;
  EXPECT_EQ(call("cudaDeviceGetGraphMemAttribute", 0, 1, &used), kSuccess);
  EXPECT_EQ(used, 0U);
  EXPECT_EQ(call("cudaDeviceGetGraphMemAttribute", 0, 4, &used), kInvalidValue);
}

TEST_P(CudaRuntime, LogLinesReachWhoRegistered) {
  if (GetParam().major < 13) {
    GTEST_SKIP() << "new in CUDA 13";
  }
  std::string text;
  void* handle = nullptr;
  const auto append = [](void* data, int level, char* message, size_t length) {
    EXPECT_EQ(level, 0);
    static_cast<std::string*>(data)->append(message, length);
  };
  const auto callback = static_cast<void (*)(void*, int, char*, size_t)>(append);
  EXPECT_EQ(call("cudaLogsRegisterCallback", kNull, kNull, &handle), kInvalidValue);
  ASSERT_EQ(call("cudaLogsRegisterCallback", callback, static_cast<void*>(&text), &handle),
            kSuccess);
  EXPECT_EQ(call("cudaGraphConditionalHandleCreate", kNull, kNull, 0U, 0U), kNotSupported);
  EXPECT_NE(text.find("cudaGraphConditionalHandleCreate"), std::string::npos) << text;
  EXPECT_EQ(call("cudaLogsUnregisterCallback", handle), kSuccess);
  EXPECT_EQ(call("cudaLogsUnregisterCallback", handle), kInvalidValue);
}

TEST_P(CudaRuntime, WhatIsNotSupportedSaysSo) {
  EXPECT_EQ(call("cudaMallocArray", kNull), kNotSupported);
  void* table = &host_;
  EXPECT_EQ(call("cudaGetExportTable", &table, kNull), kInvalidValue);
  EXPECT_EQ(call("cudaGetExportTable", &table, "no-such-table-id"), 500);
  EXPECT_EQ(table, nullptr);
}

TEST_P(CudaRuntime, VersionIsTheOneOfItsName) {
  int version = 0;
  EXPECT_EQ(call("cudaRuntimeGetVersion", &version), kSuccess);
  EXPECT_EQ(version / 1000, GetParam().major);
}

INSTANTIATE_TEST_SUITE_P(
    Majors, CudaRuntime,
    testing::Values(Runtime{GPEMU_TEST_RUNTIME_11, 11, 728, 388, "cudaGetDeviceProperties"},
                    Runtime{GPEMU_TEST_RUNTIME_12, 12, 1032, 388, "cudaGetDeviceProperties_v2"},
                    Runtime{GPEMU_TEST_RUNTIME_13, 13, 1008, 384, "cudaGetDeviceProperties"}),
    [](const auto& runtime) { return "Cuda" + std::to_string(runtime.param.major); });

}  // namespace
