// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "gpemu/base/error.hpp"

namespace gpemu::device {

/// The file that a node's name stands for.
struct NodePath {
  std::string name;  ///< as users write it: NAME, or USER/NAME for another user's node.
  std::filesystem::path folder;
  std::string file;
  uid_t owner = 0;

  [[nodiscard]] std::filesystem::path path() const { return folder / file; }
};

/// The longest NAME.
inline constexpr std::size_t kMostNameBytes = 63;

/// Returns the folder of a user's nodes, /dev/shm/gpemu-UID.
[[nodiscard]] std::filesystem::path user_folder(uid_t user);

/// Errors: kIo if a user_folder is not as its user made it.
[[nodiscard]] Result<void> check_user_folder(const std::filesystem::path& folder, uid_t owner);

/// Makes sure that a folder exists in which this process may create nodes.
///
/// Errors: kIo, also for a user_folder that others could have made or may write to.
[[nodiscard]] Result<void> make_folder(const std::filesystem::path& folder);

/// Returns the file that a node's name stands for. `USER/NAME` is a node of another user, in that
/// user's folder if `folder` is this user's own.
///
/// Errors: kInvalidArgument for a text that is not a name; kNotFound if the user does not exist;
/// kIo for a user_folder that does not belong to its user.
[[nodiscard]] Result<NodePath> resolve(std::string_view name, const std::filesystem::path& folder);

/// Returns where a node may be that is to be removed: its NAME only needs to be a single component
/// of a path. Errors: as resolve.
[[nodiscard]] Result<NodePath> split(std::string_view name, const std::filesystem::path& folder);

/// Returns whether a new node may have this NAME.
[[nodiscard]] bool is_valid_name(std::string_view name);

/// Returns the command that removes a node, as a user types it.
[[nodiscard]] std::string remove_command(const NodePath& node, bool force = false);

}  // namespace gpemu::device
