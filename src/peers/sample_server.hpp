// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <thread>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/data/sample_source.hpp"
#include "gpemu/net/connection.hpp"
#include "gpemu/pipeline/cache.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::peers {

/// What a connection of the group is for. It begins with a Hello.
enum class Purpose : std::uint8_t {
  kJoin = 1,     ///< a node asks the first one to let it join.
  kControl = 2,  ///< messages of the agreement.
  kSamples = 3,  ///< requests for samples.
};

struct Hello {
  Purpose purpose = Purpose::kJoin;
  std::uint64_t group = 0;  ///< the group's number; 0 while joining.
  std::uint32_t rank = 0;
  std::uint32_t nodes = 0;
  std::uint16_t port = 0;  ///< of kJoin: at which the node listens.
  std::string settings;    ///< of kJoin: what must be the same on all nodes.
};

/// The most bytes of a hello.
inline constexpr Bytes kMostHello = 64 * kKiB;

[[nodiscard]] Result<void> send_hello(const FileDescriptor& socket, const Hello& hello,
                                      const sim::Wait& wait);
/// Returns false if a message is no hello.
[[nodiscard]] bool read_hello(std::span<const std::byte> message, Hello& hello);

/// Asks the node at the other end of a connection for a sample of at most `most` bytes.
///
/// Errors: kUnavailable if it has not come as a whole when the wait is over, or the connection has
/// ended; kCorruptData if something else comes; kInterrupted.
[[nodiscard]] Result<data::SampleBytes> request_sample(const FileDescriptor& socket,
                                                       pipeline::FileId sample, Bytes most,
                                                       const sim::Wait& wait);

/// Threads that send other nodes the samples that this one holds: one thread for each connection of
/// a member of the group. A member that does not take a sample within the patience is served no
/// more.
class SampleServer {
 public:
  using Find = std::function<data::SampleBytes(pipeline::FileId sample)>;

  /// `clock` must outlive the server.
  SampleServer(FileDescriptor listener, std::uint64_t group, Find find, sim::Clock& clock,
               Duration patience);
  SampleServer(const SampleServer&) = delete;
  SampleServer& operator=(const SampleServer&) = delete;
  /// Ends the threads.
  ~SampleServer();

  /// Errors: kResourceLimit if the system starts no more threads.
  [[nodiscard]] Result<void> start();
  /// Serves a connection whose hello has been received.
  void serve(FileDescriptor socket) GPEMU_EXCLUDES(mutex_);

 private:
  struct Served {
    FileDescriptor socket;
    std::thread thread;
    std::atomic<bool> ended = false;
  };

  void accept();
  void answer(const FileDescriptor& socket);

  const FileDescriptor listener_;
  const std::uint64_t group_;
  const Find find_;
  sim::Clock& clock_;
  const Duration patience_;
  std::atomic<bool> stop_ = false;
  std::thread acceptor_;
  Mutex mutex_;
  std::list<Served> served_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace gpemu::peers
