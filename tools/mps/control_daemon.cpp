// SPDX-License-Identifier: Apache-2.0
#include "mps/control_daemon.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sstream>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/text.hpp"
#include "gpemu/mps/server.hpp"

namespace gpemu::mps {
namespace {

/// Source: CUDA Driver API, CUresult.
constexpr int kConnectionFailed = 805;

/// A server answers a command at once, unless it is stopped.
constexpr std::chrono::seconds kServerTime(5);

/// A server that has closed its connection ends at once, unless it is stopped.
constexpr std::chrono::milliseconds kEndTime(500);

/// Connections that have said nothing yet: more than start at once.
constexpr std::size_t kMostConnections = 256;

constexpr std::string_view kCommands =
    "get_server_list\n"
    "get_server_status PID\n"
    "start_server -uid UID\n"
    "get_client_list PID\n"
    "get_device_client_list [PID]\n"
    "ps\n"
    "terminate_client SERVER_PID CLIENT_PID\n"
    "set_default_active_thread_percentage PERCENTAGE\n"
    "get_default_active_thread_percentage\n"
    "set_active_thread_percentage PID PERCENTAGE\n"
    "get_active_thread_percentage PID\n"
    "set_default_device_pinned_mem_limit DEVICE SIZE\n"
    "get_default_device_pinned_mem_limit DEVICE\n"
    "set_device_pinned_mem_limit PID DEVICE SIZE\n"
    "get_device_pinned_mem_limit PID DEVICE\n"
    "quit [-t SECONDS]\n";

Message refusal(int status) {
  return {.kind = "refused", .values = {{"status", std::to_string(status)}}, .text = {}};
}

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

}  // namespace

void ControlDaemon::run(const volatile bool& stops) {
  while (!stops && !(quits_ && servers_.empty())) wait_for_something();
  for (ServerState& server : servers_) ::kill(server.pid, SIGKILL);
  while (!servers_.empty()) end_server(servers_.begin());
  log_.write("Exit");
}

void ControlDaemon::answer_quit() const {
  if (quits_) static_cast<void>(quits_->send({.kind = "reply", .values = {}, .text = {}}));
}

void ControlDaemon::wait_for_something() {
  std::vector<pollfd> waits = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
  const auto watch = [&waits](const Channel& channel) {
    waits.push_back({.fd = channel.descriptor(), .events = POLLIN, .revents = 0});
  };
  for (const Channel& connection : connections_) watch(connection);
  for (const Waiting& client : waiting_) watch(client.channel);
  for (const ServerState& server : servers_) {
    watch(server.channel);
    if (server.is_finishing && !server.is_told) waits.back().events |= POLLOUT;
  }
  int milliseconds = -1;
  if (force_at_) {
    const auto left = *force_at_ - std::chrono::steady_clock::now();
    milliseconds =
        std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
  if (::poll(waits.data(), waits.size(), milliseconds) < 0) return;
  if (force_at_ && std::chrono::steady_clock::now() >= *force_at_) {
    for (ServerState& server : servers_) ::kill(server.pid, SIGKILL);
  }
  // Lists: what is removed or added meanwhile leaves the others where they are.
  std::size_t next = 1;
  const auto has_come = [&] { return waits[next++].revents != 0; };
  std::vector<std::list<Channel>::iterator> connections;
  for (auto one = connections_.begin(); one != connections_.end(); ++one) {
    if (has_come()) connections.push_back(one);
  }
  // All that a waiting client can do is to end.
  std::erase_if(waiting_, [&](const Waiting&) { return has_come(); });
  for (auto one = servers_.begin(); one != servers_.end();) {
    const auto server = one++;
    const short events = waits[next].revents;
    if (!has_come()) continue;
    if ((events & POLLOUT) != 0) tell_to_finish(*server);
    if ((events & ~POLLOUT) != 0 && !server->channel.receive()) end_server(server);
  }
  for (const auto connection : connections) receive(connection);
  if (waits[0].revents != 0) {
    if (auto accepted = accept_on(listener_)) connections_.push_back(*std::move(accepted));
    // A process that connects has something to say at once.
    if (connections_.size() > kMostConnections) connections_.pop_front();
  }
  hand_over_waiting();
}

void ControlDaemon::receive(std::list<Channel>::iterator connection) {
  Channel channel = std::move(*connection);
  connections_.erase(connection);
  auto received = channel.receive();
  if (!received) return;
  if (received->message.kind == "hello") {
    answer_client(std::move(channel), received->message);
  } else if (received->message.kind == "command") {
    answer_command(std::move(channel), received->message.text);
  }
}

// ---- clients

void ControlDaemon::answer_client(Channel channel, const Message& hello) {
  const auto [pid, user] = channel.peer();
  Message client = hello;
  client.kind = "client";
  if (pid != 0) client.values["pid"] = std::to_string(pid);
  client.values["user"] = std::to_string(user);
  log_.write("NEW CLIENT {} from user {}", client.value("pid"), user);
  if (hello.value("machine") != machine_) {
    log_.write("The client belongs to another node");
    static_cast<void>(channel.send({.kind = "elsewhere", .values = {}, .text = {}}));
  } else if (quits_ || (::geteuid() != 0 && user != ::geteuid())) {
    static_cast<void>(channel.send(refusal(quits_ ? kServerNotReady : kConnectionFailed)));
  } else {
    hand_over(std::move(channel), client);
  }
}

/// Hands a client over to its user's server. If another user has one, the client waits.
void ControlDaemon::hand_over(Channel channel, const Message& hello) {
  const auto user = static_cast<uid_t>(hello.number("user").value_or(0));
  for (int attempt = 0; attempt < 2; ++attempt) {
    ServerState* server = server_of(user);
    if (server == nullptr && !servers_.empty()) {
      log_.write("The server of another user is active, push client to pending list");
      for (ServerState& other : servers_) tell_to_finish(other);
      if (!channel.send({.kind = "wait", .values = {}, .text = {}})) return;
      waiting_.push_back({.channel = std::move(channel), .hello = hello});
      return;
    }
    if (server == nullptr) {
      if (!start_server(user)) break;
      server = &servers_.back();
    }
    const auto sent = server->channel.send(hello, channel.descriptor());
    if (sent) return;
    if (sent.error().code == ErrorCode::kNotReady) {
      log_.write("Server {} takes no client: is it stopped?", server->pid);
      static_cast<void>(channel.send(refusal(kServerNotReady)));
      return;
    }
    // It has just ended.
    const auto ended = std::ranges::find(servers_, server->pid, &ServerState::pid);
    end_server(ended);
  }
  static_cast<void>(channel.send(refusal(kConnectionFailed)));
}

void ControlDaemon::hand_over_waiting() {
  while (!waiting_.empty() && servers_.empty() && !quits_) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    hand_over(std::move(next.channel), next.hello);
  }
}

// ---- servers

ControlDaemon::ServerState* ControlDaemon::server_of(uid_t user) {
  const auto found = std::ranges::find_if(servers_, [user](const ServerState& server) {
    return server.user == user && !server.is_finishing;
  });
  return found == servers_.end() ? nullptr : &*found;
}

ControlDaemon::ServerState* ControlDaemon::find_server(const std::string& pid) {
  const auto found = std::ranges::find_if(
      servers_, [&pid](const ServerState& server) { return std::to_string(server.pid) == pid; });
  return found == servers_.end() ? nullptr : &*found;
}

bool ControlDaemon::start_server(uid_t user) {
  auto ends = make_pair();
  if (!ends) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    const int descriptor = ends->second.descriptor();
    ::fcntl(descriptor, F_SETFD, 0);
    ::setenv("GPEMU_MPS_CHANNEL", std::to_string(descriptor).c_str(), 1);
    const bool is_other = user != ::geteuid();
    if (is_other && (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0)) {
      ::_exit(1);
    }
    ::execl(program_.c_str(), program_.c_str(), static_cast<char*>(nullptr));
    ::_exit(1);
  }
  if (child < 0) return false;
  log_.write("Starting new server {} for user {}", child, user);
  servers_.push_back({.pid = child, .user = user, .channel = std::move(ends->first)});
  return servers_.back()
      .channel
      .send({.kind = "setup",
             .values = {{"percentage", fmt::format("{}", defaults_.active_thread_percentage)},
                        {"memory", device_memory_text(defaults_.device_memory)}},
             .text = {}})
      .has_value();
}

/// One that does not read now is told later.
void ControlDaemon::tell_to_finish(ServerState& server) {
  server.is_finishing = true;
  const auto told = server.channel.send({.kind = "finish", .values = {}, .text = {}});
  server.is_told = told || told.error().code != ErrorCode::kNotReady;
}

void ControlDaemon::end_server(std::list<ServerState>::iterator server) {
  server->channel.close();
  int status = 0;
  const auto until = std::chrono::steady_clock::now() + kEndTime;
  while (::waitpid(server->pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= until) ::kill(server->pid, SIGKILL);
    ::poll(nullptr, 0, 1);
  }
  log_.write("Server {} exited with status {}", server->pid,
             WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  servers_.erase(server);
}

// ---- commands

void ControlDaemon::answer_command(Channel channel, const std::string& line) {
  const Words words = words_of(line);
  if (words.empty()) return;
  const uid_t user = channel.peer().second;
  Answer answer;
  if (user != 0 && user != ::geteuid()) {
    answer = {.good = false, .text = "only the daemon's user and root may command it\n"};
  } else if (words[0] == "quit") {
    return quit(std::move(channel), words);
  } else {
    answer = execute(words);
  }
  static_cast<void>(channel.send(
      {.kind = "reply", .values = {{"good", answer.good ? "1" : "0"}}, .text = answer.text}));
}

ControlDaemon::Answer ControlDaemon::execute(const Words& words) {
  const std::string& name = words[0];
  if (name == "help") return {.good = true, .text = std::string(kCommands)};
  if (name == "sm_partition" || name == "lspart") {
    return {.good = false, .text = "static partitioning is not supported\n"};
  }
  if (name == "get_server_list") {
    Answer answer;
    for (const ServerState& server : servers_) answer.text += fmt::format("{}\n", server.pid);
    return answer;
  }
  if (name == "start_server") return start_for(words);
  if (name == "ps") {
    return ask_all(words, fmt::format("{:<10}{:<10}{:<15}{:<26}{:<15}{:<15}\n", "PID", "ID",
                                      "SERVER", "DEVICE", "NAMESPACE", "COMMAND"));
  }
  if (name == "get_device_client_list" && words.size() == 1) return ask_all(words, "");
  if (name.find("_default_") != std::string::npos) return execute_default(words);
  return pass_on(words);
}

ControlDaemon::Answer ControlDaemon::execute_default(const Words& words) {
  const std::string& name = words[0];
  const auto wrong = [](const std::string& text) {
    return Answer{.good = false, .text = text + "\n"};
  };
  if (name == "get_default_active_thread_percentage" && words.size() == 1) {
    return {.good = true, .text = percentage_text(defaults_.active_thread_percentage) + "\n"};
  }
  if (name == "set_default_active_thread_percentage" && words.size() == 2) {
    const auto percentage = parse_percentage(words[1]);
    if (!percentage) return wrong(percentage.error().message);
    defaults_.active_thread_percentage = *percentage;
    return {.good = true, .text = percentage_text(*percentage) + "\n"};
  }
  if (name == "get_default_device_pinned_mem_limit" && words.size() == 2) {
    const auto found = defaults_.device_memory.find(words[1]);
    const bool has_limit = found != defaults_.device_memory.end();
    return {.good = true, .text = has_limit ? fmt::format("{}M\n", found->second / kMiB) : ""};
  }
  if (name == "set_default_device_pinned_mem_limit" && words.size() == 3) {
    const auto size = parse_size(words[2]);
    if (!size) return wrong(size.error().message);
    defaults_.device_memory[words[1]] = *size;
    return {};
  }
  return wrong(fmt::format("'{}' is no command, or its arguments are wrong; `help` lists them",
                           printable(name)));
}

ControlDaemon::Answer ControlDaemon::start_for(const Words& words) {
  const auto user = words.size() == 3 && words[1] == "-uid" ? number_in(words[2]) : std::nullopt;
  if (!user) return {.good = false, .text = "expected: start_server -uid UID\n"};
  if (!servers_.empty()) {
    return {.good = false,
            .text = fmt::format("a server of user {} is active\n", servers_.front().user)};
  }
  const auto wanted = static_cast<uid_t>(*user);
  if (wanted != ::geteuid() && ::geteuid() != 0) {
    return {.good = false, .text = "only root starts servers of other users\n"};
  }
  if (!start_server(wanted)) return {.good = false, .text = "the server does not start\n"};
  return {};
}

/// Executes a command whose first argument is a server's pid.
ControlDaemon::Answer ControlDaemon::pass_on(const Words& words) {
  static constexpr std::array<std::pair<std::string_view, std::size_t>, 8> kOfServers = {
      {{"get_server_status", 2},
       {"get_client_list", 2},
       {"get_device_client_list", 2},
       {"terminate_client", 3},
       {"get_active_thread_percentage", 2},
       {"set_active_thread_percentage", 3},
       {"get_device_pinned_mem_limit", 3},
       {"set_device_pinned_mem_limit", 4}}};
  const auto known = std::ranges::find(kOfServers, std::string_view(words[0]),
                                       &std::pair<std::string_view, std::size_t>::first);
  if (known == kOfServers.end() || known->second != words.size()) {
    return {.good = false,
            .text = fmt::format("'{}' is no command, or its arguments are wrong; `help` lists "
                                "them\n",
                                printable(words[0]))};
  }
  ServerState* const server = find_server(words[1]);
  if (server == nullptr) {
    return {.good = false,
            .text = fmt::format("there is no server {}; `get_server_list` lists "
                                "them\n",
                                printable(words[1]))};
  }
  Words without_pid = words;
  without_pid.erase(without_pid.begin() + 1);
  return ask(*server, without_pid);
}

ControlDaemon::Answer ControlDaemon::ask(ServerState& server, const Words& words) {
  std::string line;
  for (const std::string& word : words) line += word + " ";
  const bool sent =
      server.channel.send({.kind = "command", .values = {}, .text = line}).has_value();
  auto received = sent ? server.channel.receive(kServerTime)
                       : Result<Channel::Received>(fail(ErrorCode::kUnavailable, "it has ended"));
  if (!received) {
    return {.good = false,
            .text = fmt::format("server {} does not answer: {}\n", server.pid,
                                received.error().message)};
  }
  return {.good = received->message.value("good") == "1", .text = received->message.text};
}

ControlDaemon::Answer ControlDaemon::ask_all(const Words& words, std::string head) {
  Answer all{.good = true, .text = std::move(head)};
  for (ServerState& server : servers_) {
    const Answer one = ask(server, words);
    all.good = all.good && one.good;
    all.text += one.text;
  }
  return all;
}

/// Takes no more clients, and ends when the servers have none left; after a time, without waiting.
void ControlDaemon::quit(Channel channel, const Words& words) {
  std::optional<std::int64_t> seconds;
  if (words.size() == 3 && words[1] == "-t") seconds = number_in(words[2]);
  constexpr std::int64_t kMostSeconds = 1'000'000;
  if (words.size() > 1 && (!seconds || *seconds > kMostSeconds)) {
    static_cast<void>(channel.send(
        {.kind = "reply", .values = {{"good", "0"}}, .text = "expected: quit [-t SECONDS]\n"}));
    return;
  }
  log_.write("Quit");
  quits_ = std::move(channel);
  if (seconds) force_at_ = std::chrono::steady_clock::now() + std::chrono::seconds(*seconds);
  for (const Waiting& client : waiting_) {
    static_cast<void>(client.channel.send(refusal(kServerNotReady)));
  }
  waiting_.clear();
  for (ServerState& server : servers_) tell_to_finish(server);
}

}  // namespace gpemu::mps
