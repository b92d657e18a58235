// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/communicator.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"
#include "gpemu/ranks/communicator_start.hpp"

#include "collective_calls.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace ranks = gpemu::ranks;

namespace {

/// Returns the communicator of a handle, or null.
std::shared_ptr<ranks::Communicator> find_communicator(gpemu_cuda_comm_handle handle) {
  const gpemu_cuda_comm* const found = ranks::communicators().find(handle);
  return found == nullptr ? nullptr : found->communicator;
}

/// Returns the parents' communicators. Errors: INVALID_HANDLE.
gpemu_cuda_status find_parents(std::span<const gpemu_cuda_comm_start> starts,
                               std::vector<std::shared_ptr<ranks::Communicator>>* parents) {
  for (const gpemu_cuda_comm_start& start : starts) {
    parents->push_back(start.id == nullptr ? find_communicator(start.parent) : nullptr);
    if (start.id == nullptr && parents->back() == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Reads the start of a rank of a new communicator. Errors: INVALID_VALUE, NOT_SUPPORTED.
gpemu_cuda_status read_new(const gpemu_cuda_comm_start& start, ranks::CommunicatorStart* read) {
  if (start.ranks < 1 || start.rank < 0 || start.rank >= start.ranks) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  static_assert(sizeof(read->id) <= sizeof(start.id->bytes));
  std::memcpy(&read->id, start.id->bytes, sizeof(read->id));
  read->place = {.rank = start.rank, .ranks = start.ranks};
  read->device = start.device;
  GPEMU_CUDA_TRY(ranks::find_real_ranks(read->place, &read->real_ranks));
  return read->real_ranks > ranks::Mailbox::kMostRanks ? GPEMU_CUDA_ERROR_INVALID_VALUE
                                                       : GPEMU_CUDA_SUCCESS;
}

/// Finds out what each start makes; nothing for ranks that take no part in a division. Errors:
/// INVALID_VALUE, INVALID_HANDLE, those of divide_communicators and of find_remainders.
gpemu_cuda_status read_starts(std::span<const gpemu_cuda_comm_start> starts,
                              const ranks::IsCancelled& is_cancelled,
                              std::vector<std::optional<ranks::CommunicatorStart>>* read) {
  std::vector<std::shared_ptr<ranks::Communicator>> parents;
  GPEMU_CUDA_TRY(find_parents(starts, &parents));
  std::vector<ranks::CommunicatorDivision> divisions;
  std::vector<ranks::CommunicatorRemainder> remainders;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const gpemu_cuda_comm_start& start = starts[i];
    if (start.id != nullptr) continue;
    if (start.excluded_count == 0) {
      divisions.push_back({.parent = parents[i], .color = start.color, .key = start.key});
      continue;
    }
    if (start.excluded == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    remainders.push_back({.parent = parents[i],
                          .excluded = {start.excluded, start.excluded + start.excluded_count}});
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (parents[i] != nullptr && starts[i].aborts_parent != 0) parents[i]->abort();
  }
  std::vector<std::optional<ranks::CommunicatorStart>> parts;
  GPEMU_CUDA_TRY(ranks::divide_communicators(divisions, &parts, is_cancelled));
  std::vector<ranks::CommunicatorStart> remaining;
  GPEMU_CUDA_TRY(ranks::find_remainders(remainders, &remaining, is_cancelled));
  std::size_t part = 0, rest = 0;
  for (const gpemu_cuda_comm_start& start : starts) {
    if (start.id != nullptr) {
      GPEMU_CUDA_TRY(read_new(start, &read->emplace_back().emplace()));
    } else if (start.excluded_count == 0) {
      read->push_back(parts[part++]);
    } else {
      read->push_back(remaining[rest++]);
    }
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Returns what asks whether one of the starts was cancelled, null if none can be.
ranks::IsCancelled cancellation_of(std::span<const gpemu_cuda_comm_start> starts) {
  const auto can_be = [](const gpemu_cuda_comm_start& start) { return start.cancelled != nullptr; };
  if (std::ranges::none_of(starts, can_be)) return nullptr;
  return [starts, can_be] {
    return std::ranges::any_of(starts, [can_be](const gpemu_cuda_comm_start& start) {
      return can_be(start) && __atomic_load_n(start.cancelled, __ATOMIC_ACQUIRE) != 0;
    });
  };
}

}  // namespace

gpemu_cuda_status gpemu_cuda_comm_unique_id(gpemu_cuda_comm_id* id) try {
  if (id == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  ranks::Meeting::Id made;
  GPEMU_CUDA_TRY(ranks::make_unique_id(&made));
  *id = {};
  std::memcpy(id->bytes, &made, sizeof(made));
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_start_all(const gpemu_cuda_comm_start* starts, size_t count,
                                            gpemu_cuda_comm_handle* comms) try {
  if (starts == nullptr || comms == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  std::vector<std::optional<ranks::CommunicatorStart>> read;
  const ranks::IsCancelled is_cancelled = cancellation_of({starts, count});
  GPEMU_CUDA_TRY(read_starts({starts, count}, is_cancelled, &read));
  std::vector<ranks::CommunicatorStart> wanted;
  for (const auto& start : read) {
    if (start) wanted.push_back(*start);
  }
  std::vector<std::shared_ptr<ranks::Communicator>> made;
  if (!wanted.empty()) GPEMU_CUDA_TRY(ranks::start_communicators(wanted, &made, is_cancelled));
  std::vector<gpemu_cuda_comm_handle> handles(count);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!read[i]) continue;
    handles[i] = ranks::communicators().create(std::move(made[next++]));
    if (handles[i] == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::copy(handles.begin(), handles.end(), comms);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

const char* gpemu_cuda_comm_warning() {
  return ranks::last_warning();
}

gpemu_cuda_status gpemu_cuda_comm_run(const gpemu_cuda_comm_call* calls, size_t count) try {
  if (calls == nullptr && count != 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::run_collectives({calls, count});
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_expected_time(const gpemu_cuda_comm_call* calls, size_t count,
                                                double* microseconds) try {
  if ((calls == nullptr && count != 0) || microseconds == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  return cuda::find_expected_time({calls, count}, microseconds);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_get_info(gpemu_cuda_comm_handle comm,
                                           gpemu_cuda_comm_info* info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
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
  GPEMU_CUDA_TRY(process::attach());
  const auto found = find_communicator(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  *error = found->error();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_finalize(gpemu_cuda_comm_handle comm) try {
  GPEMU_CUDA_TRY(process::attach());
  const auto found = find_communicator(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  found->finalize();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_destroy(gpemu_cuda_comm_handle comm) try {
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_comm* const found = ranks::communicators().find(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  const auto communicator = found->communicator;
  communicator->finalize();
  ranks::communicators().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_comm_abort(gpemu_cuda_comm_handle comm) try {
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_comm* const found = ranks::communicators().find(comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  const auto communicator = found->communicator;
  communicator->abort();
  ranks::communicators().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
