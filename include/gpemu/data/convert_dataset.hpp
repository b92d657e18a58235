// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gpemu/base/error.hpp"
#include "gpemu/data/convert_options.hpp"
#include "gpemu/data/dataset.hpp"

namespace gpemu::data {

/// Writes the images of a data set, byte for byte, in another format. `target` is a folder or, for
/// pages, a file whose name ends with ".pages". It appears as a whole at the end; until then the
/// files have a temporary place beside it, which is removed after an error.
///
/// Errors: kInvalidArgument naming the option, or if the target exists and is not an empty folder;
/// those of reading the source; kResourceLimit if the disk is full; kIo; kInterrupted after `stop`.
[[nodiscard]] Result<void> convert_dataset(const Dataset& source,
                                           const std::filesystem::path& target,
                                           const ConvertOptions& options);

}  // namespace gpemu::data
