// SPDX-License-Identifier: Apache-2.0
#include "node_path.hpp"

#include <cerrno>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "gpemu/base/text.hpp"

#include "process_id.hpp"

namespace gpemu::device {

bool is_valid_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kMostNameBytes && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<void> check_user_folder(const std::filesystem::path& folder, uid_t owner) {
  struct stat status{};
  if (::lstat(folder.c_str(), &status) != 0) return {};  // The next step reports what is wrong.
  const auto refuse = [&folder](std::string_view why) {
    return fail(ErrorCode::kIo,
                "the node folder {} {}; remove it, or name another folder with GPEMU_NODE_DIR",
                folder.string(), why);
  };
  if (S_ISLNK(status.st_mode)) return refuse("is a link");
  if (!S_ISDIR(status.st_mode)) return refuse("is not a folder");
  if (status.st_uid != owner) {
    return refuse(
        fmt::format("belongs to user {}, not to {}", user_name(status.st_uid), user_name(owner)));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse(
        fmt::format("may be written by other users (mode {:04o})", status.st_mode & 07777));
  }
  return {};
}

Result<NodePath> split(std::string_view name, const std::filesystem::path& folder) {
  const uid_t self = ::geteuid();
  NodePath node{
      .name = std::string(name), .folder = folder, .file = std::string(name), .owner = self};
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos) {
    const std::string user(name.substr(0, slash));
    const std::optional<uid_t> owner = find_user(user);
    if (!owner) {
      return fail(ErrorCode::kNotFound, "there is no user '{}', who would own the node '{}'",
                  printable(user), printable(name));
    }
    node.file = name.substr(slash + 1);
    node.owner = *owner;
    if (node.owner == self) node.name = node.file;
  }
  if (node.file.empty() || node.file == "." || node.file == ".." ||
      node.file.find('/') != std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a node name", printable(name));
  }
  if (folder == user_folder(self)) {
    node.folder = user_folder(node.owner);
    GPEMU_TRY(check_user_folder(node.folder, node.owner));
  }
  return node;
}

std::filesystem::path user_folder(uid_t user) {
  return fmt::format("/dev/shm/gpemu-{}", user);
}

Result<void> make_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder.parent_path(), ignored);
  // Other users may pass through to a node that was opened to them, but see no other names.
  if (::mkdir(folder.c_str(), 0700) == 0) {
    ::chmod(folder.c_str(), 0711);
  } else if (errno != EEXIST) {
    return fail(ErrorCode::kIo, "cannot create the node folder {}: {}", folder.string(),
                errno_message(errno));
  }
  const uid_t self = ::geteuid();
  return folder == user_folder(self) ? check_user_folder(folder, self) : Result<void>();
}

Result<NodePath> resolve(std::string_view name, const std::filesystem::path& folder) {
  GPEMU_ASSIGN(NodePath node, split(name, folder));
  if (is_valid_name(node.file)) return node;
  return fail(
      ErrorCode::kInvalidArgument,
      "'{}' is not a node name: use 1 to {} letters, digits, '.', '_' and '-', not starting "
      "with '.'; USER/NAME names another user's node",
      printable(name), kMostNameBytes);
}

std::string remove_command(const NodePath& node, bool force) {
  return fmt::format("gpemu node remove {}{}{}", force ? "--force " : "",
                     node.name.starts_with('-') ? "-- " : "", shell_word(node.name));
}

}  // namespace gpemu::device
