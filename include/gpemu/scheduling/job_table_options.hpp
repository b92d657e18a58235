// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/speed_profile.hpp"

namespace gpemu::scheduling {

/// How long jobs restart, by model and number of GPUs. Units: seconds.
using RestartTimes = std::map<std::pair<std::string, std::uint32_t>, double>;

/// In place of a number of GPUs: any, for which there is no other entry.
inline constexpr std::uint32_t kAnyGpus = 0;

/// How fast models train on what, by name and number of GPUs. Source of each: a table of speeds.
using SpeedTable =
    std::map<std::pair<std::string, std::uint32_t>, std::shared_ptr<const SpeedProfile>>;

/// What the reader of jobs adds to the file.
struct JobTableOptions {
  const Fleet* fleet = nullptr;        ///< has the kinds of GPUs that jobs name; null: it has none.
  const SpeedTable* speeds = nullptr;  ///< has all models of the file; null: none are known.
  double iteration_factor = 1;         ///< iterations take so many times what the file says.
  double restart_s = 0;                ///< of jobs whose file does not say it, without `restarts`.
  const RestartTimes* restarts = nullptr;  ///< has all models of the file; null: none are known.
  /// Takes also formats that do not say when jobs arrive and how long they run; those are then 0.
  bool timeless = false;
  std::size_t* left_out = nullptr;  ///< gets the number of jobs that never ran on GPUs.
};

}  // namespace gpemu::scheduling
