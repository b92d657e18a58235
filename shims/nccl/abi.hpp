// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <climits>

/// NCCL_VERSION_CODE. Source: nccl.h of NCCL 2.30.7.
constexpr int kVersion = 23007;

// Source: nccl.h.

/// ncclResult_t.
enum Status : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

/// ncclDataType_t.
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};

/// ncclRedOp_t.
enum Reduction : int {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
};
/// ncclNumOps, the number of predefined reductions.
constexpr int kReductions = 5;

/// ncclScalarResidence_t.
enum ScalarResidence : int {
  kScalarDevice = 0,
  kScalarHostImmediate = 1,
};

/// cudaStreamPerThread, a number as of gpemu/cuda.h.
constexpr uintptr_t kPerThreadStream = 2;

/// NCCL_SPLIT_NOCOLOR.
constexpr int kNoColor = -1;

/// NCCL_SHRINK_ABORT.
constexpr int kShrinkAbort = 1;

/// NCCL_CONFIG_UNDEF_INT.
constexpr int kUndefined = INT_MIN;

/// The part of ncclConfig_t that says how calls behave; more or less of it may follow.
struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
/// NCCL_API_MAGIC.
constexpr unsigned kConfigMagic = 0xcafebeef;

/// ncclSimInfo_t.
struct SimulationInfo {
  size_t size;
  unsigned magic;
  unsigned version;
  float estimated_time_us;
};
/// NCCL_SIM_INFO_INITIALIZER.
constexpr unsigned kSimulationMagic = 0x74685283;

/// ncclUniqueId: NCCL_UNIQUE_ID_BYTES.
struct UniqueId {
  char bytes[128];
};
static_assert(sizeof(UniqueId) == 128);
