// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"

namespace gpemu::scheduling {

/// Reads servers from a CSV file, which may be compressed by gzip. The header's columns tell the
/// format (docs/reference/fleet-tables.md): gpemu's own, or that of Alibaba's openb trace.
///
/// Errors: kIo; kCorruptData with file and line, and what a column must hold; as Fleet::create.
[[nodiscard]] Result<Fleet> read_fleet(const std::filesystem::path& path);

/// Reads servers from the text of such a file; messages call it `name`.
[[nodiscard]] Result<Fleet> parse_fleet(std::string_view text, const std::string& name);

}  // namespace gpemu::scheduling
