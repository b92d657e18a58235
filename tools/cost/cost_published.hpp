// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/database.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// Compares the operation cost model with the published steps of a folder such as
/// evidence/published, and prints the errors and how many steps lie within their bars. `gpu_out`:
/// no steps of a GPU take part in its predictions.
[[nodiscard]] Result<void> evaluate_published(const std::string& folder,
                                              const profile::Database& database, bool gpu_out,
                                              bool as_json, const World& world);

/// Fits the parameters of a GPU to published or measured steps, all but those of families that are
/// held out, and writes them into its file in `gpus_folder`, unless that is empty.
[[nodiscard]] Result<void> fit_published(const std::string& folder, const std::string& gpu_name,
                                         const profile::Database& database,
                                         const std::string& gpus_folder, const World& world);

}  // namespace gpemu::tools
