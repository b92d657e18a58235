// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::net {

/// What came over a connection between processes of this machine.
struct Packet {
  std::string bytes;
  FileDescriptor descriptor;  ///< if one came with it.
};

/// Sends a packet, which stays whole, and a descriptor if `descriptor` is not -1. Never waits.
/// Errors: kUnavailable if the other end has gone; kNotReady if it does not read, e.g. because it
/// is stopped.
[[nodiscard]] Result<void> send_packet(const FileDescriptor& socket, std::string_view bytes,
                                       int descriptor = -1);

/// Returns the next packet, or its first `most` bytes. Waits for it, for at most `time` if that is
/// given. Errors: kUnavailable if the other end has gone; kNotReady if none came.
[[nodiscard]] Result<Packet> receive_packet(const FileDescriptor& socket, Bytes most,
                                            std::optional<std::chrono::milliseconds> time);

/// Returns the pid and the user of the process that made the other end; the pid is 0 if it is of
/// another pid namespace.
[[nodiscard]] std::pair<pid_t, uid_t> peer_process(const FileDescriptor& socket);

/// Connects to a socket in the file system. Errors: kNotFound if nobody listens there;
/// kUnavailable; kInvalidArgument if the path is too long for a socket.
[[nodiscard]] Result<FileDescriptor> connect_to(const std::filesystem::path& path);

/// Listens on a socket, which replaces one on which nobody listens any more. Errors: kUnavailable
/// if somebody does; kIo; kInvalidArgument if the path is too long for a socket.
[[nodiscard]] Result<FileDescriptor> listen_on(const std::filesystem::path& path);

/// Takes a connection that has come. Errors: kUnavailable.
[[nodiscard]] Result<FileDescriptor> accept_on(const FileDescriptor& listener);

/// Makes a connection within this process. Errors: kIo.
[[nodiscard]] Result<std::pair<FileDescriptor, FileDescriptor>> make_pair();

}  // namespace gpemu::net
