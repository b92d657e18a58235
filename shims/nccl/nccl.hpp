// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpemu/base/mutex.hpp"

#include "abi.hpp"
#include "handle_table.hpp"
#include "job.hpp"
#include "shim.hpp"
#include "status.hpp"

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
  /// Null with one rank, which exchanges nothing. Written by the job that makes the rank.
  std::atomic<gpemu_cuda_comm_handle> handle = nullptr;
  bool blocks = true;  ///< whether calls that wait for other ranks do.
  /// Reductions of the program, whose numbers follow on NCCL's own; nothing for those that ended.
  std::vector<std::optional<ScaledSum>> reductions{};
  std::atomic<bool> is_finalized{false};
  mutable gpemu::Mutex mutex{};
  std::shared_ptr<Job> last_job GPEMU_GUARDED_BY(mutex){};

  /// The last call that did not block, and may still be in progress; null if there was none.
  [[nodiscard]] std::shared_ptr<Job> job() const GPEMU_EXCLUDES(mutex) {
    const gpemu::Lock lock(mutex);
    return last_job;
  }
  /// Requires: the last one has ended.
  void set_job(std::shared_ptr<Job> job) GPEMU_EXCLUDES(mutex) {
    const gpemu::Lock lock(mutex);
    last_job.swap(job);
  }
};

/// Gives a communicator a handle.
Communicator* add_communicator(const gpemu_cuda_comm_info& info, gpemu_cuda_comm_handle handle,
                               bool blocks);

/// Returns whether a live communicator can be used: kSuccess; kInvalidArgument while a call is in
/// progress; or the error of the last call that did not block.
int ready_status(const Communicator& communicator);

/// Finds a live communicator that can be used. Errors: kInvalidArgument, those of ready_status().
int find_ready(const void* handle, Communicator** found);
