// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "gpemu/profile/database.hpp"
#include "gpemu/step/recording.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// Prints how far the memory of recorded steps is from measurements, by GPU, at
/// calibrate::kBatches; JSON has each step. Errors: those of reading the database.
[[nodiscard]] Result<void> evaluate_memory(std::span<const step::Recording> recordings,
                                           const profile::Database& database, bool as_json,
                                           const World& world);

}  // namespace gpemu::tools
