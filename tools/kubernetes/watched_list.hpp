// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// Gets to know all objects of a list and their changes; called by one thread.
class ListFollower {
 public:
  ListFollower() = default;
  virtual ~ListFollower() = default;
  ListFollower(const ListFollower&) = delete;
  ListFollower& operator=(const ListFollower&) = delete;

  /// These are all objects now: those that it knew and that are not among them are gone.
  virtual void listed(const std::vector<nlohmann::json>& items) = 0;
  /// `type`: ADDED, MODIFIED or DELETED.
  virtual void changed(std::string_view type, const nlohmann::json& object) = 0;
  /// The server did not answer, and is asked again.
  virtual void failed(const Error& error) = 0;
};

/// Lists what a path has and then follows its changes until `stop` is set; lists it anew whenever
/// changes may have been missed.
void follow_list(const ApiAccess& access, const std::string& path, const std::atomic<bool>& stop,
                 ListFollower& follower);

}  // namespace gpemu::tools
