// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/ranks/communicator.hpp"

namespace gpemu::ranks {

/// A rank to be made, which meets the others of its communicator.
struct CommunicatorStart {
  Meeting::Id id;
  std::array<std::uint64_t, 3> topic{};
  Place place;
  int real_ranks = 1;  ///< so many, the first ones, come; the others are phantoms.
  int device = 0;      ///< as CUDA numbers it.
};

/// Asked now and then by a call that waits for other ranks: whether to give up. Null: never.
using IsCancelled = std::function<bool()>;

/// A rank whose communicator is to be divided.
struct CommunicatorDivision {
  std::shared_ptr<Communicator> parent;
  std::int32_t color = 0, key = 0;
};

/// A rank of a new communicator that has all ranks of another one but some, which may have ended.
struct CommunicatorRemainder {
  std::shared_ptr<Communicator> parent;
  std::set<int> excluded;
};

/// Finds out how many ranks of a communicator come. Errors: NOT_SUPPORTED if some ranks of the job
/// are phantoms and the communicator does not have all of the job's ranks, because nobody says
/// which ones it has.
[[nodiscard]] process::Status find_real_ranks(Place place, int* real_ranks);

/// Makes several ranks at once, so that they may be of one communicator. Blocks until all ranks of
/// their communicators come. Errors: those of gpemu_cuda_comm_start_all.
[[nodiscard]] process::Status start_communicators(std::span<const CommunicatorStart> starts,
                                                  std::vector<std::shared_ptr<Communicator>>* made,
                                                  const IsCancelled& is_cancelled = nullptr);

/// Finds out which ranks the parts of divided communicators have. Yields nothing for a rank that
/// takes no part. Blocks until all ranks of the communicators come. Errors: NOT_FOUND,
/// ILLEGAL_STATE if it was cancelled.
[[nodiscard]] process::Status divide_communicators(
    std::span<const CommunicatorDivision> divisions,
    std::vector<std::optional<CommunicatorStart>>* starts,
    const IsCancelled& is_cancelled = nullptr);

/// Finds out where the remaining ranks of communicators meet. Blocks until the first of them comes.
/// Errors: INVALID_VALUE for ranks that there are not, and if the rank itself is excluded;
/// NOT_SUPPORTED with ranks that do not run; NOT_FOUND if the first one has ended; ILLEGAL_STATE if
/// it was cancelled.
[[nodiscard]] process::Status find_remainders(std::span<const CommunicatorRemainder> remainders,
                                              std::vector<CommunicatorStart>* starts,
                                              const IsCancelled& is_cancelled = nullptr);

/// Returns the id by which the ranks of a new communicator find each other: a new one or, with
/// NCCL_COMM_ID, that of the address in it. Errors: INVALID_VALUE, OPERATING_SYSTEM.
[[nodiscard]] process::Status make_unique_id(Meeting::Id* id);

/// Returns the start of a pair's rank; see Communicator::pair.
[[nodiscard]] CommunicatorStart start_of_pair(const Communicator& communicator, int sender,
                                              int receiver);

/// Returns what gpemu_cuda_comm_warning does.
[[nodiscard]] const char* last_warning();

/// Returns the status for an error, which is told to the user.
[[nodiscard]] process::Status status_of_meeting(const Error& error);

}  // namespace gpemu::ranks
