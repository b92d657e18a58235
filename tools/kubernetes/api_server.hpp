// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// Where an API server of Kubernetes is, and as whom it is asked.
struct ApiAccess {
  std::string server;  ///< "https://HOST:PORT".
  std::string token;
  std::filesystem::path token_file;    ///< read anew for each connection, in place of `token`.
  std::string authority;               ///< PEM; empty: the system's certificates.
  std::string certificate, key;        ///< PEM, of the client; empty: none.
  bool trusts_any = false;             ///< the server's certificate is not checked.
  std::string name_space = "default";  ///< of the pods, where a command names none.
};

/// Reads how the API server is reached: from a kubeconfig, its current context; without one, from
/// $KUBECONFIG, from the service account of a pod, or from ~/.kube/config.
///
/// Errors: kNotFound if there is none of these; kCorruptData for what is in it, by file and key.
[[nodiscard]] Result<ApiAccess> find_api_server(const std::filesystem::path& kubeconfig);

/// The API server. Objects and lists are JSON as the API's reference describes it; paths are those
/// of its REST interface, e.g. "/api/v1/nodes/n1".
///
/// Thread safety: none; several of them can be used by several threads.
class ApiServer {
 public:
  /// Errors: kInvalidArgument for an address that is none. Whether the server answers is not asked.
  [[nodiscard]] static Result<ApiServer> create(const ApiAccess& access);
  ApiServer(ApiServer&&) noexcept;
  ApiServer& operator=(ApiServer&&) noexcept;
  ~ApiServer();

  // Errors of all: kNotFound (404), kUnavailable if another made or changed the object meanwhile
  // (409), kInvalidArgument (400, 422), kIo for a server that is not reached, or busy (429, 5xx);
  // kUnsupported for who may not (401, 403), with the server's message.

  [[nodiscard]] Result<nlohmann::json> get(const std::string& path);
  /// POST.
  [[nodiscard]] Result<nlohmann::json> create(const std::string& path, const nlohmann::json& body);
  /// PUT.
  [[nodiscard]] Result<nlohmann::json> replace(const std::string& path, const nlohmann::json& body);
  /// PATCH, as a merge patch (RFC 7386): null removes.
  [[nodiscard]] Result<nlohmann::json> patch(const std::string& path, const nlohmann::json& body);
  [[nodiscard]] Result<void> remove(const std::string& path);

  /// Calls `on_event` with the type (ADDED, MODIFIED, DELETED or BOOKMARK) and the object of each
  /// change to what a path lists, after the version `since` of the list. Returns when the server
  /// ends the watch, as it does every few minutes, or soon after `stop` is set; watch again then,
  /// from the version of the last object.
  ///
  /// Errors: as above; kNotReady if the changes since then are no longer known (410): list anew.
  [[nodiscard]] Result<void> watch(
      const std::string& path, const std::string& since, const std::atomic<bool>& stop,
      const std::function<void(std::string_view type, const nlohmann::json& object)>& on_event);

 private:
  struct Connection;
  explicit ApiServer(std::unique_ptr<Connection> connection);
  [[nodiscard]] Result<nlohmann::json> call(const char* method, const std::string& path,
                                            const nlohmann::json* body);
  std::unique_ptr<Connection> connection_;
};

}  // namespace gpemu::tools
