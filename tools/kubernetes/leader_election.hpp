// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

struct LeaderElectionOptions {
  std::string name_space, name;  ///< of the lease.
  std::string identity;          ///< of this candidate.
  /// How long a lease lasts that is not renewed. A leader gives up after two thirds of it, and
  /// candidates try every seventh: with 15 s, what client-go's programs do.
  double lease_s = 15;
};

/// A candidate for leadership by a Lease of coordination.k8s.io, as client-go's leader election has
/// it: who holds it renews it; others take it when they have seen no renewal for as long as it
/// lasts, by their own clocks.
///
/// Thread safety: none.
class LeaderElection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit LeaderElection(LeaderElectionOptions options) : options_(std::move(options)) {}

  /// Takes or renews the lease, if it is free. Returns whether this candidate holds it. Errors:
  /// those of the API server, but for another one that was faster.
  [[nodiscard]] Result<bool> try_hold(ApiServer& api, Time now);
  /// Returns whether this candidate is the leader: others do not take the lease before.
  [[nodiscard]] bool leads(Time now) const;
  /// Gives the lease back, so that another one takes it at once. Errors: those of the API server.
  [[nodiscard]] Result<void> release(ApiServer& api);

  /// Returns for how long a leader waits between two renewals, and a candidate between two tries.
  [[nodiscard]] std::chrono::duration<double> pause() const {
    return std::chrono::duration<double>(options_.lease_s / 7.5);
  }
  /// Returns who held the lease when it was last looked at.
  [[nodiscard]] const std::string& holder() const { return holder_; }

 private:
  [[nodiscard]] std::string leases() const;
  [[nodiscard]] nlohmann::json spec(const nlohmann::json* old) const;

  LeaderElectionOptions options_;
  std::string holder_;
  nlohmann::json seen_;  ///< the spec of the lease.
  Time seen_at_{};       ///< when it became so, for this candidate.
  std::optional<Time> renewed_at_;
};

}  // namespace gpemu::tools
