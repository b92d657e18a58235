// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::peers {

/// How long a thread waits for bytes of another node before it gives up, and for how long a
/// connection survives a network that is cut: some times what a read from a busy disk takes.
inline constexpr int kPatienceS = 10;

/// The address of a TCP socket. The host is a name or a number.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  [[nodiscard]] std::string str() const;
};

/// Errors: kInvalidArgument saying what is wrong with the text, e.g. "10.77.0.1:29500".
[[nodiscard]] Result<Address> parse_address(std::string_view text);

/// Until when something is waited for.
struct Wait {
  sim::Clock& clock;
  TimePoint until;
  const std::atomic<bool>& stop;

  [[nodiscard]] bool is_over() const {
    return clock.now() >= until || stop.load(std::memory_order_relaxed);
  }
};

/// Errors: kUnavailable naming the address.
[[nodiscard]] Result<FileDescriptor> listen_at(const Address& address);
/// Returns a connection, or one that is not valid if the wait is over. Errors: kIo.
[[nodiscard]] Result<FileDescriptor> accept_at(const FileDescriptor& listener, const Wait& wait);
/// The same, but a connection over which something comes. Those that say nothing wait in `silent`,
/// and keep nobody waiting.
[[nodiscard]] Result<FileDescriptor> accept_speaker(const FileDescriptor& listener,
                                                    std::vector<FileDescriptor>& silent,
                                                    const Wait& wait);
/// Connects, and tries again as long as nobody listens there and the wait is not over.
///
/// Errors: kUnavailable naming the address.
[[nodiscard]] Result<FileDescriptor> connect_to(const Address& address, const Wait& wait);

/// Return the numbers of the socket's other and own end.
[[nodiscard]] Address peer_of(const FileDescriptor& socket);
[[nodiscard]] Address own_of(const FileDescriptor& socket);

/// Move all bytes, or return false: the connection has ended, or nothing moved for kPatienceS.
[[nodiscard]] bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes);
[[nodiscard]] bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes);

/// Sends and receives a message with its size. Receiving refuses more than `most` bytes.
[[nodiscard]] bool send_message(const FileDescriptor& socket, std::span<const std::byte> message);
[[nodiscard]] bool receive_message(const FileDescriptor& socket, std::vector<std::byte>& message,
                                   Bytes most);

}  // namespace gpemu::peers
