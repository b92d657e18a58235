// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace gpemu::collectives {

/// ncclUniqueId.
struct UniqueId {
  char bytes[128] = {};
};

/// CUDA's runtime and NCCL, as the program finds them: real ones, or gpemu's. The signatures are
/// those of cuda_runtime_api.h and nccl.h.
struct Libraries {
  int (*set_device)(int) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*allocate)(void**, std::size_t) = nullptr;
  int (*free)(void*) = nullptr;
  int (*copy)(void*, const void*, std::size_t, int) = nullptr;
  int (*set)(void*, int, std::size_t) = nullptr;
  int (*create_stream)(void**) = nullptr;
  int (*synchronize)(void*) = nullptr;
  const char* (*cuda_error)(int) = nullptr;

  int (*unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(void**, int, UniqueId, int) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int, int, int, void*, void*) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, void*, void*) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*send)(const void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*receive)(void*, std::size_t, int, int, void*, void*) = nullptr;
  const char* (*nccl_error)(int) = nullptr;
};

/// Loads both. Ends the program with a message if one is missing.
[[nodiscard]] const Libraries& libraries();

/// End the program with a message if a call failed.
void check_cuda(int status, const char* call);
void check_nccl(int status, const char* call);

/// Prints a message and ends the program.
[[noreturn]] void stop(const std::string& message);

}  // namespace gpemu::collectives
