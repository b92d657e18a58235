// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/watched_list.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace gpemu::tools {
namespace {

using nlohmann::json;

/// A server that starts anew is back after seconds.
constexpr std::chrono::milliseconds kRetryPause{500};

std::string version_of(const json& object) {
  return object.value(json::json_pointer("/metadata/resourceVersion"), "");
}

/// Lists, and watches until the server no longer knows the changes. Errors: those of the server.
Result<void> follow_once(ApiServer& api, const std::string& path, const std::atomic<bool>& stop,
                         ListFollower& follower) {
  GPEMU_ASSIGN(json list, api.get(path));
  std::string version = version_of(list);
  const json items = std::move(list["items"]);
  if (!items.is_array() || version.empty()) {
    return fail(ErrorCode::kCorruptData, "{}: the API server's answer is no list", path);
  }
  follower.listed(items.get<std::vector<json>>());
  while (!stop) {
    const auto watched =
        api.watch(path, version, stop, [&](std::string_view type, const json& object) {
          version = version_of(object);
          if (type != "BOOKMARK") follower.changed(type, object);
        });
    if (!watched && watched.error().code == ErrorCode::kNotReady) return {};
    if (!watched) return watched;
  }
  return {};
}

}  // namespace

void follow_list(const ApiAccess& access, const std::string& path, const std::atomic<bool>& stop,
                 ListFollower& follower) {
  auto api = ApiServer::create(access);
  if (!api) return follower.failed(api.error());
  while (!stop) {
    const auto followed = follow_once(*api, path, stop, follower);
    if (followed || stop) continue;
    follower.failed(followed.error());
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace gpemu::tools
