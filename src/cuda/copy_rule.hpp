// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

namespace gpemu::cuda {

/// Copies that the host waits for in the same way.
enum class CopyRoute : std::uint8_t {
  kWithinHost,
  kBetweenDevices,         ///< or within one.
  kSmallPageableToDevice,  ///< up to kStagedBytes.
  kPageable,               ///< other copies with one side in pageable memory.
  kPinned,                 ///< all others; managed memory counts as pinned.
};

/// How the program asks for a copy.
enum class CopyCall : std::uint8_t { kBlocking, kAsynchronous, kGraph };

/// What the host waits for before the call returns.
enum class CopyWait : std::uint8_t {
  kNothing,
  kEarlierWork,  ///< of the stream, before the copy begins.
  kEnd,          ///< of the copy.
};

struct CopyRule {
  CopyWait wait = CopyWait::kNothing;
  bool staged = false;  ///< the source is read during the call, although the copy ends later.
  bool operator==(const CopyRule&) const = default;
};

/// Up to this size, a pageable copy to the device waits only for its staging. Source: CUDA Runtime
/// API, "API synchronization behavior".
inline constexpr Bytes kStagedBytes = 64 * kKiB;

/// Returns the route of a copy of `bytes` between two kinds of memory.
[[nodiscard]] constexpr CopyRoute copy_route(gpemu_cuda_memory_kind to, gpemu_cuda_memory_kind from,
                                             Bytes bytes) {
  const auto is_host = [](gpemu_cuda_memory_kind kind) {
    return kind == GPEMU_CUDA_MEMORY_UNREGISTERED || kind == GPEMU_CUDA_MEMORY_HOST;
  };
  const bool to_device = to == GPEMU_CUDA_MEMORY_DEVICE;
  if (is_host(to) && is_host(from)) return CopyRoute::kWithinHost;
  if (to_device && from == GPEMU_CUDA_MEMORY_DEVICE) return CopyRoute::kBetweenDevices;
  if (to != GPEMU_CUDA_MEMORY_UNREGISTERED && from != GPEMU_CUDA_MEMORY_UNREGISTERED) {
    return CopyRoute::kPinned;
  }
  return to_device && bytes <= kStagedBytes ? CopyRoute::kSmallPageableToDevice
                                            : CopyRoute::kPageable;
}

/// The rules by route and call.
inline constexpr std::array<std::array<CopyRule, 3>, 5> kCopyRules = [] {
  constexpr CopyRule kNone{};
  constexpr CopyRule kAfterEarlierWork{.wait = CopyWait::kEarlierWork};
  constexpr CopyRule kAtEnd{.wait = CopyWait::kEnd};
  constexpr CopyRule kStaged{.staged = true};
  constexpr CopyRule kStagedAfterEarlierWork{.wait = CopyWait::kEarlierWork, .staged = true};
  return std::array<std::array<CopyRule, 3>, 5>{{
      // blocking, asynchronous, of a graph
      {kAfterEarlierWork, kAfterEarlierWork, kNone},  // within the host
      {kNone, kNone, kNone},                          // between devices
      {kStagedAfterEarlierWork, kStaged, kNone},      // small, from pageable memory to a device
      {kAtEnd, kAtEnd, kNone},                        // pageable
      {kAtEnd, kNone, kNone},                         // pinned
  }};
}();

/// Returns what a copy makes the host wait for. Source: CUDA Runtime API, "API synchronization
/// behavior", "Memcpy": the host waits for all copies within its own memory, and for none between
/// devices. For a synchronous copy from pageable memory, it waits for the stream, and then until
/// the memory is staged; for other synchronous copies, it waits until they end. Asynchronous copies
/// "might be synchronous" with pageable memory, and otherwise are not. A graph's launch returns at
/// once, and its nodes read their sources when they run.
[[nodiscard]] constexpr CopyRule copy_rule(CopyRoute route, CopyCall call) {
  return kCopyRules[static_cast<std::size_t>(route)][static_cast<std::size_t>(call)];
}

}  // namespace gpemu::cuda
