// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// For tests: an API server that keeps any objects in memory. It makes, changes, lists and watches
/// them, with resource versions, binds pods and evicts them. Pods with a node are removed when they
/// are deleted without a grace period, all of a list without any. Of field selectors, it knows =
/// and !=, of label selectors =.
///
/// Thread safety: full.
class FakeApiServer {
 public:
  FakeApiServer();
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;
  ~FakeApiServer();

  [[nodiscard]] ApiAccess access() const;
  /// Returns a kubeconfig for it.
  [[nodiscard]] std::string kubeconfig() const;
  /// Answers a request as the server does; the first of the two is the status of HTTP.
  std::pair<int, nlohmann::json> answer(const std::string& method, const std::string& target,
                                        const nlohmann::json& body);
  /// Returns the items of a list. Requires: there is such a list.
  [[nodiscard]] std::vector<nlohmann::json> items(const std::string& path);
  /// Returns an object, if it is there.
  [[nodiscard]] std::optional<nlohmann::json> get(const std::string& path);
  /// Has this object from now on, with its name and its UID, as it is.
  void set(const std::string& path, nlohmann::json object);
  /// Removes an object at once.
  void remove(const std::string& path);
  /// From now on, keeps less of what requests make or change: as a server whose feature gates are
  /// off. `edit` is called one at a time.
  void edit_what_is_made(std::function<void(nlohmann::json& object)> edit);
  /// Forgets all changes until now: watches that begin before them get 410.
  void forget_changes();
  /// Returns the last request's headers.
  [[nodiscard]] std::string last_headers();
  [[nodiscard]] int requests() const { return requests_; }

 private:
  struct Place;
  struct Change {
    std::uint64_t version = 0;
    std::string type;
    std::string key;
    nlohmann::json object;
  };
  void serve();
  void serve_connection(int socket);
  void stream(int socket, const Place& place);
  nlohmann::json& store(const std::string& key, const char* type, nlohmann::json object);
  void erase(const std::string& key);
  std::pair<int, nlohmann::json> list(const Place& place);
  std::pair<int, nlohmann::json> make(const Place& place, nlohmann::json body);
  std::pair<int, nlohmann::json> bind(const Place& place, const nlohmann::json& body);
  std::pair<int, nlohmann::json> change(const std::string& method, const Place& place,
                                        const nlohmann::json& body);
  std::pair<int, nlohmann::json> remove(const Place& place, const nlohmann::json& body);
  std::pair<int, nlohmann::json> remove_all(const Place& place);
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> requests_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t version_ = 1;
  std::uint64_t forgotten_ = 0;
  std::map<std::string, nlohmann::json> objects_;  ///< by RESOURCE/NAMESPACE/NAME.
  std::vector<Change> changes_;
  std::function<void(nlohmann::json&)> edit_;
  std::string last_headers_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace gpemu::tools
