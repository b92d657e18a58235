// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/pack.hpp"

namespace gpemu::profile {

/// A GPU specification as text; see parse_gpu_spec().
struct GpuText {
  std::string toml;
  std::string origin;  ///< names the text in messages, e.g. the file's path.
};

/// Returns the content of a database file with these GPUs and packs. The same input and SQLite
/// version give the same bytes.
///
/// Errors: those of parse_gpu_spec(); kCorruptData if two GPUs share a name or alias, two packs
/// hold the same record, or a pack names a GPU that is not among `gpus`.
[[nodiscard]] Result<std::string> build_database_image(std::span<const GpuText> gpus,
                                                       std::span<const Pack> packs);

/// Writes the database of all `*.toml` files in `gpus_folder` and all folders with a `pack.toml` in
/// `packs_folder`, replacing `output` as a whole.
///
/// Errors: those of build_database_image() and load_pack(); kNotFound if a folder is missing,
/// kCorruptData if a GPU's name differs from its file's, kIo.
[[nodiscard]] Result<void> compile_database(const std::filesystem::path& gpus_folder,
                                            const std::filesystem::path& packs_folder,
                                            const std::filesystem::path& output);

/// Adds a pack to a user's database, which is created if there is none; replaces the pack of the
/// same name. All or nothing. If two packs hold the same record, the one added last wins.
///
/// Errors: kUnavailable while another process writes it; kIncompatible for a file of another kind
/// or version; kCorruptData if the pack holds a record twice; kIo.
[[nodiscard]] Result<void> add_pack(const std::filesystem::path& user_database, const Pack& pack);

/// Removes a pack from a user's database. All or nothing.
///
/// Errors: kNotFound if it is not there; else as add_pack().
[[nodiscard]] Result<void> remove_pack(const std::filesystem::path& user_database,
                                       std::string_view name);

}  // namespace gpemu::profile
