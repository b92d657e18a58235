// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "communicator.hpp"

namespace gpemu::cuda {

/// A rank to be made, which meets the others of its communicator.
struct CommunicatorStart {
  Meeting::Id id;
  std::array<std::uint64_t, 3> topic{};
  Place place;
  int real_ranks = 1;  ///< so many, the first ones, come; the others are phantoms.
  int device = 0;      ///< as CUDA numbers it.
};

/// A rank whose communicator is to be divided.
struct CommunicatorDivision {
  std::shared_ptr<Communicator> parent;
  std::int32_t color = 0, key = 0;
};

/// Finds out how many ranks of a communicator come. Errors: NOT_SUPPORTED if some ranks of the job
/// are phantoms and the communicator does not have all of the job's ranks, because nobody says
/// which ones it has.
[[nodiscard]] Status find_real_ranks(Place place, int* real_ranks);

/// Makes several ranks at once, so that they may be of one communicator. Blocks until all ranks of
/// their communicators come, or until `is_cancelled`, if it is not null, says so. Errors: those of
/// gpemu_cuda_comm_start_all, ILLEGAL_STATE if it was cancelled.
[[nodiscard]] Status start_communicators(std::span<const CommunicatorStart> starts,
                                         std::vector<std::shared_ptr<Communicator>>* made,
                                         const std::function<bool()>& is_cancelled = nullptr);

/// Finds out which ranks the parts of divided communicators have. Yields nothing for a rank that
/// takes no part. Blocks until all ranks of the communicators come. Errors: NOT_FOUND.
[[nodiscard]] Status divide_communicators(std::span<const CommunicatorDivision> divisions,
                                          std::vector<std::optional<CommunicatorStart>>* starts);

/// Returns the start of a pair's rank; see Communicator::pair.
[[nodiscard]] CommunicatorStart start_of_pair(const Communicator& communicator, int sender,
                                              int receiver);

/// Returns the status for an error, which is told to the user.
[[nodiscard]] Status status_of_meeting(const Error& error);

}  // namespace gpemu::cuda
