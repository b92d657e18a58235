// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/limits.hpp"

#include <algorithm>

#include "gpemu/base/mutex.hpp"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::memory {
namespace {

/// CUlimit, cudaLimit. Source: cuda.h of CUDA 13.0.
enum Limit : std::int32_t {
  kStack,             ///< of a thread.
  kPrintfBuffer,      ///< of device-side printf.
  kHeap,              ///< of device-side malloc.
  kSynchronizeDepth,  ///< of device-side launches.
  kPendingLaunches,   ///< likewise.
  kFetchGranularity,  ///< of the L2; advice.
  kPersistingLines,   ///< bytes of the L2; not emulated.
  kSharedMemory,      ///< of a block; can only be read.
  kGraphicsContext,   ///< whether there is one.
  kGraphicsSharedMemory,
  kLimitCount
};

// The numbers below were read from an H200, driver 580.159, CUDA 13.0. Defaults that
// depend on the generation are facts of it.
constexpr std::uint64_t kStackUnit = 16;
constexpr std::uint64_t kStackEnd = 512 * kKiB;  // 256 KiB can be set, 512 KiB not.
constexpr std::uint64_t kLeastPrintfBuffer = 512 * kKiB;
constexpr std::uint64_t kLeastHeap = 4 * kMiB;
constexpr std::uint64_t kLeastPendingLaunches = 32;
constexpr std::uint64_t kMostPendingLaunches = 599186;
constexpr std::uint64_t kLargestFetch = 128;

std::uint64_t default_limit(const process::DeviceState& device, std::int32_t limit) {
  const profile::GenerationFacts& facts = device.spec.generation;
  switch (limit) {
    case kStack:
      return 1024;
    case kPrintfBuffer:
      return facts.printf_kib_per_multiprocessor == 0
                 ? kMiB
                 : static_cast<std::uint64_t>(device.info.multiprocessors) *
                       static_cast<std::uint64_t>(facts.printf_kib_per_multiprocessor) * kKiB;
    case kHeap:
      return 8 * kMiB;
    case kSynchronizeDepth:
      return 2;
    case kPendingLaunches:
      return 2048;
    case kFetchGranularity:
      return static_cast<std::uint64_t>(facts.fetch_granularity_bytes);
    case kSharedMemory:
      return device.info.shared_memory_per_block_optin;
    default:
      return 0;
  }
}

/// Errors: as get_limit.
process::Status check_limit(const process::DeviceState& device, std::int32_t limit) {
  if (limit < 0 || limit >= kLimitCount) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const bool supported = limit != kGraphicsSharedMemory &&
                         (limit != kSynchronizeDepth || device.spec.generation.synchronize_depth);
  return supported ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT;
}

}  // namespace

process::Status get_limit(process::DeviceState& device, std::int32_t limit, std::uint64_t* value) {
  GPEMU_CUDA_TRY(check_limit(device, limit));
  const Lock lock(process::process().mutex);
  const auto set = device.limits.find(limit);
  *value = set == device.limits.end() ? default_limit(device, limit) : set->second;
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_limit(process::DeviceState& device, std::int32_t limit, std::uint64_t value) {
  GPEMU_CUDA_TRY(check_limit(device, limit));
  switch (limit) {
    case kStack:
      if (value >= kStackEnd) return GPEMU_CUDA_ERROR_INVALID_VALUE;
      value = round_up(value, kStackUnit);
      break;
    case kPrintfBuffer:
      value = std::max(value, kLeastPrintfBuffer);
      break;
    case kHeap:
      value = std::max(value, kLeastHeap);
      break;
    case kSynchronizeDepth:
      break;
    case kPendingLaunches:
      value = std::clamp(value, kLeastPendingLaunches, kMostPendingLaunches);
      break;
    case kFetchGranularity:
      if (value > kLargestFetch) return GPEMU_CUDA_ERROR_INVALID_VALUE;
      break;
    case kPersistingLines:  // The device has room for none, as its properties say.
      if (value > 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
      break;
    default:
      return GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  const Lock lock(process::process().mutex);
  device.limits[limit] = value;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::memory
