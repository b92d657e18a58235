// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/sim/patience.hpp"

namespace gpemu::service {

using Message = std::vector<std::byte>;

/// Answers a call. Any thread calls it, several at the same time.
using RpcHandler =
    std::function<Result<Message>(std::string_view method, std::span<const std::byte> request)>;

/// Answers calls until it is destroyed.
class RpcServer {
 public:
  RpcServer() = default;
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;
  virtual ~RpcServer() = default;

  /// Returns the port at which it listens.
  [[nodiscard]] virtual int port() const = 0;
};

/// Calls another process. Thread safety: any thread.
class RpcChannel {
 public:
  RpcChannel() = default;
  RpcChannel(const RpcChannel&) = delete;
  RpcChannel& operator=(const RpcChannel&) = delete;
  virtual ~RpcChannel() = default;

  /// Errors: kUnavailable if the process does not answer before the wait is over, or answers with
  /// more bytes than the channel takes; kInterrupted; those of its handler.
  [[nodiscard]] virtual Result<Message> call(std::string_view method,
                                             std::span<const std::byte> request,
                                             const sim::Wait& wait) = 0;
};

/// Calls between processes, over gRPC.
class Rpc {
 public:
  Rpc() = default;
  Rpc(const Rpc&) = delete;
  Rpc& operator=(const Rpc&) = delete;
  virtual ~Rpc() = default;

  struct Serving {
    std::string address;     ///< HOST:PORT; with the port 0, any that is free.
    int threads = 1;         ///< calls that are answered at the same time.
    Bytes most_request = 0;  ///< larger ones are refused.
  };
  /// Errors: kUnavailable naming the address.
  [[nodiscard]] virtual Result<std::unique_ptr<RpcServer>> serve(const Serving& serving,
                                                                 RpcHandler handler) = 0;
  /// Returns a channel to HOST:PORT, where nobody needs to listen yet. It takes no answer of more
  /// than `most_reply` bytes.
  [[nodiscard]] virtual std::unique_ptr<RpcChannel> connect(const std::string& address,
                                                            Bytes most_reply) = 0;
};

/// Loads gRPC, which is a library of its own: to load it takes a command longer than most take to
/// run. It stays for as long as the process lives.
///
/// Errors: kUnsupported if it is missing, saying what to install.
[[nodiscard]] Result<Rpc*> load_rpc(const std::filesystem::path& library);

}  // namespace gpemu::service
