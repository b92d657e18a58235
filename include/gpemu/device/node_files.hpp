// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// Returns the folder of the segments: GPEMU_NODE_DIR if set, else /dev/shm/gpemu-UID.
[[nodiscard]] std::filesystem::path default_node_folder();

/// Returns `named`, for which callers pass the value of GPEMU_NODE. If it is empty, returns the
/// name of the only node that exists.
///
/// Errors: kNotFound without a node, kInvalidArgument with several.
[[nodiscard]] Result<std::string> default_node_name(
    std::string_view named, const std::filesystem::path& folder = default_node_folder());

/// Returns this user's nodes, sorted by name, without those of runs that have ended. Changes
/// nothing.
///
/// Errors: kIo when the folder cannot be read or is not this user's own.
[[nodiscard]] Result<std::vector<NodeEntry>> list_nodes(
    const std::filesystem::path& folder = default_node_folder());

/// Removes a node of any version by name, and also the nodes that killed runs have left behind.
/// Processes that are attached to the node can continue to use it.
///
/// Errors: kNotFound; without `force`, kUnavailable if live processes use it and kIncompatible for
/// a file that is not a segment.
[[nodiscard]] Result<void> remove_node(std::string_view name, bool force = false,
                                       const std::filesystem::path& folder = default_node_folder());

/// Removes this user's temporary nodes that no process uses, of any version.
void sweep(const std::filesystem::path& folder);

/// If somebody truncates a segment that this process has mapped, makes the process end with a
/// message and the exit code of kCorruptData instead of by SIGBUS. Does nothing in a process that
/// handles SIGBUS itself.
void end_when_cut_short();

}  // namespace gpemu::device
