// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::ranks {

/// What a host moves in one collective: bytes to the next host, and from the previous one.
struct Transfer {
  Bytes sent = 0;
  Bytes own = 0;  ///< of those sent, the bytes that do not depend on any that come.
  Bytes received = 0;
};

/// One host's place in a ring of hosts: a connection to the next host and one from the previous.
/// Moves one transfer at a time. Of the bytes that come, only the number matters: a host sends its
/// own, and then as many as have come. The bytes sent are zeros.
///
/// Never blocks. Thread safety: one thread at a time.
class Wire {
 public:
  enum class State : std::uint8_t {
    kIdle,    ///< no transfer, or it is through: all was sent and received.
    kBusy,    ///< it goes on when awaited() says so.
    kBroken,  ///< a connection has ended. No transfer will be through.
  };

  /// Takes sockets of any kind that carry streams of bytes.
  Wire(FileDescriptor next, FileDescriptor previous);

  /// Begins a transfer. Requires: the state is not kBusy.
  void begin(const Transfer& transfer);
  /// Sends and receives what is possible now, up to some MiB, and returns the state.
  State go_on();
  [[nodiscard]] State state() const { return state_; }

  /// Returns what to poll for before go_on() can move more bytes. Descriptors of -1 need no
  /// waiting.
  [[nodiscard]] std::array<pollfd, 2> awaited() const;

 private:
  [[nodiscard]] Bytes may_send() const;
  /// Moves what is possible, and returns how much.
  Bytes send();
  Bytes receive();

  FileDescriptor next_, previous_;
  State state_ = State::kIdle;
  Transfer transfer_;
  Bytes sent_ = 0, received_ = 0;
  std::vector<std::byte> scratch_;  ///< where the system may leave what it received.
};

}  // namespace gpemu::ranks
