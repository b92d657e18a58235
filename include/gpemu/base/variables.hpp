// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace gpemu {

/// Returns the value of an environment variable, or null if it is not set, as std::getenv does.
using Lookup = std::function<const char*(const char* name)>;

}  // namespace gpemu

/// The names of the environment variables that one module sets for a program or passes on, and
/// another reads there. docs/reference/environment.md says what they mean.
namespace gpemu::variable {

inline constexpr const char* kNode = "GPEMU_NODE";
inline constexpr const char* kDevices = "GPEMU_DEVICES";
/// Of torchrun, as of other launchers for PyTorch.
inline constexpr const char* kRank = "RANK";
inline constexpr const char* kRealRanks = "GPEMU_REAL_RANKS";
inline constexpr const char* kNetwork = "GPEMU_NETWORK";
inline constexpr const char* kNodeDir = "GPEMU_NODE_DIR";
inline constexpr const char* kProfiles = "GPEMU_PROFILES";
inline constexpr const char* kGpu = "GPEMU_GPU";
inline constexpr const char* kGpuFiles = "GPEMU_GPU_FILES";
inline constexpr const char* kMemoryMib = "GPEMU_MEMORY_MIB";
inline constexpr const char* kGpuFraction = "GPEMU_GPU_FRACTION";
inline constexpr const char* kGpuPriority = "GPEMU_GPU_PRIORITY";
inline constexpr const char* kGpuShare = "GPEMU_GPU_SHARE";
inline constexpr const char* kTenant = "GPEMU_TENANT";
inline constexpr const char* kGpuLimit = "GPEMU_GPU_LIMIT";
inline constexpr const char* kContextMib = "GPEMU_CONTEXT_MIB";
inline constexpr const char* kClock = "GPEMU_CLOCK";
inline constexpr const char* kDropData = "GPEMU_DROP_DATA";
inline constexpr const char* kStrict = "GPEMU_STRICT";
inline constexpr const char* kRecordDir = "GPEMU_RECORD_DIR";
inline constexpr const char* kRecordOperations = "GPEMU_RECORD_OPERATIONS";

}  // namespace gpemu::variable
