// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/net/address.hpp"

namespace gpemu::ranks {

/// Processes that exchange records: each brings one and gets those of all. The processes of a
/// meeting call the one that has opened it. All numbers in what comes over the socket are checked.
///
/// Thread safety: any thread.
class Meeting {
  class Server;

 public:
  static constexpr Bytes kRecordBytes = 256;
  using Record = std::array<std::byte, kRecordBytes>;

  /// Where processes meet. Whoever knows it may come.
  struct Id {
    std::uint64_t magic = 0;
    net::SocketAddress address;
    std::array<std::uint8_t, 16> key{};
  };

  /// Serves the meetings at an address that the user has named, until its end. Those who have come
  /// to a complete meeting get their records before.
  class Host {
   public:
    Host(Host&&) noexcept;
    Host& operator=(Host&&) = delete;
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    ~Host();

   private:
    friend class Meeting;
    explicit Host(std::unique_ptr<Server> server);
    std::unique_ptr<Server> server_;
  };

  /// A rank's part in one of the meetings with an id, which have different topics.
  struct Part {
    Id id;
    std::array<std::uint64_t, 3> topic{};
    std::int32_t rank = 0;
    std::int32_t ranks = 1;
  };

  /// A rank that has brought its record, and waits for the others.
  class Visit {
   public:
    Visit(Visit&& other) noexcept;
    Visit& operator=(Visit&&) = delete;
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();

    /// Blocks until all ranks have come, and returns their records. Asks `is_cancelled`, if it is
    /// not null, ten times a second whether to go on. Errors: kInvalidArgument if two came as the
    /// same rank or with different numbers of ranks; kUnavailable if a rank has gone before the
    /// last one came, kNotFound if the process that serves the meeting has; kInterrupted if it was
    /// cancelled.
    [[nodiscard]] Result<std::vector<Record>> records(
        const std::function<bool()>& is_cancelled = nullptr);

   private:
    friend class Meeting;
    Visit(int socket, int ranks) : socket_(socket), ranks_(ranks) {}
    int socket_;
    int ranks_;
  };

  /// Opens a meeting in this process, which serves it as long as the process lives. The first one
  /// starts a thread. Errors: kUnavailable, kNotFound without a network interface.
  [[nodiscard]] static Result<Id> open();

  /// Returns the id of the meetings at an address, which is the same in all processes.
  [[nodiscard]] static Id at(const net::SocketAddress& address);
  [[nodiscard]] static bool has_named_address(const Id& id);

  /// Serves the meetings of an id whose address was named. Errors: kUnavailable.
  [[nodiscard]] static Result<Host> host(const Id& id);

  /// Comes to a meeting and brings a record. Errors: kInvalidArgument for an id that is none,
  /// kNotFound if the process that serves the meeting does not answer.
  [[nodiscard]] static Result<Visit> visit(const Part& part, const Record& record);
};

}  // namespace gpemu::ranks
