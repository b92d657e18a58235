// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/profile/mig_profile.hpp"

#include "sourced_file.hpp"

namespace gpemu::profile {

/// Reads the table `mig` of a GPU's file, in the order in which nvidia-smi lists profiles: by
/// compute slices, then memory slices, then without media extensions first. Returns nothing if
/// there is no such table. Requires: file.read_sources() was called.
///
/// Errors: kCorruptData for the first fault.
[[nodiscard]] Result<std::vector<MigProfile>> read_mig_profiles(const toml::table& root,
                                                                SourcedFile& file);

}  // namespace gpemu::profile
