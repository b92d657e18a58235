// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace {

// Destructors of statics call after the variables of their thread have ended.
thread_local Group* group = nullptr;

/// Makes all ranks of a group at once, because each waits for the others.
int make_now(const std::vector<PendingRank>& ranks) {
  std::vector<gpemu_cuda_comm_start> starts;
  std::vector<gpemu_cuda_comm_handle> made(ranks.size());
  for (const PendingRank& rank : ranks) {
    starts.push_back(rank.start);
    if (rank.start.parent == nullptr) {
      starts.back().id = &rank.id;
    }
  }
  const int status =
      nccl_status(gpemu_cuda_comm_start_all(starts.data(), starts.size(), made.data()));
  if (status != kSuccess) {
    return status;
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (made[i] == nullptr) {
      *ranks[i].handle = nullptr;
      continue;
    }
    gpemu_cuda_comm_info info{};
    const int known = nccl_status(gpemu_cuda_comm_get_info(made[i], &info));
    if (known != kSuccess) {
      return known;
    }
    if (info.ranks == 1) {
      gpemu_cuda_comm_destroy(std::exchange(made[i], nullptr));
    }
    *ranks[i].handle = alive<Communicator>().add(
        std::make_unique<Communicator>(Communicator{info.device, info.ranks, info.rank, made[i]}));
  }
  return kSuccess;
}

int match_transfers(Group& transfers) {
  int result = kSuccess;
  std::vector<Transfer>& receives = transfers.receives;
  for (const Transfer& send : transfers.sends) {
    const auto receive = std::ranges::find_if(receives, [&](const Transfer& candidate) {
      return candidate.communicator == send.communicator;
    });
    if (receive == receives.end() || receive->bytes != send.bytes) {
      result = kInvalidUsage;
      break;
    }
    const int moved =
        move_within(const_cast<void*>(receive->buffer), send.buffer, send.bytes, receive->stream);
    result = result == kSuccess ? moved : result;
    receives.erase(receive);
  }
  return receives.empty() ? result : kInvalidUsage;
}

}  // namespace

Group* open_group() {
  return group;
}

int move_within(void* destination, const void* source, size_t bytes,
                gpemu_cuda_stream_handle stream) {
  if (destination == source || bytes == 0) {
    return kSuccess;
  }
  const gpemu_cuda_status status =
      gpemu_cuda_memcpy(address_of(destination), address_of(source), bytes,
                        GPEMU_CUDA_COPY_DEVICE_TO_DEVICE, stream, 0);
  return status == GPEMU_CUDA_SUCCESS ? kSuccess : kUnhandledCudaError;
}

int make_ranks(const std::vector<PendingRank>& ranks) {
  if (group == nullptr) {
    return make_now(ranks);
  }
  group->ranks.insert(group->ranks.end(), ranks.begin(), ranks.end());
  return kSuccess;
}

int run_call(const gpemu_cuda_comm_call& call) {
  if (group == nullptr) {
    return nccl_status(gpemu_cuda_comm_run(&call, 1));
  }
  group->calls.push_back(call);
  return kSuccess;
}

GPEMU_SHIM_EXPORT int ncclGroupStart() {
  if (group == nullptr) {
    group = new Group;
  }
  ++group->depth;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclGroupEnd() {
  if (group == nullptr) {
    return kInvalidUsage;
  }
  if (--group->depth > 0) {
    return kSuccess;
  }
  const std::unique_ptr<Group> ended(std::exchange(group, nullptr));
  const int made = ended->ranks.empty() ? kSuccess : make_now(ended->ranks);
  const int matched = made == kSuccess ? match_transfers(*ended) : made;
  if (matched != kSuccess || ended->calls.empty()) {
    return matched;
  }
  return nccl_status(gpemu_cuda_comm_run(ended->calls.data(), ended->calls.size()));
}

GPEMU_PROFILING_NAME(ncclGroupStart)
GPEMU_PROFILING_NAME(ncclGroupEnd)
