// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <sys/types.h>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/mps/message.hpp"

namespace gpemu::mps {

/// One end of a connection over which messages go, each as a whole. When a process ends, so do its
/// ends of connections, and the other ends notice. Thread safety: one thread sends and one receives
/// at a time.
class Channel {
 public:
  Channel() = default;
  explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// A message, and what came with it.
  struct Received {
    Message message;
    FileDescriptor descriptor;  ///< if one came with it.
  };

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] bool valid() const { return socket_.valid(); }
  /// Ends the connection for both.
  void close() { socket_ = FileDescriptor(); }

  /// Sends a message, and a descriptor if `descriptor` is not -1. Never waits. Errors: kUnavailable
  /// if the other end has gone; kNotReady if it does not read, e.g. because it is stopped.
  [[nodiscard]] Result<void> send(const Message& message, int descriptor = -1) const;

  /// Returns the next message. Waits for it, for at most `time` if that is given. Errors:
  /// kUnavailable if the other end has gone; kNotReady if none came; kCorruptData.
  [[nodiscard]] Result<Received> receive(std::optional<std::chrono::milliseconds> time = {}) const;

  /// Returns the pid and the user of the process that made the other end; the pid is 0 if it is of
  /// another pid namespace.
  [[nodiscard]] std::pair<pid_t, uid_t> peer() const;

 private:
  FileDescriptor socket_;
};

/// Connects to a socket. Errors: kNotFound if nobody listens there; kUnavailable.
[[nodiscard]] Result<Channel> connect_to(const std::filesystem::path& path);

/// Listens on a socket, which replaces one on which nobody listens any more. Errors: kUnavailable
/// if somebody does; kIo; kInvalidArgument if the path is too long for a socket.
[[nodiscard]] Result<FileDescriptor> listen_on(const std::filesystem::path& path);

/// Takes a connection that has come. Errors: kUnavailable.
[[nodiscard]] Result<Channel> accept_on(const FileDescriptor& listener);

/// Makes a connection within this process. Errors: kIo.
[[nodiscard]] Result<std::pair<Channel, Channel>> make_pair();

}  // namespace gpemu::mps
