// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpemu/profile/database.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

/// A selection of curves of the profile database.
struct CurveSelection {
  std::string gpu;
  std::string model;
  std::string precision;                ///< empty: the one that was measured.
  std::vector<std::string> quantities;  ///< empty: all that were measured.
};

/// Adds --gpu, --model, --precision and --quantity.
void add_selection_options(Command command, CurveSelection& selection);

/// Returns the curves, in the order of Quantity.
///
/// Errors: kNotFound for unknown names and missing measurements; the message lists what exists.
/// kInvalidArgument if there are several precisions to choose from.
[[nodiscard]] Result<std::vector<profile::Curve>> select_curves(const profile::Database& database,
                                                                const CurveSelection& selection);

}  // namespace gpemu::tools
