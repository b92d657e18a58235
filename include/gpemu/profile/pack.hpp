// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/pack_content.hpp"
#include "gpemu/profile/profile.hpp"

namespace gpemu::profile {

/// Reads a pack. It need not be good enough to be contributed; see check_pack().
///
/// Errors: kNotFound, kIo; kCorruptData with the first fault's file and line.
[[nodiscard]] Result<Pack> load_pack(const std::filesystem::path& folder);

/// Reads a `pack.toml`, or a `models.csv`, on its own.
///
/// Errors: as load_pack().
[[nodiscard]] Result<PackInfo> load_pack_info(const std::filesystem::path& file);
[[nodiscard]] Result<std::vector<ModelInfo>> load_models(const std::filesystem::path& file);

/// Writes a pack as a new folder. After a failure, nothing is left behind.
///
/// Errors: kInvalidArgument if the folder exists and is not empty; kIo.
[[nodiscard]] Result<void> write_pack(const Pack& pack, const std::filesystem::path& folder);

/// Returns all faults for which a reviewer would reject a pack; none for a good pack. `known_gpus`
/// are the allowed names of GPU folders; if it is empty, every name passes.
[[nodiscard]] std::vector<PackFault> check_pack(const std::filesystem::path& folder,
                                                std::span<const std::string> known_gpus = {});

}  // namespace gpemu::profile
