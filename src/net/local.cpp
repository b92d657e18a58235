// SPDX-License-Identifier: Apache-2.0
#include "gpemu/net/local.hpp"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

namespace gpemu::net {
namespace {

/// How many may connect before they are accepted: more processes than use a GPU at once.
constexpr int kBacklog = 128;

/// For how long a process tries to connect.
constexpr int kConnectSeconds = 20;

/// Source: unix(7): messages stay whole, and a reader notices the end of the other side.
FileDescriptor make_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

Result<sockaddr_un> local_address(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::kInvalidArgument, "the path {} is too long for a socket", name);
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

std::unexpected<Error> gone() {
  return fail(ErrorCode::kUnavailable, "the other end of the connection has gone");
}

/// Returns the last descriptor that came with a message, if any, and closes the others.
FileDescriptor descriptor_in(const msghdr& header) {
  const cmsghdr* const control = CMSG_FIRSTHDR(&header);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
    return {};
  }
  FileDescriptor last;
  for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= control->cmsg_len; at += sizeof(int)) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(control) + at, sizeof descriptor);
    last = FileDescriptor(descriptor);
  }
  return last;
}

}  // namespace

Result<void> send_packet(const FileDescriptor& socket, std::string_view bytes, int descriptor) {
  // sendmsg() does not write there.
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = space;
    header.msg_controllen = sizeof space;
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno != EAGAIN) return gone();
  return fail(ErrorCode::kNotReady, "the other end of the connection takes no messages");
}

Result<Packet> receive_packet(const FileDescriptor& socket, Bytes most,
                              std::optional<std::chrono::milliseconds> time) {
  pollfd waits{.fd = socket.get(), .events = POLLIN, .revents = 0};
  int ready = -1;
  do {
    ready = ::poll(&waits, 1, time ? static_cast<int>(time->count()) : -1);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return fail(ErrorCode::kNotReady, "the other end of the connection is silent");
  Packet packet;
  packet.bytes.resize(most);
  iovec part{.iov_base = packet.bytes.data(), .iov_len = packet.bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space;
  header.msg_controllen = sizeof space;
  const ssize_t received = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  if (received <= 0) return gone();
  packet.bytes.resize(static_cast<std::size_t>(received));
  packet.descriptor = descriptor_in(header);
  return packet;
}

std::pair<pid_t, uid_t> peer_process(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {0, -1};
  return {credentials.pid, credentials.uid};
}

Result<FileDescriptor> connect_to(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const sockaddr_un address, local_address(path));
  FileDescriptor socket = make_socket();
  // A stopped process accepts nothing, and then a full queue makes callers wait.
  const timeval most{.tv_sec = kConnectSeconds, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  if (::connect(socket.get(), generic(address), sizeof address) == 0) {
    return socket;
  }
  // Another kind of socket belongs to another program, such as a real daemon.
  const bool is_none =
      errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR || errno == EPROTOTYPE;
  return fail(is_none ? ErrorCode::kNotFound : ErrorCode::kUnavailable, "cannot connect to {}: {}",
              path.string(), errno_message(errno));
}

Result<FileDescriptor> listen_on(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const sockaddr_un address, local_address(path));
  if (const auto other = connect_to(path); other || other.error().code != ErrorCode::kNotFound) {
    return fail(ErrorCode::kUnavailable, "somebody listens on {} already", path.string());
  }
  struct stat status{};
  if (::lstat(address.sun_path, &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return fail(ErrorCode::kIo, "{} exists and is no socket: remove it", path.string());
    }
    ::unlink(address.sun_path);
  }
  FileDescriptor socket = make_socket();
  if (::bind(socket.get(), generic(address), sizeof address) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return fail(ErrorCode::kIo, "cannot listen on {}: {}", path.string(), errno_message(errno));
  }
  return socket;
}

Result<FileDescriptor> accept_on(const FileDescriptor& listener) {
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    return fail(ErrorCode::kUnavailable, "cannot accept a connection: {}", errno_message(errno));
  }
  return socket;
}

Result<std::pair<FileDescriptor, FileDescriptor>> make_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(ErrorCode::kIo, "cannot make a connection: {}", errno_message(errno));
  }
  return std::pair(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

}  // namespace gpemu::net
