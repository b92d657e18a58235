// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstring>
#include <memory>

#include "handle_table.hpp"
#include "nccl.hpp"

namespace {

int create(void** handle, int ranks, int rank, int device) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return kInvalidArgument;
  }
  if (ranks > 1) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "communicators of several ranks");
    last_warning() = "gpemu: NCCL with several ranks is not supported";
    return kInvalidUsage;
  }
  *handle = alive<Communicator>().add(std::make_unique<Communicator>(Communicator{device}));
  return kSuccess;
}

int create_on_current_device(void** handle, int ranks, int rank) {
  int32_t device = 0;
  if (gpemu_cuda_current_device(&device) != GPEMU_CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  return create(handle, ranks, rank, device);
}

int destroy(const void* handle) {
  return alive<Communicator>().remove(handle) ? kSuccess : kInvalidArgument;
}

}  // namespace

GPEMU_SHIM_EXPORT int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<uint64_t> next{1};
  if (id == nullptr) {
    return kInvalidArgument;
  }
  *id = {};
  const uint64_t number = next++;
  std::memcpy(id->bytes, &number, sizeof(number));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int ncclCommInitRank(void** handle, int ranks, UniqueId, int rank) {
  return create_on_current_device(handle, ranks, rank);
}

GPEMU_SHIM_EXPORT int ncclCommInitRankConfig(void** handle, int ranks, UniqueId, int rank,
                                             const void*) {
  return create_on_current_device(handle, ranks, rank);
}

GPEMU_SHIM_EXPORT int ncclCommInitRankScalable(void** handle, int ranks, int rank, int ids,
                                               const UniqueId* unique_ids, const void*) {
  if (ids < 1 || ids > ranks || unique_ids == nullptr) {
    return kInvalidArgument;
  }
  return create_on_current_device(handle, ranks, rank);
}

GPEMU_SHIM_EXPORT int ncclCommInitAll(void** handles, int devices, const int* list) {
  int32_t count = 0;
  if (gpemu_cuda_device_count(&count) != GPEMU_CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  const int device = list == nullptr ? 0 : list[0];
  if (devices < 1 || devices > count || device < 0 || device >= count) {
    return kInvalidArgument;
  }
  return create(handles, devices, 0, device);
}

GPEMU_SHIM_EXPORT int ncclCommSplit(const void* handle, int color, int, void** split, const void*) {
  const Communicator* communicator = find_object<Communicator>(handle);
  if (communicator == nullptr || split == nullptr || color < kNoColor) {
    return kInvalidArgument;
  }
  if (color == kNoColor) {
    *split = nullptr;
    return kSuccess;
  }
  return create(split, 1, 0, communicator->device);
}

GPEMU_SHIM_EXPORT int ncclCommFinalize(const void* handle) {
  return find_object<Communicator>(handle) == nullptr ? kInvalidArgument : kSuccess;
}
GPEMU_SHIM_EXPORT int ncclCommDestroy(const void* handle) {
  return handle == nullptr ? kSuccess : destroy(handle);
}
GPEMU_SHIM_EXPORT int ncclCommAbort(const void* handle) {
  return handle == nullptr ? kSuccess : destroy(handle);
}

namespace {

int answer(const void* handle, int* result, int value) {
  if (find_object<Communicator>(handle) == nullptr || result == nullptr) {
    return kInvalidArgument;
  }
  *result = value;
  return kSuccess;
}

}  // namespace

// All work is done when a call returns, so no communicator fails later.
GPEMU_SHIM_EXPORT int ncclCommGetAsyncError(const void* handle, int* error) {
  return answer(handle, error, kSuccess);
}
GPEMU_SHIM_EXPORT int ncclCommCount(const void* handle, int* ranks) {
  return answer(handle, ranks, 1);
}
GPEMU_SHIM_EXPORT int ncclCommUserRank(const void* handle, int* rank) {
  return answer(handle, rank, 0);
}
GPEMU_SHIM_EXPORT int ncclCommCuDevice(const void* handle, int* device) {
  const Communicator* communicator = find_object<Communicator>(handle);
  return answer(handle, device, communicator == nullptr ? 0 : communicator->device);
}

// One rank exchanges nothing, so a registered buffer needs no mapping: it is its own handle.
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
