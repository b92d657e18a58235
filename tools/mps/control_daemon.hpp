// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "gpemu/mps/channel.hpp"
#include "gpemu/mps/limits.hpp"

#include "mps/log_file.hpp"

namespace gpemu::mps {

/// The control daemon: starts MPS servers, hands clients over to them, and executes commands.
///
/// One user's server is active at a time. Clients of other users wait until it has none left.
class ControlDaemon {
 public:
  /// `machine`: the key of the emulated machine whose processes it serves. `server`: the program.
  ControlDaemon(FileDescriptor listener, std::string machine, std::filesystem::path server,
                LogFile log)
      : listener_(std::move(listener)),
        machine_(std::move(machine)),
        program_(std::move(server)),
        log_(std::move(log)) {}

  /// Serves until `quit`, or until `stops` is true after a signal.
  void run(const volatile bool& stops);
  /// Tells whoever asked for the end that it has come. Another daemon may start then.
  void answer_quit() const;

 private:
  using Words = std::vector<std::string>;
  struct ServerState {
    pid_t pid = 0;
    uid_t user = 0;
    Channel channel;
    bool is_finishing = false;
    bool is_told = false;  ///< that it is to finish.
  };
  struct Waiting {
    Channel channel;
    Message hello;
  };
  struct Answer {
    bool good = true;
    std::string text;
  };

  void wait_for_something();
  void receive(std::list<Channel>::iterator connection);
  void answer_client(Channel channel, const Message& hello);
  void hand_over(Channel channel, const Message& hello);
  void hand_over_waiting();
  void answer_command(Channel channel, const std::string& line);
  [[nodiscard]] Answer execute(const Words& words);
  [[nodiscard]] Answer execute_default(const Words& words);
  [[nodiscard]] Answer start_for(const Words& words);
  [[nodiscard]] Answer pass_on(const Words& words);
  [[nodiscard]] Answer ask(ServerState& server, const Words& words);
  [[nodiscard]] Answer ask_all(const Words& words, std::string head);
  void quit(Channel channel, const Words& words);
  [[nodiscard]] ServerState* server_of(uid_t user);
  [[nodiscard]] ServerState* find_server(const std::string& pid);
  [[nodiscard]] bool start_server(uid_t user);
  static void tell_to_finish(ServerState& server);
  void end_server(std::list<ServerState>::iterator server);

  FileDescriptor listener_;
  std::string machine_;
  std::filesystem::path program_;
  LogFile log_;
  Limits defaults_;
  std::list<Channel> connections_;  ///< whose first message has not come.
  std::list<Waiting> waiting_;      ///< clients whose user has no server yet.
  std::list<ServerState> servers_;
  std::optional<Channel> quits_;  ///< who asked for the end.
  std::optional<std::chrono::steady_clock::time_point> force_at_;
};

}  // namespace gpemu::mps
