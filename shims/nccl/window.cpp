// SPDX-License-Identifier: Apache-2.0
// Windows: memory that NCCL registers for faster collectives, and for other ranks' one-sided calls,
// which are not supported.
#include <memory>

#include "nccl.hpp"

namespace {

struct Window {
  const void* communicator;
  void* buffer;
};

/// Finds a window of a live communicator. Errors: kInvalidArgument, those of ready_status().
int find_window(const void* handle, const void* window, const Window** found) {
  Communicator* communicator = nullptr;
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  *found = find_object<Window>(window);
  return *found != nullptr && (*found)->communicator == handle ? kSuccess : kInvalidArgument;
}

}  // namespace

// Collectives take the time that they take without: what was measured does not say what it saves.
GPEMU_SHIM_EXPORT int ncclCommWindowRegister(const void* handle, void* buffer, size_t bytes,
                                             void** window, int) {
  Communicator* communicator = nullptr;
  const int status = find_ready(handle, &communicator);
  if (status != kSuccess) {
    return status;
  }
  if (window == nullptr) {
    return kInvalidArgument;
  }
  *window = nullptr;
  if (buffer == nullptr || bytes == 0) {
    return kInvalidArgument;
  }
  *window = alive<Window>().add(std::make_unique<Window>(Window{handle, buffer}));
  return kSuccess;
}
GPEMU_SHIM_EXPORT int ncclCommWindowDeregister(const void* handle, const void* window) {
  const Window* found = nullptr;
  if (window == nullptr) {
    Communicator* communicator = nullptr;
    return find_ready(handle, &communicator);
  }
  const int status = find_window(handle, window, &found);
  if (status == kSuccess) {
    alive<Window>().remove(window);
  }
  return status;
}
GPEMU_SHIM_EXPORT int ncclWinGetUserPtr(const void* handle, const void* window, void** buffer) {
  const Window* found = nullptr;
  if (buffer == nullptr) {
    return kInvalidArgument;
  }
  const int status = find_window(handle, window, &found);
  if (status == kSuccess) {
    *buffer = found->buffer;
  }
  return status;
}

GPEMU_PROFILING_NAME(ncclCommWindowRegister)
GPEMU_PROFILING_NAME(ncclCommWindowDeregister)
GPEMU_PROFILING_NAME(ncclWinGetUserPtr)
