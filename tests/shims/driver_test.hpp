// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "loaded_libraries.hpp"

using Address = uint64_t;

/// CUresult: those that the tests of the driver expect.
enum DriverStatus : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kUnsupportedLimit = 215,
  kPeerAccessUnsupported = 217,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kNotEnabled = 705,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureImplicit = 906,
  kUpdateFailure = 910,
};

/// CUmemorytype.
constexpr unsigned kHost = 1, kDevice = 2, kArray = 3;

/// CUgraphEdgeData.
struct EdgeData {
  unsigned char bytes[8];
};

/// The driver, with a context on its one GPU.
class Driver : public LoadedLibraries {
 protected:
  static constexpr int kNoSuchDevice = 1;

  void SetUp() override {
    load({GPEMU_TEST_DRIVER});
    ASSERT_EQ(call("cuInit", 0U), kSuccess);
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context_, 0), kSuccess);
    ASSERT_EQ(call("cuCtxSetCurrent", context_), kSuccess);
  }

  void TearDown() override {
    EXPECT_EQ(call("cuCtxSetCurrent", none_), kSuccess);
    EXPECT_EQ(call("cuDevicePrimaryCtxRelease", 0), kSuccess);
  }

  /// Expects a status of each function.
  template <typename... Arguments>
  void each(std::initializer_list<const char*> functions, int status, Arguments... arguments) {
    for (const char* function : functions) {
      EXPECT_EQ(call(function, arguments...), status) << function;
    }
  }

  /// Expects a status of a function and of its twin for per-thread default streams.
  template <typename... Arguments>
  void twins(const char* function, int status, Arguments... arguments) {
    each({function, (std::string(function) + "_ptsz").c_str()}, status, arguments...);
  }

  Address allocate(size_t bytes) {
    Address address = 0;
    EXPECT_EQ(call("cuMemAlloc_v2", &address, bytes), kSuccess);
    return address;
  }

  void* context_ = nullptr;
  void* const dead_ = &context_;  ///< a handle of no object.
};
