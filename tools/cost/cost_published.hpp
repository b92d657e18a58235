// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/database.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// Compares the operation cost model with the published steps of a folder such as published, and
/// prints the errors and how many steps lie within their bars.
[[nodiscard]] Result<void> evaluate_published(const std::string& folder,
                                              const profile::Database& database, bool as_json,
                                              const World& world);

/// Fits the parameters of profile::kHalfGpu to published steps, all but those of families that are
/// held out, and writes them into its file in `gpus_folder`, unless that is empty.
[[nodiscard]] Result<void> fit_published(const std::string& folder,
                                         const profile::Database& database,
                                         const std::string& gpus_folder, const World& world);

}  // namespace gpemu::tools
