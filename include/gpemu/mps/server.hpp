// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "gpemu/mps/limits.hpp"
#include "gpemu/mps/message.hpp"

namespace gpemu::mps {

/// CUDA's statuses for clients. Source: CUDA Driver API, CUresult.
inline constexpr int kRpcFailure = 806, kServerNotReady = 807, kMaxClientsReached = 808,
                     kClientTerminated = 810;

/// What an MPS server knows of its clients, and what it tells them. It has no connections: whoever
/// owns them says what happens, and sends the messages that the server returns.
///
/// Messages of a client: "context" (uuid, number, capability) before it makes a context on a
/// device, and "fault" (status) after a fatal one. Messages to it: "welcome" (server, percentage,
/// memory), "refused" (status), "granted", and "end" (status): from then on its calls fail.
class Server {
 public:
  /// A message to a client, which has a number that its connection has given it.
  struct Answer {
    int client = 0;
    Message message;
  };
  /// What a command says, and what clients are told because of it.
  struct Reply {
    bool good = true;
    std::string text;
    std::vector<Answer> answers;
  };

  Server(pid_t pid, Limits limits) : pid_(pid), limits_(std::move(limits)) {}

  /// A process has connected. `hello`: its pid, command, namespace, percentage and memory.
  [[nodiscard]] Answer connect(int client, const Message& hello);
  /// A client has sent a message.
  [[nodiscard]] std::vector<Answer> receive(int client, const Message& message);
  /// A client has gone, however that happened.
  void disconnect(int client);

  /// Executes a command of nvidia-cuda-mps-control, without the server's pid.
  [[nodiscard]] Reply execute(std::span<const std::string> words);

  [[nodiscard]] bool has_clients() const { return !clients_.empty(); }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  /// Returns "ACTIVE", or "FAULT" from a fatal fault until all clients that it reached have gone.
  [[nodiscard]] std::string status() const;

 private:
  struct Client {
    std::uint64_t id = 0;  ///< as `ps` shows it.
    pid_t pid = 0;
    std::string pid_namespace;
    std::string command;
    std::set<std::string> devices;  ///< on which it has a context.
    bool has_ended = false;         ///< a fault has reached it, or it was terminated.
  };

  [[nodiscard]] Answer grant(int client, const Message& message);
  [[nodiscard]] std::vector<Answer> spread_fault(int client, const Message& message);
  [[nodiscard]] Reply terminate(std::string_view pid);
  [[nodiscard]] Reply set(std::span<const std::string> words);
  [[nodiscard]] std::string client_list() const;
  [[nodiscard]] std::string device_client_list() const;
  [[nodiscard]] std::string process_table() const;

  pid_t pid_;
  Limits limits_;
  std::map<int, Client> clients_;
  std::set<int> reached_;  ///< clients that a fault has reached.
  std::uint64_t next_id_ = 1;
  std::map<std::string, std::string> titles_;  ///< of the devices, in lists.
};

}  // namespace gpemu::mps
