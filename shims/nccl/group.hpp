// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "nccl.hpp"

/// A send or a receive of a rank from or to itself.
struct Transfer {
  const void* buffer;
  size_t bytes;
  const void* communicator;
  gpemu_cuda_stream_handle stream;
};

/// A rank to be made, and where its handle goes.
struct PendingRank {
  void** handle;
  gpemu_cuda_comm_id id;  ///< unless a parent is divided.
  gpemu_cuda_comm_start start;
};

/// A thread's requests between its outermost ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<Transfer> sends, receives;
  std::vector<gpemu_cuda_comm_call> calls;
  std::vector<PendingRank> ranks;
};

/// Returns the calling thread's open group, or null.
Group* open_group();

/// Makes ranks, at the end of the open group if there is one.
int make_ranks(const std::vector<PendingRank>& ranks);

/// Runs a collective or a transfer, at the end of the open group if there is one.
int run_call(const gpemu_cuda_comm_call& call);

/// Copies a single rank's source.
int move_within(void* destination, const void* source, size_t bytes,
                gpemu_cuda_stream_handle stream);
