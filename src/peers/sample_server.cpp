// SPDX-License-Identifier: Apache-2.0
#include "sample_server.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>

#include "gpemu/base/packing.hpp"
#include "gpemu/base/thread.hpp"

#include "connection.hpp"

namespace gpemu::peers {
namespace {

using namespace std::chrono_literals;

/// Tells this protocol, and this version of it, from others.
constexpr std::uint64_t kMagic = 0x31'72'65'65'70'75'70'67;  // "gpupeer1"
constexpr Bytes kMostHello = 64 * kKiB;
/// Connections that are served at the same time: as many as the workers of 64 nodes of 64 cores.
constexpr std::size_t kMostServed = 4096;
/// In place of a size: the node does not hold the sample.
constexpr std::uint64_t kNotHeld = ~std::uint64_t{0};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<std::byte> room_in(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

bool send_hello(const FileDescriptor& socket, const Hello& hello) {
  Packer packer;
  packer.add(kMagic).add(hello.purpose).add(hello.group).add(hello.rank).add(hello.nodes);
  packer.add(hello.port).add_text(hello.settings);
  return send_message(socket, packer.bytes());
}

bool receive_hello(const FileDescriptor& socket, Hello& hello) {
  std::vector<std::byte> bytes;
  if (!receive_message(socket, bytes, kMostHello)) return false;
  Unpacker unpacker(bytes);
  std::uint64_t magic = 0;
  std::uint8_t purpose = 0;
  unpacker.take(magic);
  unpacker.take(purpose);
  unpacker.take(hello.group);
  unpacker.take(hello.rank);
  unpacker.take(hello.nodes);
  unpacker.take(hello.port);
  unpacker.take_text(hello.settings);
  hello.purpose = static_cast<Purpose>(purpose);
  return unpacker.done() && magic == kMagic;
}

Result<data::SampleBytes> request_sample(const FileDescriptor& socket, pipeline::FileId sample,
                                         Bytes most) {
  std::uint64_t size = 0;
  data::SampleBytes bytes;
  if (send_all(socket, bytes_of(sample)) && receive_all(socket, room_in(size))) {
    if (size == kNotHeld) return bytes;
    if (size <= most) {
      auto memory = std::make_unique_for_overwrite<std::byte[]>(size);
      if (receive_all(socket, {memory.get(), size})) {
        bytes.memory = std::move(memory);
        bytes.size = size;
        return bytes;
      }
    }
  }
  return fail(ErrorCode::kIo, "the connection to another node's cache has ended");
}

SampleServer::SampleServer(FileDescriptor listener, std::uint64_t group, Find find,
                           sim::Clock& clock)
    : listener_(std::move(listener)), group_(group), find_(std::move(find)), clock_(clock) {}

SampleServer::~SampleServer() {
  stop_ = true;
  if (acceptor_.joinable()) acceptor_.join();
  std::list<Served> served;
  {
    const Lock lock(mutex_);
    served.swap(served_);
  }
  for (Served& connection : served) ::shutdown(connection.socket.get(), SHUT_RDWR);
  for (Served& connection : served) connection.thread.join();
}

Result<void> SampleServer::start() {
  acceptor_ = start_thread("gpemu-peers", [this] { accept(); });
  if (acceptor_.joinable()) return {};
  return fail(ErrorCode::kResourceLimit, "cannot start a thread that serves samples");
}

void SampleServer::serve(FileDescriptor socket) {
  admit(std::move(socket), true);
}

void SampleServer::accept() {
  while (!stop_) {
    const Wait wait{.clock = clock_, .until = clock_.now() + 1h, .stop = stop_};
    Result<FileDescriptor> socket = accept_at(listener_, wait);
    if (!socket) {
      // Out of descriptors: some connection may end.
      clock_.wait_until(clock_.now() + 100ms);
    } else if (socket->valid()) {
      admit(*std::move(socket), false);
    }
  }
}

void SampleServer::admit(FileDescriptor socket, bool welcome) {
  const Lock lock(mutex_);
  for (auto entry = served_.begin(); entry != served_.end();) {
    if (!entry->ended) {
      ++entry;
      continue;
    }
    entry->thread.join();
    entry = served_.erase(entry);
  }
  if (served_.size() >= kMostServed) return;
  Served& served = served_.emplace_back();
  served.socket = std::move(socket);
  served.thread = start_thread("gpemu-samples", [this, &served, welcome] {
    Hello hello;
    if (welcome || (receive_hello(served.socket, hello) && hello.group == group_ &&
                    hello.purpose == Purpose::kSamples)) {
      answer(served.socket);
    }
    ::shutdown(served.socket.get(), SHUT_RDWR);
    served.ended = true;
  });
  if (!served.thread.joinable()) served_.pop_back();
}

void SampleServer::answer(const FileDescriptor& socket) {
  // A worker may ask for nothing for any time; a connection that is cut ends by itself.
  const timeval forever{};
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever));
  pipeline::FileId sample = 0;
  while (!stop_) {
    if (!receive_all(socket, room_in(sample))) return;
    const data::SampleBytes bytes = find_(sample);
    const std::uint64_t size = bytes.memory ? bytes.size : kNotHeld;
    if (!send_all(socket, bytes_of(size))) return;
    if (bytes.memory && !send_all(socket, bytes.bytes())) return;
  }
}

}  // namespace gpemu::peers
