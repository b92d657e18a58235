// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/profile/calibration.hpp"
#include "gpemu/profile/collective_tables.hpp"
#include "gpemu/topology/collective.hpp"

namespace gpemu::calibrate {

/// A measured collective on a fabric.
struct CollectiveRow {
  std::size_t machine = 0;  ///< index of its machine's name.
  topology::Fabric fabric;
  topology::Collective collective = topology::Collective::kAllReduce;
  Bytes bytes = 0;
  double seconds = 0;
  std::optional<topology::Algorithm> algorithm;  ///< that NCCL used, if known.
  bool forced = false;                           ///< the program told NCCL to use it.
  double weight = 1;          ///< each machine and number of ranks counts the same.
  bool one_launcher = false;  ///< one thread launched for all GPUs.
  bool python = false;        ///< Python's launch is in the time.
};

struct CollectiveRows {
  std::vector<std::string> machines;
  std::vector<CollectiveRow> rows;
};

/// Errors: kCorruptData for a name that means nothing.
[[nodiscard]] Result<CollectiveRows> collective_rows(const profile::CollectiveTables& tables);

/// The shares of topology::Share, and what launching adds to some measurements.
inline constexpr std::size_t kCollectiveParameters = topology::kShares + 2;
[[nodiscard]] std::span<const profile::Parameter> collective_parameters(topology::LinkClass link);

/// Fits the shares of a kind of link to its rows, but for those of one machine. Errors: as fit().
[[nodiscard]] Result<std::array<double, kCollectiveParameters>> fit_collectives(
    const CollectiveRows& rows, topology::LinkClass link,
    std::optional<std::size_t> left_out = std::nullopt);

/// A row as predicted from the other machines.
struct PredictedCollective {
  std::size_t row = 0;
  double seconds = 0;
  topology::Choice choice;
};

/// Leaves out each machine of a kind of link in turn, and predicts its rows from the others.
/// A machine that is alone is predicted from what is expected without any data. Errors: as fit().
[[nodiscard]] Result<std::vector<PredictedCollective>> evaluate_collectives(
    const CollectiveRows& rows, topology::LinkClass link);

/// Returns the bars for topology::size_class() from rows as predicted from other machines.
[[nodiscard]] std::array<double, 3> collective_bars(const CollectiveRows& rows,
                                                    std::span<const PredictedCollective> predicted);

}  // namespace gpemu::calibrate
