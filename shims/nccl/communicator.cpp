// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <vector>

#include "group.hpp"

namespace {

int create(void** handle, int ranks, const UniqueId& id, int rank, int device) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return kInvalidArgument;
  }
  if (ranks == 1) {
    *handle = alive<Communicator>().add(std::make_unique<Communicator>(Communicator{device}));
    return kSuccess;
  }
  PendingRank pending{handle, {}, {.ranks = ranks, .rank = rank, .device = device}};
  std::memcpy(pending.id.bytes, id.bytes, sizeof(id.bytes));
  return make_ranks({pending});
}

int create_on_current_device(void** handle, int ranks, const UniqueId& id, int rank) {
  int32_t device = 0;
  if (gpemu_cuda_current_device(&device) != GPEMU_CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  return create(handle, ranks, id, rank, device);
}

/// Ends a rank by a function of gpemu.
int end(const void* handle, gpemu_cuda_status (*function)(gpemu_cuda_comm_handle)) {
  const Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr) {
    return kInvalidArgument;
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
  return create_on_current_device(handle, ranks, id, rank);
}

// Nonblocking calls may do their work at once, too, and these do.
GPEMU_SHIM_EXPORT int ncclCommInitRankConfig(void** handle, int ranks, UniqueId id, int rank,
                                             const void*) {
  return create_on_current_device(handle, ranks, id, rank);
}

// One process serves the meeting, however many are named to share that work.
GPEMU_SHIM_EXPORT int ncclCommInitRankScalable(void** handle, int ranks, int rank, int ids,
                                               const UniqueId* unique_ids, const void*) {
  if (ids < 1 || ids > ranks || unique_ids == nullptr) {
    return kInvalidArgument;
  }
  return create_on_current_device(handle, ranks, unique_ids[0], rank);
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
    ranks.push_back({&handles[rank], {}, {.ranks = devices, .rank = rank, .device = device}});
  }
  UniqueId id{};
  if (devices == 1) {
    return create(handles, 1, id, 0, ranks.front().start.device);
  }
  const int status = ncclGetUniqueId(&id);
  for (PendingRank& rank : ranks) {
    std::memcpy(rank.id.bytes, id.bytes, sizeof(id.bytes));
  }
  return status == kSuccess ? make_ranks(ranks) : status;
}

GPEMU_SHIM_EXPORT int ncclCommSplit(const void* handle, int color, int key, void** split,
                                    const void*) {
  const Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr || split == nullptr || color < kNoColor) {
    return kInvalidArgument;
  }
  if (communicator->ranks > 1) {
    return make_ranks({{split, {}, {.parent = communicator->handle, .color = color, .key = key}}});
  }
  if (color == kNoColor) {
    *split = nullptr;
    return kSuccess;
  }
  return create(split, 1, {}, 0, communicator->device);
}

GPEMU_SHIM_EXPORT int ncclCommFinalize(const void* handle) {
  const Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr) {
    return kInvalidArgument;
  }
  return communicator->handle == nullptr
             ? kSuccess
             : nccl_status(gpemu_cuda_comm_finalize(communicator->handle));
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
  const Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr || result == nullptr) {
    return kInvalidArgument;
  }
  *result = value_of(*communicator);
  return kSuccess;
}

}  // namespace

// The others wait for a rank that has died, as over NVLink, until a call fails.
GPEMU_SHIM_EXPORT int ncclCommGetAsyncError(const void* handle, int* error) {
  return answer(handle, error, [](const Communicator& communicator) {
    gpemu_cuda_status status = GPEMU_CUDA_SUCCESS;
    if (communicator.handle == nullptr) {
      return static_cast<int>(kSuccess);
    }
    const gpemu_cuda_status asked = gpemu_cuda_comm_error(communicator.handle, &status);
    return nccl_status(asked == GPEMU_CUDA_SUCCESS ? status : asked);
  });
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
