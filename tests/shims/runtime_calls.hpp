// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

#include "loaded_libraries.hpp"

/// cudaError_t: those that the tests of each function of the runtime expect.
enum RuntimeStatus : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidPitch = 12,
  kInvalidSymbol = 13,
  kInvalidDirection = 21,
  kInvalidFunction = 98,
  kInvalidDevice = 101,
  kUnsupportedLimit = 215,
  kInvalidHandle = 400,
  kNotReady = 600,
  kNotEnabled = 705,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kNotSupported = 801,
};

/// cudaPitchedPtr.
struct Pitched {
  void* pointer;
  size_t pitch, width, height;
};

/// cudaExtent.
struct Extent {
  size_t width, height, depth;
};

/// cudaPos.
struct Position {
  size_t x, y, z;
};

/// cudaMemcpy3DParms.
struct Copy3D {
  void* source_array;
  Position source_position;
  Pitched source;
  void* destination_array;
  Position destination_position;
  Pitched destination;
  Extent extent;
  int kind;
};
constexpr int kOnDevice = 3;

/// cudaGraphEdgeData.
struct EdgeData {
  unsigned char bytes[8];
};

/// cudaMemsetParams.
struct SetParameters {
  void* destination;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};

/// Returns the shim for a major version of CUDA.
inline const char* runtime_of(int major) {
  return major == 11   ? GPEMU_TEST_RUNTIME_11
         : major == 12 ? GPEMU_TEST_RUNTIME_12
                       : GPEMU_TEST_RUNTIME_13;
}

/// A runtime, by CUDA's major version.
class RuntimeCalls : public LoadedLibraries, public testing::WithParamInterface<int> {
 protected:
  static constexpr int kNoSuchDevice = 1;

  void SetUp() override {
    load({runtime_of(GetParam())});
    ASSERT_EQ(call("cudaSetDevice", 0), kSuccess);
  }

  /// Expects a status of each function.
  template <typename... Arguments>
  void each(std::initializer_list<const char*> functions, int status, Arguments... arguments) {
    for (const char* function : functions) {
      EXPECT_EQ(call(function, arguments...), status) << function;
    }
  }

  /// Expects a status of a function and of its twin for per-thread default streams. A function
  /// without a stream ignores the last argument.
  template <typename... Arguments>
  void twins(const std::string& function, int status, Arguments... arguments) {
    each({function.c_str(), twin_of(function).c_str()}, status, arguments...);
  }

  /// Calls without a stream are for the default stream, which their twins end in `_ptds`.
  static std::string twin_of(const std::string& function) {
    const bool copies = function.starts_with("cudaMemcpy") || function.starts_with("cudaMemset");
    const bool async = function.find("Async") != std::string::npos;
    return function + (copies && !async ? "_ptds" : "_ptsz");
  }

  void* allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(call("cudaMalloc", &memory, bytes), kSuccess);
    return memory;
  }

  void* const dead_ = &unused_;  ///< a handle of no object.

 private:
  int unused_ = 0;
};

#define GPEMU_FOR_ALL_RUNTIMES(fixture)                                  \
  INSTANTIATE_TEST_SUITE_P(Majors, fixture, testing::Values(11, 12, 13), \
                           [](const auto& major) { return "Cuda" + std::to_string(major.param); })
