// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace {

// Destructors of statics call after the variables of their thread have ended.
thread_local Group* group = nullptr;

/// Gives a rank that gpemu has made to the program.
int hand_over(const PendingRank& rank, gpemu_cuda_comm_handle made) {
  if (made == nullptr) {  // It takes no part.
    *rank.handle = nullptr;
    return kSuccess;
  }
  gpemu_cuda_comm_info info{};
  const int known = nccl_status(gpemu_cuda_comm_get_info(made, &info));
  if (known != kSuccess) {
    return known;
  }
  if (info.ranks == 1) {
    gpemu_cuda_comm_destroy(std::exchange(made, nullptr));
  }
  if (rank.communicator != nullptr) {
    rank.communicator->handle = made;
    return kSuccess;
  }
  *rank.handle = add_communicator(info, made, rank.blocks);
  return kSuccess;
}

/// Makes all ranks of a group at once, because each waits for the others.
int make_now(const std::vector<PendingRank>& ranks, const int32_t* cancelled) {
  std::vector<gpemu_cuda_comm_start> starts;
  std::vector<gpemu_cuda_comm_handle> made(ranks.size());
  for (const PendingRank& rank : ranks) {
    gpemu_cuda_comm_start& start = starts.emplace_back(rank.start);
    start.cancelled = cancelled;
    if (start.parent == nullptr) {
      start.id = &rank.id;
    }
    start.excluded = rank.excluded.data();
    start.excluded_count = rank.excluded.size();
  }
  int status = nccl_status(gpemu_cuda_comm_start_all(starts.data(), starts.size(), made.data()));
  if (status != kSuccess) {
    return status;
  }
  for (size_t i = 0; i < ranks.size() && status == kSuccess; ++i) {
    status = hand_over(ranks[i], made[i]);
  }
  return status;
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

/// Makes the ranks and runs the calls of a group.
int run(const Group& ended, const int32_t* cancelled) {
  const int made = ended.ranks.empty() ? kSuccess : make_now(ended.ranks, cancelled);
  if (made != kSuccess || ended.calls.empty()) {
    return made;
  }
  return nccl_status(gpemu_cuda_comm_run(ended.calls.data(), ended.calls.size()));
}

/// Returns whether the calls of a group may wait for other ranks. The per-thread default stream is
/// that of the thread that calls.
bool may_wait(const Group& ended) {
  const auto is_of_thread = [](const gpemu_cuda_comm_call& call) {
    return reinterpret_cast<uintptr_t>(call.stream) == kPerThreadStream;
  };
  const auto is_transfer = [](const gpemu_cuda_comm_call& call) {
    return call.collective == GPEMU_CUDA_SEND || call.collective == GPEMU_CUDA_RECEIVE;
  };
  return !ended.ranks.empty() || (std::ranges::any_of(ended.calls, is_transfer) &&
                                  std::ranges::none_of(ended.calls, is_of_thread));
}

/// Runs a group that has ended; does not wait for other ranks if its communicators do not block.
int finish(std::shared_ptr<Group> ended) {
  const int matched = ended->error == kSuccess ? match_transfers(*ended) : ended->error;
  if (matched != kSuccess) {
    return matched;
  }
  if (ended->blocks.value_or(true) || !may_wait(*ended)) {
    return run(*ended, nullptr);
  }
  const std::vector<Communicator*> communicators = ended->communicators;
  const auto job = Job::start(
      [group = std::move(ended)](const int32_t* cancelled) { return run(*group, cancelled); });
  if (job == nullptr) {
    return kSystemError;
  }
  for (Communicator* const communicator : communicators) {
    communicator->set_job(job);
  }
  return kInProgress;
}

/// Adds what a call of the program requests to a group, which may be one of its own. `caller`: a
/// communicator that is in progress until then; may be null if the call blocks.
template <typename Add>
int add_to_group(bool blocks, Communicator* caller, Add add) {
  const auto own = group == nullptr ? std::make_shared<Group>() : nullptr;
  Group& to = own == nullptr ? *group : *own;
  if (to.blocks.value_or(blocks) != blocks) {
    last_warning() = "gpemu: a group has blocking and nonblocking communicators";
    return to.error = kInvalidArgument;
  }
  to.blocks = blocks;
  if (!blocks) {
    to.communicators.push_back(caller);
  }
  add(to);
  return own == nullptr ? kSuccess : finish(own);
}

/// Takes the open group of the thread when its outermost end is called, else null. Errors:
/// kInvalidUsage.
int end_group(std::shared_ptr<Group>* ended) {
  if (group == nullptr) {
    return kInvalidUsage;
  }
  if (--group->depth == 0) {
    ended->reset(std::exchange(group, nullptr));
  }
  return kSuccess;
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

int make_ranks(const std::vector<PendingRank>& ranks, bool blocks, Communicator* caller) {
  return add_to_group(blocks, caller, [&ranks](Group& to) {
    to.ranks.insert(to.ranks.end(), ranks.begin(), ranks.end());
  });
}

int run_call(Communicator& communicator, const gpemu_cuda_comm_call& call) {
  if (group == nullptr && communicator.blocks) {
    return nccl_status(gpemu_cuda_comm_run(&call, 1));
  }
  return add_to_group(communicator.blocks, &communicator,
                      [&call](Group& to) { to.calls.push_back(call); });
}

GPEMU_SHIM_EXPORT int ncclGroupStart() {
  if (group == nullptr) {
    group = new Group;
  }
  ++group->depth;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclGroupEnd() {
  std::shared_ptr<Group> ended;
  const int status = end_group(&ended);
  return ended == nullptr ? status : finish(std::move(ended));
}

// As with NCCL, the group's calls are forgotten, and the time is the tuner's.
GPEMU_SHIM_EXPORT int ncclGroupSimulateEnd(SimulationInfo* info) {
  if (info == nullptr) {
    return ncclGroupEnd();
  }
  std::shared_ptr<Group> ended;
  const int status = end_group(&ended);
  if (ended == nullptr) {
    return status;
  }
  if (info->size < sizeof(SimulationInfo) || info->magic != kSimulationMagic) {
    return kInvalidArgument;
  }
  double time = -1;
  const int known =
      nccl_status(gpemu_cuda_comm_expected_time(ended->calls.data(), ended->calls.size(), &time));
  if (known == kSuccess) {
    info->estimated_time_us = static_cast<float>(time);
  }
  return known;
}

GPEMU_PROFILING_NAME(ncclGroupStart)
GPEMU_PROFILING_NAME(ncclGroupEnd)
GPEMU_PROFILING_NAME(ncclGroupSimulateEnd)
