// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/channel.hpp"

#include <string>
#include <utility>

#include "gpemu/net/local.hpp"

namespace gpemu::mps {
namespace {

/// Names what the user can change about a path that is too long for a socket.
std::unexpected<Error> error_of_path(Error error) {
  if (error.code == ErrorCode::kInvalidArgument) {
    error.message += ": set CUDA_MPS_PIPE_DIRECTORY to a shorter one";
  }
  return std::unexpected(std::move(error));
}

}  // namespace

Result<void> Channel::send(const Message& message, int descriptor) const {
  return net::send_packet(socket_, encode(message), descriptor);
}

Result<Channel::Received> Channel::receive(std::optional<std::chrono::milliseconds> time) const {
  GPEMU_ASSIGN(net::Packet packet, net::receive_packet(socket_, kMostMessageBytes, time));
  GPEMU_ASSIGN(Message message, decode(packet.bytes));
  return Received{.message = std::move(message), .descriptor = std::move(packet.descriptor)};
}

std::pair<pid_t, uid_t> Channel::peer() const {
  return net::peer_process(socket_);
}

Result<Channel> connect_to(const std::filesystem::path& path) {
  auto socket = net::connect_to(path);
  if (!socket) return error_of_path(std::move(socket).error());
  return Channel(*std::move(socket));
}

Result<FileDescriptor> listen_on(const std::filesystem::path& path) {
  auto listener = net::listen_on(path);
  if (!listener) return error_of_path(std::move(listener).error());
  return listener;
}

Result<Channel> accept_on(const FileDescriptor& listener) {
  GPEMU_ASSIGN(FileDescriptor socket, net::accept_on(listener));
  return Channel(std::move(socket));
}

Result<std::pair<Channel, Channel>> make_pair() {
  GPEMU_ASSIGN(auto ends, net::make_pair());
  return std::pair(Channel(std::move(ends.first)), Channel(std::move(ends.second)));
}

}  // namespace gpemu::mps
