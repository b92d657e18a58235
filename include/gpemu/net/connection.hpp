// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/net/address.hpp"
#include "gpemu/sim/patience.hpp"

namespace gpemu::net {

/// For how long a connection survives a network that is cut: several times as long as a read from a
/// busy disk takes.
inline constexpr int kCutNetworkS = 10;

using sim::Wait;

/// Errors: kUnavailable naming the address.
[[nodiscard]] Result<FileDescriptor> listen_at(const HostPort& address);

/// Takes the first message of each peer that connects. A peer that sends only a part of it, or
/// nothing, does not keep others waiting: if there are many, the oldest is dropped.
///
/// Thread safety: none.
class Greeter {
 public:
  struct Greeting {
    FileDescriptor socket;  ///< not valid: the wait is over.
    std::vector<std::byte> message;
  };

  /// Takes no messages of more than `most` bytes.
  explicit Greeter(Bytes most) : most_(most) {}

  /// Errors: kIo.
  [[nodiscard]] Result<Greeting> next(const FileDescriptor& listener, const Wait& wait);

 private:
  struct Caller {
    FileDescriptor socket;
    std::vector<std::byte> bytes;  ///< of the message with its size.
  };
  /// Reads what has come. Returns whether nothing more can come: the message is complete, or the
  /// caller has gone or sends something else.
  [[nodiscard]] bool read(Caller& caller) const;
  [[nodiscard]] Result<void> accept(const FileDescriptor& listener);

  Bytes most_;
  std::vector<Caller> callers_;
};

/// Connects, and tries again as long as nobody listens there and the wait is not over.
///
/// Errors: kUnavailable naming the address.
[[nodiscard]] Result<FileDescriptor> connect_to(const HostPort& address, const Wait& wait);

/// Return the address of the socket's other end and of its own, with the host as a number.
[[nodiscard]] HostPort peer_of(const FileDescriptor& socket);
[[nodiscard]] HostPort own_of(const FileDescriptor& socket);

/// Send or receive all bytes before the wait is over.
///
/// Errors: kUnavailable, which names the other end and says what is missing; kInterrupted.
[[nodiscard]] Result<void> send_all(const FileDescriptor& socket, std::span<const std::byte> bytes,
                                    const Wait& wait);
[[nodiscard]] Result<void> receive_all(const FileDescriptor& socket, std::span<std::byte> bytes,
                                       const Wait& wait);

/// Sends and receives a message with its size. Receiving refuses more than `most` bytes.
[[nodiscard]] Result<void> send_message(const FileDescriptor& socket,
                                        std::span<const std::byte> message, const Wait& wait);
[[nodiscard]] Result<std::vector<std::byte>> receive_message(const FileDescriptor& socket,
                                                             Bytes most, const Wait& wait);

}  // namespace gpemu::net
