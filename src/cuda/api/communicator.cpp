// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <cstring>
#include <span>
#include <vector>

#include "gpemu/cuda.h"

#include "attach.hpp"
#include "collective_calls.hpp"
#include "communicator_start.hpp"

namespace cuda = gpemu::cuda;

namespace {

/// Returns the communicator of a handle, or null.
std::shared_ptr<cuda::Communicator> find_communicator(gpemu_cuda_comm_handle handle) {
  const gpemu_cuda_comm* const found = cuda::communicators().find(handle);
  return found == nullptr ? nullptr : found->communicator;
}

/// Finds out what each start makes; nothing for ranks that take no part in a division. Errors:
/// INVALID_VALUE, INVALID_HANDLE, those of divide_communicators.
gpemu_cuda_status read_starts(std::span<const gpemu_cuda_comm_start> starts,
                              std::vector<std::optional<cuda::CommunicatorStart>>* read) {
  std::vector<cuda::CommunicatorDivision> divisions;
  for (const gpemu_cuda_comm_start& start : starts) {
    if (start.id == nullptr) {
      const auto parent = find_communicator(start.parent);
      if (parent == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
      divisions.push_back({.parent = parent, .color = start.color, .key = start.key});
    } else if (start.ranks < 1 || start.rank < 0 || start.rank >= start.ranks) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
  }
  std::vector<std::optional<cuda::CommunicatorStart>> parts;
  GPEMU_CUDA_TRY(cuda::divide_communicators(divisions, &parts));
  std::size_t part = 0;
  for (const gpemu_cuda_comm_start& start : starts) {
    if (start.id == nullptr) {
      read->push_back(parts[part++]);
      continue;
    }
    cuda::Meeting::Id id;
    static_assert(sizeof(id) <= sizeof(start.id->bytes));
    std::memcpy(&id, start.id->bytes, sizeof(id));
    cuda::CommunicatorStart wanted{
        .id = id, .place = {.rank = start.rank, .ranks = start.ranks}, .device = start.device};
    GPEMU_CUDA_TRY(cuda::find_real_ranks(wanted.place, &wanted.real_ranks));
    if (wanted.real_ranks > cuda::Mailbox::kMostRanks) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    read->push_back(wanted);
  }
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

gpemu_cuda_status gpemu_cuda_comm_unique_id(gpemu_cuda_comm_id* id) try {
  if (id == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const auto opened = cuda::Meeting::open();
  if (!opened) return cuda::status_of_meeting(opened.error());
  *id = {};
  std::memcpy(id->bytes, &*opened, sizeof(*opened));
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_start_all(const gpemu_cuda_comm_start* starts, size_t count,
                                            gpemu_cuda_comm_handle* comms) try {
  if (starts == nullptr || comms == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(cuda::attach());
  std::vector<std::optional<cuda::CommunicatorStart>> read;
  GPEMU_CUDA_TRY(read_starts({starts, count}, &read));
  std::vector<cuda::CommunicatorStart> wanted;
  for (const auto& start : read) {
    if (start) wanted.push_back(*start);
  }
  std::vector<std::shared_ptr<cuda::Communicator>> made;
  if (!wanted.empty()) GPEMU_CUDA_TRY(cuda::start_communicators(wanted, &made));
  std::vector<gpemu_cuda_comm_handle> handles(count);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!read[i]) continue;
    handles[i] = cuda::communicators().create(std::move(made[next++]));
    if (handles[i] == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::copy(handles.begin(), handles.end(), comms);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_run(const gpemu_cuda_comm_call* calls, size_t count) try {
  if (calls == nullptr && count != 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::run_collectives({calls, count});
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_get_info(gpemu_cuda_comm_handle comm,
                                           gpemu_cuda_comm_info* info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(cuda::attach());
  const auto found = find_communicator(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  *info = {.ranks = found->place().ranks,
           .rank = found->place().rank,
           .device = found->device().ordinal};
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_error(gpemu_cuda_comm_handle comm, gpemu_cuda_status* error) try {
  if (error == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(cuda::attach());
  const auto found = find_communicator(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  *error = found->error();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_finalize(gpemu_cuda_comm_handle comm) try {
  GPEMU_CUDA_TRY(cuda::attach());
  const auto found = find_communicator(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  found->finalize();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_destroy(gpemu_cuda_comm_handle comm) try {
  GPEMU_CUDA_TRY(cuda::attach());
  gpemu_cuda_comm* const found = cuda::communicators().find(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  const auto communicator = found->communicator;
  communicator->finalize();
  cuda::communicators().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_abort(gpemu_cuda_comm_handle comm) try {
  GPEMU_CUDA_TRY(cuda::attach());
  gpemu_cuda_comm* const found = cuda::communicators().find(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  const auto communicator = found->communicator;
  communicator->abort();
  cuda::communicators().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
