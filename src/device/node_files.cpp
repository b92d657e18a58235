// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/base/variables.hpp"

#include "node_path.hpp"
#include "process_id.hpp"
#include "segment_file.hpp"

namespace gpemu::device {
namespace {

bool is_named_by(const std::filesystem::path& path, const struct stat& file) {
  struct stat named{};
  return ::lstat(path.c_str(), &named) == 0 && named.st_ino == file.st_ino &&
         named.st_dev == file.st_dev;
}

/// Removes a temporary node that no process uses.
void sweep_one(const NodePath& node) {
  const Result<FileDescriptor> file = open_segment(node, O_RDONLY);
  if (!file) return;
  const Result<SegmentPrefix> prefix = read_prefix(*file, node);
  struct stat status{};
  if (!prefix || !prefix->temporary || ::flock(file->get(), LOCK_EX | LOCK_NB) != 0 ||
      ::fstat(file->get(), &status) != 0 || !is_named_by(node.path(), status)) {
    return;
  }
  ::unlink(node.path().c_str());
}

/// Returns how a file appears in a list of nodes; nothing for a file that does not belong there.
std::optional<NodeEntry> entry_of(const NodePath& node) {
  struct stat status{};
  if (::lstat(node.path().c_str(), &status) != 0 || status.st_uid != node.owner) return {};
  const auto with_problem = [&node](const Error& error) {
    return NodeEntry{.name = node.name, .problem = error};
  };
  if (!is_valid_name(node.file)) {
    return with_problem(not_a_segment(node, "its name is not a node name").error());
  }
  const Result<FileDescriptor> file = open_segment(node, O_RDONLY);
  // Removed since it was listed.
  if (!file && file.error().code == ErrorCode::kNotFound) return {};
  if (!file) return with_problem(file.error());
  const Result<NodeFacts> facts = read_facts(*file, node);
  if (!facts) return with_problem(facts.error());
  // Left by a run that was killed; the next process that creates a node removes it.
  if (facts->temporary && is_unused(*file)) return {};
  return NodeEntry{.name = node.name, .problem = {}};
}

/// Calls `visit` with each file of a folder. Errors: kIo when the folder cannot be read.
template <typename Visit>
Result<void> for_each_file(const std::filesystem::path& folder, Visit visit) {
  const Result<std::vector<std::filesystem::path>> paths = list_folder(folder);
  if (!paths && paths.error().code == ErrorCode::kNotFound) return {};
  if (!paths) return std::unexpected(paths.error());
  for (const std::filesystem::path& path : *paths) {
    const std::string file = path.filename().string();
    visit(NodePath{.name = file, .folder = folder, .file = file, .owner = ::geteuid()});
  }
  return {};
}

}  // namespace

std::filesystem::path default_node_folder() {
  const char* directory = std::getenv(variable::kNodeDir);
  if (directory != nullptr && *directory != '\0') return directory;
  return user_folder(::geteuid());
}

Result<std::string> default_node_name(std::string_view named, const std::filesystem::path& folder) {
  if (!named.empty()) return std::string(named);
  GPEMU_ASSIGN(std::vector<NodeEntry> nodes, list_nodes(folder));
  const auto damaged =
      std::erase_if(nodes, [](const NodeEntry& node) { return node.problem.has_value(); });
  if (nodes.size() == 1) return nodes.front().name;
  if (nodes.empty()) {
    return fail(ErrorCode::kNotFound,
                "there is no node in {}{}: start a program with `gpemu run --gpu NAME -- PROGRAM`, "
                "or create a node with `gpemu node create`",
                folder.string(),
                damaged == 0 ? "" : " that can be used (`gpemu node list` says why)");
  }
  return fail(ErrorCode::kInvalidArgument,
              "there are {} nodes: name one with GPEMU_NODE or, for `gpemu run`, with --node "
              "(`gpemu node list` shows them)",
              nodes.size());
}

void sweep(const std::filesystem::path& folder) {
  static_cast<void>(for_each_file(folder, sweep_one));
}

Result<std::vector<NodeEntry>> list_nodes(const std::filesystem::path& folder) {
  const uid_t self = ::geteuid();
  if (folder == user_folder(self)) GPEMU_TRY(check_user_folder(folder, self));
  std::vector<NodeEntry> entries;
  GPEMU_TRY(for_each_file(folder, [&entries](const NodePath& node) {
    if (auto entry = entry_of(node)) entries.push_back(*std::move(entry));
  }));
  std::ranges::sort(entries, {}, &NodeEntry::name);
  return entries;
}

Result<void> remove_node(std::string_view name, bool force, const std::filesystem::path& folder) {
  GPEMU_ASSIGN(const NodePath node, split(name, folder));
  Result<FileDescriptor> file = open_segment(node, O_RDONLY);
  if (!file && file.error().code == ErrorCode::kNotFound) {
    return std::unexpected(std::move(file).error());
  }
  const Result<SegmentPrefix> prefix =
      file ? read_prefix(*file, node) : std::unexpected(file.error());
  if (!force && !prefix) return std::unexpected(prefix.error());
  // Converting our lock works only if nobody else holds one.
  if (!force && ::flock(file->get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::kUnavailable,
                "the node '{}' is in use (`gpemu smi {}` shows by whom); end those processes, or "
                "remove it with --force",
                printable(node.name), printable(node.name));
  }
  struct stat status{};
  if (::lstat(node.path().c_str(), &status) != 0) return {};  // Another process was faster.
  if (status.st_uid != node.owner) {
    return fail(ErrorCode::kInvalidArgument, "{} belongs to user {}, not to {}",
                printable(node.path().string()), user_name(status.st_uid), user_name(node.owner));
  }
  struct stat locked{};
  if (!force && (::fstat(file->get(), &locked) != 0 || !is_named_by(node.path(), locked))) {
    return fail(ErrorCode::kUnavailable, "another process has just replaced the node '{}'",
                printable(node.name));
  }
  if (::unlink(node.path().c_str()) != 0) {
    return fail(ErrorCode::kIo, "cannot remove {}: {}", printable(node.path().string()),
                errno_message(errno));
  }
  // Also remove the nodes that killed runs have left.
  sweep(node.folder);
  return {};
}

}  // namespace gpemu::device
