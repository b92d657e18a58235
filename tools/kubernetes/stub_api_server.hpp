// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpemu {

/// An API server for tests, over HTTP: it keeps objects, refuses one that has changed, and knows
/// nothing of what they mean.
class StubApiServer {
 public:
  StubApiServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(socket_, 16);
    socklen_t size = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~StubApiServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int peer : peers_) ::shutdown(peer, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    ::close(socket_);
  }
  StubApiServer(const StubApiServer&) = delete;
  StubApiServer& operator=(const StubApiServer&) = delete;

  /// Returns a kubeconfig for it.
  [[nodiscard]] std::string kubeconfig() const {
    const nlohmann::json cluster = {{"server", fmt::format("http://127.0.0.1:{}", port_)}};
    return nlohmann::json(
               {{"current-context", "c"},
                {"clusters", {{{"name", "c"}, {"cluster", cluster}}}},
                {"users", {{{"name", "u"}, {"user", {{"token", "t"}}}}}},
                {"contexts", {{{"name", "c"}, {"context", {{"cluster", "c"}, {"user", "u"}}}}}}})
        .dump();
  }

  void set(const std::string& path, nlohmann::json object) {
    const std::lock_guard lock(mutex_);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects_[path] = std::move(object);
  }
  [[nodiscard]] std::optional<nlohmann::json> get(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(path);
    if (found == objects_.end()) return std::nullopt;
    return found->second;
  }
  void remove(const std::string& path) {
    const std::lock_guard lock(mutex_);
    objects_.erase(path);
  }
  /// Returns how often requests have made or changed an object.
  [[nodiscard]] int made() const { return made_; }
  /// As a server whose feature gate DRADeviceTaints is off.
  void drop_taints() { drops_taints_ = true; }
  /// As a server whose feature gate DRAPartitionableDevices is off.
  void drop_counters() { drops_counters_ = true; }

 private:
  struct Request {
    std::string method, path;
    nlohmann::json body;
  };

  void accept_all() {
    for (int peer = 0; (peer = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      const std::lock_guard lock(mutex_);
      peers_.push_back(peer);
      threads_.emplace_back([this, peer] { serve(peer); });
    }
  }

  void serve(int peer) {
    std::string unread;
    while (const auto request = read_request(peer, unread)) {
      const auto [status, body] = answer(*request);
      const std::string text = body.dump();
      const std::string all = fmt::format(
          "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
          text.size(), text);
      if (::send(peer, all.data(), all.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::shutdown(peer, SHUT_RDWR);
  }

  static bool read_more(int peer, std::string& unread) {
    char bytes[4096];
    const ssize_t size = ::recv(peer, bytes, sizeof(bytes), 0);
    if (size > 0) unread.append(bytes, static_cast<std::size_t>(size));
    return size > 0;
  }

  static std::optional<Request> read_request(int peer, std::string& unread) {
    std::size_t end = 0;
    while ((end = unread.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more(peer, unread)) return std::nullopt;
    }
    const std::string head = unread.substr(0, end);
    const std::size_t blank = head.find(' ');
    Request request{.method = head.substr(0, blank),
                    .path = head.substr(blank + 1, head.find(' ', blank + 1) - blank - 1),
                    .body = {}};
    std::size_t size = 0;
    constexpr std::string_view kLength = "Content-Length: ";
    if (const std::size_t at = head.find(kLength); at != std::string::npos) {
      std::from_chars(head.data() + at + kLength.size(), head.data() + head.size(), size);
    }
    unread.erase(0, end + 4);
    while (unread.size() < size) {
      if (!read_more(peer, unread)) return std::nullopt;
    }
    if (size > 0) request.body = nlohmann::json::parse(unread.substr(0, size));
    unread.erase(0, size);
    return request;
  }

  static std::pair<int, nlohmann::json> fault(int status, const std::string& message) {
    return {status, {{"kind", "Status"}, {"code", status}, {"message", message}}};
  }

  std::pair<int, nlohmann::json> answer(const Request& request) {
    const std::lock_guard lock(mutex_);
    const bool is_new = request.method == "POST";
    std::string path = request.path;
    if (is_new) {
      const nlohmann::json& metadata = request.body.at("metadata");
      const std::string made_up = metadata.value("generateName", "") + std::to_string(version_);
      path += '/' + metadata.value("name", made_up);
    }
    const auto found = objects_.find(path);
    if (is_new == (found != objects_.end())) {
      return is_new ? fault(409, path + " exists") : fault(404, path + " not found");
    }
    if (request.method == "GET") return {200, found->second};
    if (request.method == "DELETE") {
      objects_.erase(found);
      return {200, {{"kind", "Status"}, {"status", "Success"}}};
    }
    nlohmann::json object = request.body;
    if (!is_new &&
        object["metadata"]["resourceVersion"] != found->second["metadata"]["resourceVersion"]) {
      return fault(409, path + " has changed");
    }
    if (drops_taints_ && object.contains("spec")) {
      for (nlohmann::json& device : object["spec"]["devices"]) device.erase("taints");
    }
    if (drops_counters_ && object.contains("spec")) object["spec"].erase("sharedCounters");
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects_[path] = object;
    ++made_;
    return {is_new ? 201 : 200, object};
  }

  int socket_;
  int port_ = 0;
  std::mutex mutex_;
  std::map<std::string, nlohmann::json> objects_;
  int version_ = 0;
  std::atomic<bool> drops_taints_{false}, drops_counters_{false};
  std::atomic<int> made_{0};
  std::vector<int> peers_;
  std::vector<std::thread> threads_;
  std::thread thread_;
};

}  // namespace gpemu
