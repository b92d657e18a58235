// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "abi.hpp"
#include "handle_table.hpp"
#include "shim.hpp"

/// A sum of sources that are multiplied first.
struct ScaledSum {
  int type = 0;
  std::array<uint8_t, 8> scale{};  ///< unless it is on the device:
  uint64_t address = 0;
};

/// A rank of a communicator.
struct Communicator {
  int device = 0;
  int ranks = 1;
  int rank = 0;
  gpemu_cuda_comm_handle handle = nullptr;  ///< null with one rank, which exchanges nothing.
  /// Reductions of the program, whose numbers follow on NCCL's own; nothing for those that ended.
  std::vector<std::optional<ScaledSum>> reductions{};
};

/// Returns NCCL's status for one of gpemu's; notes a warning if there is more to say.
int nccl_status(gpemu_cuda_status status);

/// The calling thread's last warning; empty without one. A good call does not clear it.
const char*& last_warning();

/// Exports a function a second time, with the prefix "p", as NCCL does for profilers.
#define GPEMU_PROFILING_NAME(name) \
  extern "C" __attribute__((visibility("default"), nothrow, alias(#name))) decltype(name) p##name;
