// SPDX-License-Identifier: Apache-2.0
//
// nvidia-cuda-mps-server: an MPS server. The control daemon starts it and hands over its clients.
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <poll.h>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "gpemu/base/text.hpp"
#include "gpemu/mps/channel.hpp"
#include "gpemu/mps/pipe.hpp"
#include "gpemu/mps/server.hpp"

#include "mps/log_file.hpp"

namespace gpemu::mps {
namespace {

/// The connections of an MPS server: to the control daemon and to its clients.
class ServerProcess {
 public:
  ServerProcess(Channel control, Limits limits)
      : control_(std::move(control)),
        log_(log_directory(::getenv), "server.log", "Server", false),
        server_(::getpid(), std::move(limits)) {
    log_.write("Active Threads Percentage set to {}",
               percentage_text(server_.limits().active_thread_percentage));
    for (const auto& [device, bytes] : server_.limits().device_memory) {
      log_.write("Device pinned memory limit for device {} set to {:#x} bytes", device, bytes);
    }
    log_.write("Server has started");
  }

  /// Serves until it is told to finish, or the daemon has gone, and there are no clients.
  int run() {
    while (!is_finishing_ || server_.has_clients()) {
      std::vector<pollfd> waits = {{.fd = control_.descriptor(), .events = POLLIN, .revents = 0}};
      std::vector<int> numbers = {0};
      for (const auto& [number, channel] : clients_) {
        waits.push_back({.fd = channel.descriptor(), .events = POLLIN, .revents = 0});
        numbers.push_back(number);
      }
      if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return 1;
      if (waits[0].revents != 0) receive_from_control();
      for (std::size_t i = 1; i < waits.size(); ++i) {
        if (waits[i].revents != 0) receive_from_client(numbers[i]);
      }
    }
    log_.write("Exit with status 0");
    return 0;
  }

 private:
  void receive_from_control() {
    auto received = control_.receive();
    if (!received) {
      log_.write("The control daemon has gone; the server ends with its last client");
      control_.close();
      is_finishing_ = true;
      return;
    }
    const Message& message = received->message;
    if (message.kind == "finish") is_finishing_ = true;
    if (message.kind == "client") add_client(message, std::move(received->descriptor));
    if (message.kind == "command") execute(message.text);
  }

  void add_client(const Message& hello, FileDescriptor socket) {
    if (!socket.valid()) return;
    const int number = ++last_number_;
    const Channel& channel = clients_[number] = Channel(std::move(socket));
    Server::Answer answer = server_.connect(number, hello);
    if (const char* const devices = std::getenv("CUDA_VISIBLE_DEVICES"); devices != nullptr) {
      answer.message.values["devices"] = devices;
    }
    log_.write("New client {}: {}", hello.value("pid"), answer.message.kind);
    if (!channel.send(answer.message) || answer.message.kind != "welcome") remove(number);
  }

  void execute(const std::string& line) {
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    const Server::Reply reply = server_.execute(words);
    send_all(reply.answers);
    static_cast<void>(control_.send(
        {.kind = "reply", .values = {{"good", reply.good ? "1" : "0"}}, .text = reply.text}));
  }

  void receive_from_client(int number) {
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;
    const auto received = found->second.receive();
    if (!received) return remove(number);
    const std::string before = server_.status();
    send_all(server_.receive(number, received->message));
    log_change(before);
  }

  void send_all(const std::vector<Server::Answer>& answers) {
    for (const auto& [number, message] : answers) {
      log_.write("To client {}: {} {}", number, message.kind, message.value("status"));
      const auto found = clients_.find(number);
      if (found != clients_.end()) static_cast<void>(found->second.send(message));
    }
  }

  void remove(int number) {
    const std::string before = server_.status();
    server_.disconnect(number);
    clients_.erase(number);
    log_.write("Client {} has disconnected", number);
    log_change(before);
  }

  void log_change(const std::string& before) const {
    if (server_.status() != before) log_.write("Server is now {}", server_.status());
  }

  Channel control_;
  LogFile log_;
  Server server_;
  std::map<int, Channel> clients_;
  int last_number_ = 0;
  bool is_finishing_ = false;
};

int serve() {
  // The control daemon says which descriptor its connection is.
  const char* const text = std::getenv("GPEMU_MPS_CHANNEL");
  int descriptor = -1;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), descriptor);
  if (descriptor < 0) {
    fmt::print(stderr,
               "nvidia-cuda-mps-server: the control daemon starts servers: run "
               "`nvidia-cuda-mps-control -d`, then start CUDA programs or use its command "
               "start_server\n");
    return 1;
  }
  Channel control{FileDescriptor(descriptor)};
  const auto setup = control.receive(std::chrono::seconds(10));
  if (!setup) return 1;
  Limits limits;
  limits.active_thread_percentage =
      parse_percentage(setup->message.value("percentage")).value_or(100);
  limits.device_memory =
      parse_device_memory(setup->message.value("memory")).value_or(std::map<std::string, Bytes>());
  return ServerProcess(std::move(control), std::move(limits)).run();
}

}  // namespace
}  // namespace gpemu::mps

int main() {
  return gpemu::mps::serve();
}
