// SPDX-License-Identifier: Apache-2.0
//
// How the API server is reached: Kubernetes' own ways of saying it.
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <yaml-cpp/yaml.h>

#include "gpemu/base/file.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {
namespace {

constexpr Bytes kMostBytes = 16 * kMiB;
/// Where a pod finds its service account. Source: Kubernetes, "Accessing the API from a Pod".
constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

std::string variable_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The current context of a kubeconfig.
class Kubeconfig {
 public:
  Kubeconfig(const std::filesystem::path& path, YAML::Node root)
      : path_(path), root_(std::move(root)) {}

  Result<ApiAccess> read() const {
    const std::string name = text(root_, "current-context");
    if (name.empty()) {
      return wrong("it has no current-context; choose one by `kubectl config use-context`");
    }
    GPEMU_ASSIGN(const YAML::Node context, named("contexts", name, "context"));
    GPEMU_ASSIGN(const YAML::Node cluster, named("clusters", text(context, "cluster"), "cluster"));
    GPEMU_ASSIGN(const YAML::Node user, named("users", text(context, "user"), "user"));
    ApiAccess access;
    access.server = text(cluster, "server");
    access.token = text(user, "token");
    access.token_file = text(user, "tokenFile");
    if (const std::string space = text(context, "namespace"); !space.empty()) {
      access.name_space = space;
    }
    access.trusts_any = text(cluster, "insecure-skip-tls-verify") == "true";
    GPEMU_ASSIGN(access.authority, pem(cluster, "certificate-authority"));
    GPEMU_ASSIGN(access.certificate, pem(user, "client-certificate"));
    GPEMU_ASSIGN(access.key, pem(user, "client-key"));
    if (user["exec"] || user["auth-provider"]) {
      return wrong(
          "the user '{}' has credentials from a program, which is not supported; give a "
          "kubeconfig with a token or a certificate",
          text(context, "user"));
    }
    return access;
  }

 private:
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                             Args&&... args) const {
    return fail(ErrorCode::kCorruptData, "{}: {}", path_.string(),
                fmt::format(format, std::forward<Args>(args)...));
  }

  static std::string text(const YAML::Node& node, const char* key) {
    if (!node.IsMap() || !node[key] || !node[key].IsScalar()) return "";
    return node[key].Scalar();
  }

  /// Returns the member of the entry with a name in one of the lists.
  Result<YAML::Node> named(const char* list, const std::string& name, const char* member) const {
    if (root_[list] && root_[list].IsSequence()) {
      for (const YAML::Node& entry : root_[list]) {
        if (text(entry, "name") == name && entry[member] && entry[member].IsMap()) {
          return YAML::Node(entry[member]);
        }
      }
    }
    return wrong("{} has no '{}'", list, name);
  }

  /// Returns what KEY-data has, else the content of the file KEY, else nothing.
  Result<std::string> pem(const YAML::Node& node, const std::string& key) const {
    if (const std::string data = text(node, (key + "-data").c_str()); !data.empty()) {
      const std::vector<unsigned char> bytes = YAML::DecodeBase64(data);
      if (bytes.empty()) return wrong("{}-data is not in base64", key);
      return std::string(bytes.begin(), bytes.end());
    }
    const std::string file = text(node, key.c_str());
    if (file.empty()) return "";
    return read_file(path_.parent_path() / file, kMostBytes);  // An absolute path stays.
  }

  const std::filesystem::path& path_;
  YAML::Node root_;
};

Result<ApiAccess> read_kubeconfig(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const std::string text, read_file(path, kMostBytes));
  try {
    YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) return fail(ErrorCode::kCorruptData, "{}: no kubeconfig", path.string());
    return Kubeconfig(path, std::move(root)).read();
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", path.string(), error.mark.line + 1,
                error.msg);
  }
}

/// Returns the way of a pod with a service account.
Result<ApiAccess> account_of_pod(const std::string& host, const std::string& port) {
  const std::filesystem::path account = kAccount;
  ApiAccess access;
  access.server = fmt::format(
      fmt::runtime(host.contains(':') ? "https://[{}]:{}" : "https://{}:{}"), host, port);
  access.token_file = account / "token";
  GPEMU_ASSIGN(access.authority, read_file(account / "ca.crt", kMostBytes));
  GPEMU_ASSIGN(access.name_space, read_file(account / "namespace", kMostBytes));
  return access;
}

}  // namespace

Result<ApiAccess> find_api_server(const std::filesystem::path& kubeconfig) {
  if (!kubeconfig.empty()) return read_kubeconfig(kubeconfig);
  if (const std::string path = variable_of("KUBECONFIG"); !path.empty()) {
    return read_kubeconfig(path.substr(0, path.find(':')));
  }
  const std::string host = variable_of("KUBERNETES_SERVICE_HOST");
  std::error_code ignored;
  if (!host.empty() &&
      std::filesystem::exists(std::filesystem::path(kAccount) / "token", ignored)) {
    return account_of_pod(host, variable_of("KUBERNETES_SERVICE_PORT"));
  }
  const std::filesystem::path own = std::filesystem::path(variable_of("HOME")) / ".kube/config";
  if (std::filesystem::exists(own, ignored)) return read_kubeconfig(own);
  return fail(
      ErrorCode::kNotFound,
      "no way to the API server: give --kubeconfig FILE, or set KUBECONFIG; there is no {}, "
      "and this is no pod with a service account",
      own.string());
}

}  // namespace gpemu::tools
