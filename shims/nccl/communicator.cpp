// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "group.hpp"

Communicator* add_communicator(const gpemu_cuda_comm_info& info, gpemu_cuda_comm_handle handle,
                               bool blocks) {
  return alive<Communicator>().add(std::unique_ptr<Communicator>(
      new Communicator{info.device, info.ranks, info.rank, handle, blocks}));
}

int ready_status(const Communicator& communicator) {
  if (communicator.blocks) {
    return kSuccess;
  }
  const auto job = communicator.job();
  const int status = job == nullptr ? kSuccess : job->status();
  const bool is_made = communicator.ranks == 1 || communicator.handle != nullptr;
  if (status == kInProgress || (status == kSuccess && !is_made)) {
    last_warning() = "gpemu: a communicator is used before its last call has ended";
    return kInvalidArgument;
  }
  return status;
}

int find_ready(const void* handle, Communicator** found) {
  *found = find_object<Communicator>(handle);
  return *found == nullptr ? kInvalidArgument : ready_status(**found);
}

namespace {

/// Finds out whether calls of a new communicator block. Errors: kInvalidArgument.
int read_blocking(const void* config, bool otherwise, bool* blocks) {
  *blocks = otherwise;
  if (config != nullptr) {
    Config known{.size = 0, .magic = 0, .version = 0, .blocking = kUndefined};
    std::memcpy(&known.size, config, sizeof(known.size));
    std::memcpy(&known, config, std::min(known.size, sizeof(known)));
    if (known.magic != kConfigMagic ||
        (known.blocking != kUndefined && known.blocking != 0 && known.blocking != 1)) {
      return kInvalidArgument;
    }
    *blocks = known.blocking != 0;
  }
  const char* const variable = std::getenv("NCCL_COMM_BLOCKING");
  if (variable != nullptr && (*variable == '0' || *variable == '1') && variable[1] == 0) {
    *blocks = *variable == '1';
  }
  return kSuccess;
}

int create(void** handle, int ranks, const UniqueId& id, int rank, int device, bool blocks) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return kInvalidArgument;
  }
  const gpemu_cuda_comm_info info{.ranks = ranks, .rank = rank, .device = device};
  if (ranks == 1) {
    *handle = add_communicator(info, nullptr, blocks);
    return kSuccess;
  }
  PendingRank pending{.handle = handle,
                      .start = {.ranks = ranks, .rank = rank, .device = device},
                      .blocks = blocks};
  std::memcpy(pending.id.bytes, id.bytes, sizeof(id.bytes));
  if (blocks) {
    return make_ranks({pending}, true, nullptr);
  }
  // The program asks the communicator when it is ready.
  pending.communicator = add_communicator(info, nullptr, false);
  const int status = make_ranks({pending}, false, pending.communicator);
  if (status != kSuccess && status != kInProgress) {
    alive<Communicator>().remove(pending.communicator);
    return status;
  }
  *handle = pending.communicator;
  return status;
}

int create_on_current_device(void** handle, int ranks, const UniqueId& id, int rank,
                             const void* config) {
  int32_t device = 0;
  bool blocks = true;
  const int status = read_blocking(config, true, &blocks);
  if (status != kSuccess) {
    return status;
  }
  if (gpemu_cuda_current_device(&device) != GPEMU_CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  return create(handle, ranks, id, rank, device, blocks);
}

/// Makes a rank of a part of a communicator of several ranks.
int create_part(Communicator& parent, PendingRank part, const void* config) {
  const int status = read_blocking(config, parent.blocks, &part.blocks);
  if (status != kSuccess) {
    return status;
  }
  part.start.parent = parent.handle;
  *part.handle = nullptr;  // until it is made
  return make_ranks({part}, parent.blocks, &parent);
}

/// Ends the calls of a communicator that are in progress.
void abort_calls(Communicator& communicator, Job& job) {
  job.cancel();
  const gpemu_cuda_comm_handle made = communicator.handle.exchange(nullptr);
  if (made != nullptr) {
    gpemu_cuda_comm_abort(made);
  }
  job.wait();
}

/// Ends a rank by a function of gpemu.
int end(const void* handle, gpemu_cuda_status (*function)(gpemu_cuda_comm_handle)) {
  Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr) {
    return kInvalidArgument;
  }
  if (const auto job = communicator->job()) {
    if (function == gpemu_cuda_comm_abort) {
      abort_calls(*communicator, *job);
    } else if (job->status() == kInProgress) {
      return ready_status(*communicator);
    }
  }
  const gpemu_cuda_comm_handle rank = communicator->handle;
  const int status = rank == nullptr ? kSuccess : nccl_status(function(rank));
  return alive<Communicator>().remove(handle) ? status : kInvalidArgument;
}

}  // namespace

GPEMU_SHIM_EXPORT int ncclGetUniqueId(UniqueId* id) {
  gpemu_cuda_comm_id made{};
  static_assert(sizeof(made) == sizeof(*id));
  if (id == nullptr) {
    return kInvalidArgument;
  }
  const int status = nccl_status(gpemu_cuda_comm_unique_id(&made));
  if (status == kSuccess) {
    std::memcpy(id->bytes, made.bytes, sizeof(made));
  }
  return status;
}

GPEMU_SHIM_EXPORT int ncclCommInitRank(void** handle, int ranks, UniqueId id, int rank) {
  return create_on_current_device(handle, ranks, id, rank, nullptr);
}

GPEMU_SHIM_EXPORT int ncclCommInitRankConfig(void** handle, int ranks, UniqueId id, int rank,
                                             const void* config) {
  return create_on_current_device(handle, ranks, id, rank, config);
}

// One process serves the meeting, however many are named to share that work.
GPEMU_SHIM_EXPORT int ncclCommInitRankScalable(void** handle, int ranks, int rank, int ids,
                                               const UniqueId* unique_ids, const void* config) {
  if (ids < 1 || ids > ranks || unique_ids == nullptr) {
    return kInvalidArgument;
  }
  return create_on_current_device(handle, ranks, unique_ids[0], rank, config);
}

GPEMU_SHIM_EXPORT int ncclCommInitAll(void** handles, int devices, const int* list) {
  int32_t count = 0;
  if (gpemu_cuda_device_count(&count) != GPEMU_CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  if (handles == nullptr || devices < 1 || devices > count) {
    return kInvalidArgument;
  }
  std::vector<PendingRank> ranks;
  for (int rank = 0; rank < devices; ++rank) {
    const int device = list == nullptr ? rank : list[rank];
    if (device < 0 || device >= count) {
      return kInvalidArgument;
    }
    ranks.push_back(
        {.handle = &handles[rank], .start = {.ranks = devices, .rank = rank, .device = device}});
  }
  UniqueId id{};
  if (devices == 1) {
    return create(handles, 1, id, 0, ranks.front().start.device, true);
  }
  const int status = ncclGetUniqueId(&id);
  for (PendingRank& rank : ranks) {
    std::memcpy(rank.id.bytes, id.bytes, sizeof(id.bytes));
  }
  return status == kSuccess ? make_ranks(ranks, true, nullptr) : status;
}

GPEMU_SHIM_EXPORT int ncclCommSplit(const void* handle, int color, int key, void** split,
                                    const void* config) {
  Communicator* communicator = nullptr;
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  if (split == nullptr || color < kNoColor) {
    return kInvalidArgument;
  }
  if (communicator->ranks > 1) {
    return create_part(*communicator, {.handle = split, .start = {.color = color, .key = key}},
                       config);
  }
  if (color == kNoColor) {
    *split = nullptr;
    return kSuccess;
  }
  bool blocks = true;
  const int read = read_blocking(config, communicator->blocks, &blocks);
  return read == kSuccess ? create(split, 1, {}, 0, communicator->device, blocks) : read;
}

GPEMU_SHIM_EXPORT int ncclCommShrink(const void* handle, const int* excluded, int count,
                                     void** shrunk, const void* config, int flags) {
  Communicator* communicator = nullptr;
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  if (excluded == nullptr || count < 1 || shrunk == nullptr || (flags & ~kShrinkAbort) != 0) {
    return kInvalidArgument;
  }
  const auto is_wrong = [communicator](int rank) {
    return rank < 0 || rank >= communicator->ranks || rank == communicator->rank;
  };
  if (std::any_of(excluded, excluded + count, is_wrong)) {
    return kInvalidArgument;
  }
  return create_part(*communicator,
                     {.handle = shrunk,
                      .start = {.aborts_parent = flags & kShrinkAbort},
                      .excluded = {excluded, excluded + count}},
                     config);
}

GPEMU_SHIM_EXPORT int ncclCommFinalize(const void* handle) {
  Communicator* communicator = nullptr;
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  if (communicator->is_finalized.exchange(true)) {
    return kInvalidArgument;
  }
  const gpemu_cuda_comm_handle rank = communicator->handle;
  if (rank == nullptr) {
    return kSuccess;
  }
  if (communicator->blocks) {
    return nccl_status(gpemu_cuda_comm_finalize(rank));
  }
  const auto job =
      Job::start([rank](const int32_t*) { return nccl_status(gpemu_cuda_comm_finalize(rank)); });
  if (job == nullptr) {
    return kSystemError;
  }
  communicator->set_job(job);
  return kInProgress;
}
GPEMU_SHIM_EXPORT int ncclCommDestroy(const void* handle) {
  return handle == nullptr ? kSuccess : end(handle, gpemu_cuda_comm_destroy);
}
GPEMU_SHIM_EXPORT int ncclCommAbort(const void* handle) {
  return handle == nullptr ? kSuccess : end(handle, gpemu_cuda_comm_abort);
}

namespace {

/// Yields what a function says of a live communicator.
template <typename Value>
int answer(const void* handle, int* result, Value value_of) {
  Communicator* communicator = nullptr;
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  if (result == nullptr) {
    return kInvalidArgument;
  }
  *result = value_of(*communicator);
  return kSuccess;
}

/// Returns the error of a communicator's calls, kInProgress while one is in progress.
int asynchronous_error(const Communicator& communicator) {
  const auto job = communicator.blocks ? nullptr : communicator.job();
  const int status = job == nullptr ? kSuccess : job->status();
  const gpemu_cuda_comm_handle rank = communicator.handle;
  if (status != kSuccess || rank == nullptr) {
    return status;
  }
  gpemu_cuda_status error = GPEMU_CUDA_SUCCESS;
  const gpemu_cuda_status asked = gpemu_cuda_comm_error(rank, &error);
  return nccl_status(asked == GPEMU_CUDA_SUCCESS ? error : asked);
}

}  // namespace

// The others wait for a rank that has died, as over NVLink, until a call fails.
GPEMU_SHIM_EXPORT int ncclCommGetAsyncError(const void* handle, int* error) {
  const Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr || error == nullptr) {
    return kInvalidArgument;
  }
  *error = asynchronous_error(*communicator);
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclCommCount(const void* handle, int* ranks) {
  return answer(handle, ranks, [](const Communicator& communicator) { return communicator.ranks; });
}
GPEMU_SHIM_EXPORT int ncclCommUserRank(const void* handle, int* rank) {
  return answer(handle, rank, [](const Communicator& communicator) { return communicator.rank; });
}
GPEMU_SHIM_EXPORT int ncclCommCuDevice(const void* handle, int* device) {
  return answer(handle, device,
                [](const Communicator& communicator) { return communicator.device; });
}

// No rank reads the buffers of another, so a registered buffer needs no mapping: it is its own
// handle.
GPEMU_SHIM_EXPORT int ncclCommRegister(const void* handle, void* buffer, size_t bytes,
                                       void** registration) {
  if (find_object<Communicator>(handle) == nullptr || buffer == nullptr || bytes == 0 ||
      registration == nullptr) {
    return kInvalidArgument;
  }
  *registration = buffer;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclCommDeregister(const void* handle, void*) {
  return find_object<Communicator>(handle) == nullptr ? kInvalidArgument : kSuccess;
}

GPEMU_SHIM_EXPORT int ncclMemAlloc(void** memory, size_t bytes) {
  uint64_t address = 0;
  if (memory == nullptr) {
    return kInvalidArgument;
  }
  if (gpemu_cuda_malloc(bytes, &address) != GPEMU_CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  *memory = pointer_to(address);
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclMemFree(void* memory) {
  return gpemu_cuda_free(address_of(memory)) == GPEMU_CUDA_SUCCESS ? kSuccess : kUnhandledCudaError;
}

GPEMU_PROFILING_NAME(ncclGetUniqueId)
GPEMU_PROFILING_NAME(ncclCommInitRank)
GPEMU_PROFILING_NAME(ncclCommInitRankConfig)
GPEMU_PROFILING_NAME(ncclCommInitRankScalable)
GPEMU_PROFILING_NAME(ncclCommInitAll)
GPEMU_PROFILING_NAME(ncclCommSplit)
GPEMU_PROFILING_NAME(ncclCommShrink)
GPEMU_PROFILING_NAME(ncclCommFinalize)
GPEMU_PROFILING_NAME(ncclCommDestroy)
GPEMU_PROFILING_NAME(ncclCommAbort)
GPEMU_PROFILING_NAME(ncclCommGetAsyncError)
GPEMU_PROFILING_NAME(ncclCommCount)
GPEMU_PROFILING_NAME(ncclCommUserRank)
GPEMU_PROFILING_NAME(ncclCommCuDevice)
GPEMU_PROFILING_NAME(ncclCommRegister)
GPEMU_PROFILING_NAME(ncclCommDeregister)
GPEMU_PROFILING_NAME(ncclMemAlloc)
GPEMU_PROFILING_NAME(ncclMemFree)
