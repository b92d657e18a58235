// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/leader_election.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kubernetes/pod_facts.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

std::string present() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return api_time(std::chrono::duration<double>(now).count(), true);
}

}  // namespace

std::string LeaderElection::leases() const {
  return "/apis/coordination.k8s.io/v1/namespaces/" + options_.name_space + "/leases";
}

json LeaderElection::spec(const json* old) const {
  const std::string time = present();
  json spec{{"holderIdentity", options_.identity},
            {"leaseDurationSeconds", std::max(1, static_cast<int>(std::ceil(options_.lease_s)))},
            {"acquireTime", time},
            {"renewTime", time},
            {"leaseTransitions", 0}};
  if (old == nullptr) return spec;
  const bool is_own = old->value("holderIdentity", "") == options_.identity;
  if (is_own) spec["acquireTime"] = old->value("acquireTime", time);
  spec["leaseTransitions"] = old->value("leaseTransitions", 0) + (is_own ? 0 : 1);
  return spec;
}

Result<bool> LeaderElection::try_hold(ApiServer& api, Time now) {
  const std::string path = leases() + "/" + options_.name;
  auto lease = api.get(path);
  const auto settle = [&](const Result<json>& done) -> Result<bool> {
    if (done) {
      renewed_at_ = now;
      holder_ = options_.identity;
      seen_ = (*done)["spec"];
      seen_at_ = now;
      return true;
    }
    // Another one was faster.
    if (done.error().code == ErrorCode::kUnavailable) return false;
    return std::unexpected(done.error());
  };
  if (!lease && lease.error().code == ErrorCode::kNotFound) {
    return settle(api.create(leases(), {{"apiVersion", "coordination.k8s.io/v1"},
                                        {"kind", "Lease"},
                                        {"metadata", {{"name", options_.name}}},
                                        {"spec", spec(nullptr)}}));
  }
  if (!lease) return std::unexpected(std::move(lease).error());
  const json old = lease->value("spec", json::object());
  if (old != seen_) {
    seen_ = old;
    seen_at_ = now;
  }
  holder_ = old.value("holderIdentity", "");
  // The holder says how long it lasts in whole seconds; it is one of us, and has the same options.
  const bool has_expired = now >= seen_at_ + std::chrono::duration<double>(options_.lease_s);
  if (!holder_.empty() && holder_ != options_.identity && !has_expired) return false;
  (*lease)["spec"] = spec(&old);
  // With the resource version that was read: another one's change is not lost.
  return settle(api.replace(path, *lease));
}

bool LeaderElection::leads(Time now) const {
  return renewed_at_ &&
         now < *renewed_at_ + std::chrono::duration<double>(options_.lease_s * 2 / 3);
}

Result<void> LeaderElection::release(ApiServer& api) {
  if (!std::exchange(renewed_at_, std::nullopt)) return {};
  GPEMU_ASSIGN(json lease, api.get(leases() + "/" + options_.name));
  if (text_at(lease, "/spec/holderIdentity") != options_.identity) return {};
  lease["spec"]["holderIdentity"] = "";
  lease["spec"]["renewTime"] = present();
  GPEMU_ASSIGN([[maybe_unused]] const json done,
               api.replace(leases() + "/" + options_.name, lease));
  return {};
}

}  // namespace gpemu::tools
