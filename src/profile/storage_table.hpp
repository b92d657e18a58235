// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gpemu/base/error.hpp"

#include "sourced_file.hpp"

namespace gpemu::profile {

struct StorageSpec;

/// Puts the numbers of a table into a storage device: that of a host, or a whole storage file.
[[nodiscard]] Result<void> read_storage_numbers(const SourcedFile& file, const toml::table& table,
                                                const std::string& field, StorageSpec& spec);

}  // namespace gpemu::profile
