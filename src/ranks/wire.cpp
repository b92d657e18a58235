// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::ranks {
namespace {

/// Bytes that one call moves at most: some times what TCP gives to an interface at once.
constexpr Bytes kPiece = 256 * 1024;
/// Pieces in one direction before others get their turn.
constexpr int kPieces = 16;

}  // namespace

Wire::Wire(FileDescriptor next, FileDescriptor previous)
    : next_(std::move(next)), previous_(std::move(previous)), scratch_(kPiece) {}

void Wire::begin(const Transfer& transfer) {
  GPEMU_CHECK(state_ != State::kBusy, "a transfer begins while another one is on its way");
  if (state_ == State::kBroken) return;
  transfer_ = transfer;
  sent_ = received_ = 0;
  state_ = State::kBusy;
}

Bytes Wire::may_send() const {
  return std::min(transfer_.sent, transfer_.own + received_) - sent_;
}

Bytes Wire::send() {
  static const std::vector<std::byte> zeros(kPiece);
  const Bytes bytes = std::min(may_send(), kPiece);
  if (bytes == 0) return 0;
  const ssize_t sent = ::send(next_.get(), zeros.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    sent_ += static_cast<Bytes>(sent);
    return static_cast<Bytes>(sent);
  }
  if (errno != EAGAIN && errno != EINTR) state_ = State::kBroken;
  return 0;
}

Bytes Wire::receive() {
  const Bytes bytes = std::min(transfer_.received - received_, kPiece);
  if (bytes == 0) return 0;
  // With this flag, TCP drops the bytes instead of copying them. Source: Linux, tcp(7).
  const ssize_t got = ::recv(previous_.get(), scratch_.data(), bytes, MSG_DONTWAIT | MSG_TRUNC);
  if (got > 0) {
    received_ += static_cast<Bytes>(got);
    return static_cast<Bytes>(got);
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) state_ = State::kBroken;
  return 0;
}

Wire::State Wire::go_on() {
  for (int piece = 0; piece < kPieces && state_ == State::kBusy; ++piece) {
    const Bytes moved = receive();
    if (state_ != State::kBusy || moved + send() == 0) break;
  }
  if (state_ == State::kBusy && sent_ == transfer_.sent && received_ == transfer_.received) {
    state_ = State::kIdle;
  }
  return state_;
}

std::array<pollfd, 2> Wire::awaited() const {
  const bool sends = state_ == State::kBusy && may_send() > 0;
  const bool receives = state_ == State::kBusy && received_ < transfer_.received;
  return {pollfd{.fd = sends ? next_.get() : -1, .events = POLLOUT, .revents = 0},
          pollfd{.fd = receives ? previous_.get() : -1, .events = POLLIN, .revents = 0}};
}

}  // namespace gpemu::ranks
