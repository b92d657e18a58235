// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "nccl.hpp"

/// A send or a receive of a rank from or to itself.
struct Transfer {
  const void* buffer;
  size_t bytes;
  const void* communicator;
  gpemu_cuda_stream_handle stream;
};

/// A rank to be made.
struct PendingRank {
  void** handle;  ///< where its handle goes when it is made, unless it has one:
  Communicator* communicator = nullptr;
  gpemu_cuda_comm_id id{};  ///< unless it is of a part of a parent.
  gpemu_cuda_comm_start start{};
  std::vector<int32_t> excluded{};  ///< ranks of the parent that take no part.
  bool blocks = true;               ///< as of the new communicator.
};

/// A thread's requests between its outermost ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  int error = kSuccess;        ///< of a call of the group that only its end returns.
  std::optional<bool> blocks;  ///< what all communicators of the group do.
  /// Those that are in progress until the group has ended, if it does not block.
  std::vector<Communicator*> communicators;
  std::vector<Transfer> sends, receives;
  std::vector<gpemu_cuda_comm_call> calls;
  std::vector<PendingRank> ranks;
};

/// Returns the calling thread's open group, or null.
Group* open_group();

/// Makes ranks, at the end of the open group if there is one. If this does not block, `caller` is
/// in progress until it is done.
int make_ranks(const std::vector<PendingRank>& ranks, bool blocks, Communicator* caller);

/// Runs a collective or a transfer, at the end of the open group if there is one.
int run_call(Communicator& communicator, const gpemu_cuda_comm_call& call);

/// Copies a single rank's source.
int move_within(void* destination, const void* source, size_t bytes,
                gpemu_cuda_stream_handle stream);
