// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/error.hpp"

#include "sqlite.hpp"

namespace gpemu::profile {

/// Marks a SQLite file as ours: "gpmu" in ASCII.
inline constexpr std::int64_t kApplicationId = 0x67706d75;

/// Rises with every change of the tables that an older or newer gpemu would misread.
inline constexpr std::int64_t kFormatVersion = 3;

/// Makes an empty database ours. docs/reference/profile-database.md explains the tables.
[[nodiscard]] Result<void> create_tables(const SqliteConnection& connection);

/// Errors: kIncompatible, naming file and versions, unless the database is ours and of this
/// version.
[[nodiscard]] Result<void> check_format(const SqliteConnection& connection);

}  // namespace gpemu::profile
