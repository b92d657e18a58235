// SPDX-License-Identifier: Apache-2.0
#include "sample_server.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <sys/socket.h>
#include <utility>

#include "gpemu/base/packing.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::peers {
namespace {

using namespace std::chrono_literals;

/// Tells this protocol, and this version of it, from others.
constexpr std::uint64_t kMagic = 0x31'72'65'65'70'75'70'67;  // "gpupeer1"
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

Result<void> send_hello(const FileDescriptor& socket, const Hello& hello, const sim::Wait& wait) {
  Packer packer;
  packer.add(kMagic).add(hello.purpose).add(hello.group).add(hello.rank).add(hello.nodes);
  packer.add(hello.port).add_text(hello.settings);
  return net::send_message(socket, packer.bytes(), wait);
}

bool read_hello(std::span<const std::byte> message, Hello& hello) {
  Unpacker unpacker(message);
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
                                         Bytes most, const sim::Wait& wait) {
  std::uint64_t size = 0;
  data::SampleBytes bytes;
  GPEMU_TRY(net::send_all(socket, bytes_of(sample), wait));
  GPEMU_TRY(net::receive_all(socket, room_in(size), wait));
  if (size == kNotHeld) return bytes;
  if (size > most) {
    return fail(ErrorCode::kCorruptData, "{} sends {} bytes in place of a sample of {}",
                net::peer_of(socket).str(), size, most);
  }
  auto memory = std::make_unique_for_overwrite<std::byte[]>(size);
  GPEMU_TRY(net::receive_all(socket, {memory.get(), size}, wait));
  bytes.memory = std::move(memory);
  bytes.size = size;
  return bytes;
}

SampleServer::SampleServer(FileDescriptor listener, std::uint64_t group, Find find,
                           sim::Clock& clock, Duration patience)
    : listener_(std::move(listener)),
      group_(group),
      find_(std::move(find)),
      clock_(clock),
      patience_(patience) {}

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

void SampleServer::accept() {
  net::Greeter greeter(kMostHello);
  while (!stop_) {
    const sim::Wait wait{.clock = clock_, .until = TimePoint::max(), .stop = stop_};
    Result<net::Greeter::Greeting> greeting = greeter.next(listener_, wait);
    Hello hello;
    if (!greeting) {
      // Out of descriptors: some connection may end.
      clock_.wait_until(clock_.now() + 100ms);
    } else if (greeting->socket.valid() && read_hello(greeting->message, hello) &&
               hello.group == group_ && hello.purpose == Purpose::kSamples) {
      serve(std::move(greeting->socket));
    }
  }
}

void SampleServer::serve(FileDescriptor socket) {
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
  served.thread = start_thread("gpemu-samples", [this, &served] {
    answer(served.socket);
    ::shutdown(served.socket.get(), SHUT_RDWR);
    served.ended = true;
  });
  if (!served.thread.joinable()) served_.pop_back();
}

void SampleServer::answer(const FileDescriptor& socket) {
  pipeline::FileId sample = 0;
  while (!stop_) {
    // A worker may ask for nothing for any time; a connection that is cut ends by itself.
    const sim::Wait idle{.clock = clock_, .until = TimePoint::max(), .stop = stop_};
    if (!net::receive_all(socket, room_in(sample), idle)) return;
    const data::SampleBytes bytes = find_(sample);
    const std::uint64_t size = bytes.memory ? bytes.size : kNotHeld;
    const sim::Wait wait{.clock = clock_, .until = clock_.now() + patience_, .stop = stop_};
    if (!net::send_all(socket, bytes_of(size), wait)) return;
    if (bytes.memory && !net::send_all(socket, bytes.bytes(), wait)) return;
  }
}

}  // namespace gpemu::peers
