// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/server.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "gpemu/base/text.hpp"

namespace gpemu::mps {
namespace {

/// Commands, devices and namespaces that clients name are cut to these lengths.
constexpr std::size_t kMostName = 64;
/// A node has at most so many devices (layout::kMaxDevices).
constexpr std::size_t kMostDevices = 4096;

Message with_status(std::string_view kind, int status) {
  return {.kind = std::string(kind), .values = {{"status", std::to_string(status)}}, .text = {}};
}

std::string short_text(const std::string& text) {
  return printable(text).substr(0, kMostName);
}

/// Returns the limits that a client asks for. A value that is malformed limits nothing, because the
/// client has already checked its own environment.
Limits limits_in(const Message& hello) {
  Limits limits;
  limits.active_thread_percentage = parse_percentage(hello.value("percentage")).value_or(100);
  limits.device_memory =
      parse_device_memory(hello.value("memory")).value_or(std::map<std::string, Bytes>());
  return limits;
}

}  // namespace

Server::Answer Server::connect(int client, const Message& hello) {
  if (!reached_.empty()) return {client, with_status("refused", kServerNotReady)};
  clients_[client] = {.id = next_id_++,
                      .pid = static_cast<pid_t>(hello.number("pid").value_or(0)),
                      .pid_namespace = short_text(hello.value("namespace")),
                      .command = short_text(hello.value("command")),
                      .devices = {}};
  const Limits limits = limits_.tightened(limits_in(hello));
  return {client,
          {.kind = "welcome",
           .values = {{"server", std::to_string(pid_)},
                      {"percentage", fmt::format("{}", limits.active_thread_percentage)},
                      {"memory", device_memory_text(limits.device_memory)}},
           .text = {}}};
}

std::vector<Server::Answer> Server::receive(int client, const Message& message) {
  const auto found = clients_.find(client);
  if (found == clients_.end() || found->second.has_ended) return {};
  if (message.kind == "context") return {grant(client, message)};
  if (message.kind == "fault") return spread_fault(client, message);
  return {};
}

/// Lets a client make a context on a device, unless too many have one.
Server::Answer Server::grant(int client, const Message& message) {
  Client& asking = clients_[client];
  const std::string device = short_text(message.value("uuid"));
  const auto users = std::ranges::count_if(clients_, [&](const auto& other) {
    return other.first != client && other.second.devices.contains(device);
  });
  // The client knows the limit of its GPU. Without one, nobody may.
  const auto most = static_cast<std::ptrdiff_t>(message.number("most_clients").value_or(0));
  if (users >= most || asking.devices.size() >= kMostDevices) {
    return {client, with_status("refused", kMaxClientsReached)};
  }
  asking.devices.insert(device);
  titles_[device] = fmt::format("[{}] 00:00.0, {}", message.number("number").value_or(0),
                                short_text(message.value("name")));
  return {client, {.kind = "granted", .values = {}, .text = {}}};
}

/// Ends the clients that a fault reaches: those with a context on one of the faulty client's GPUs,
/// or on a GPU of another client that shares one with it.
std::vector<Server::Answer> Server::spread_fault(int client, const Message& message) {
  std::set<std::string> devices = clients_[client].devices;
  for (const auto& [number, other] : clients_) {
    const bool shares = std::ranges::any_of(other.devices, [&](const std::string& one) {
      return clients_[client].devices.contains(one);
    });
    if (shares) devices.insert(other.devices.begin(), other.devices.end());
  }
  const auto status = static_cast<int>(message.number("status").value_or(kRpcFailure));
  std::vector<Answer> answers;
  for (auto& [number, other] : clients_) {
    const bool is_reached =
        number == client || std::ranges::any_of(other.devices, [&](const std::string& one) {
          return devices.contains(one);
        });
    if (!is_reached || other.has_ended) continue;
    other.has_ended = true;
    reached_.insert(number);
    answers.push_back({number, with_status("end", status)});
  }
  return answers;
}

void Server::disconnect(int client) {
  clients_.erase(client);
  reached_.erase(client);
}

std::string Server::status() const {
  return reached_.empty() ? "ACTIVE" : "FAULT";
}

Server::Reply Server::execute(std::span<const std::string> words) {
  if (words.empty()) return {.good = false, .text = "no command", .answers = {}};
  const std::string& name = words.front();
  const auto answer = [](std::string text) {
    return Reply{.good = true, .text = std::move(text), .answers = {}};
  };
  if (name == "get_server_status") return answer(status() + "\n");
  if (name == "get_client_list") return answer(client_list());
  if (name == "get_device_client_list") return answer(device_client_list());
  if (name == "ps") return answer(process_table());
  if (name == "get_active_thread_percentage") {
    return answer(percentage_text(limits_.active_thread_percentage) + "\n");
  }
  if (name == "terminate_client" && words.size() == 2) return terminate(words[1]);
  if (name == "get_device_pinned_mem_limit" && words.size() == 2) {
    const auto found = limits_.device_memory.find(words[1]);
    return answer(
        found == limits_.device_memory.end() ? "" : fmt::format("{}M\n", found->second / kMiB));
  }
  return set(words);
}

/// Executes a command that changes what later clients may use.
Server::Reply Server::set(std::span<const std::string> words) {
  const auto wrong = [](std::string text) {
    return Reply{.good = false, .text = text + "\n", .answers = {}};
  };
  if (words[0] == "set_active_thread_percentage" && words.size() == 2) {
    const auto percentage = parse_percentage(words[1]);
    if (!percentage) return wrong(percentage.error().message);
    limits_.active_thread_percentage = *percentage;
    return {.good = true, .text = percentage_text(*percentage) + "\n", .answers = {}};
  }
  if (words[0] == "set_device_pinned_mem_limit" && words.size() == 3) {
    const auto size = parse_size(words[2]);
    if (!size) return wrong(size.error().message);
    limits_.device_memory[words[1]] = *size;
    return {.good = true, .text = {}, .answers = {}};
  }
  return wrong(fmt::format("'{}' is no command, or its arguments are wrong", printable(words[0])));
}

/// Ends a client, whose calls fail from then on.
Server::Reply Server::terminate(std::string_view pid) {
  Reply reply{.good = false,
              .text = fmt::format("server {} has no client {}\n", pid_, printable(pid)),
              .answers = {}};
  for (auto& [number, client] : clients_) {
    if (std::to_string(client.pid) != pid || client.has_ended) continue;
    client.has_ended = true;
    reply.answers.push_back({number, with_status("end", kClientTerminated)});
    reply.good = true;
    reply.text.clear();
  }
  return reply;
}

std::string Server::client_list() const {
  std::string text;
  for (const auto& [number, client] : clients_) text += fmt::format("{}\n", client.pid);
  return text;
}

std::string Server::device_client_list() const {
  std::map<std::string, std::string> pids;
  for (const auto& [number, client] : clients_) {
    for (const std::string& device : client.devices) {
      pids[device] += fmt::format("{}.1\n", client.pid);
    }
  }
  std::string text;
  for (const auto& [device, list] : pids) {
    text += fmt::format("{}\n{}", titles_.at(device), list);
  }
  return text;
}

/// Returns the lines of `ps`, without its head.
std::string Server::process_table() const {
  constexpr std::size_t kUuidShown = 22;  ///< "GPU-" and the first three groups.
  std::string text;
  for (const auto& [number, client] : clients_) {
    for (const std::string& device : client.devices) {
      text += fmt::format("{:<10}{:<10}{:<15}{:<26}{:<15}{}\n", client.pid, client.id, pid_,
                          device.substr(0, kUuidShown), client.pid_namespace, client.command);
    }
  }
  return text;
}

}  // namespace gpemu::mps
