// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "shim.hpp"

/// A communicator of one rank.
struct Communicator {
  int device;
};

// Source: nccl.h, ncclResult_t.
inline constexpr int kSuccess = 0;
inline constexpr int kUnhandledCudaError = 1;
inline constexpr int kInvalidArgument = 4;
inline constexpr int kInvalidUsage = 5;

/// Returns a communicator that is alive, or null.
Communicator* find_communicator(const void* handle);

/// Exports a function a second time, with the prefix "p", as NCCL does for profilers.
#define GPEMU_PROFILING_NAME(name) \
  extern "C" __attribute__((visibility("default"), nothrow, alias(#name))) decltype(name) p##name;
