// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/registry.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

constexpr auto kPolicies = std::to_array<PolicyEntry>({
    {"conservative",
     "backfilling: a job overtakes if no other starts later for it; durations are known",
     make_conservative},
    {"easy", "backfilling: a job overtakes if the first one does not start later for it (EASY)",
     make_easy},
    {"fifo", "first in, first out: who waits first starts first, and nobody overtakes", make_fifo},
    {"gittins",
     "the greatest Gittins index first, from the service that ended jobs needed, in rounds",
     make_gittins},
    {"las", "least attained service (time x GPUs) first, in rounds", make_las},
    {"muri-l",
     "Muri without durations: jobs that complement each other share GPUs, least service first",
     make_muri_l, true},
    {"muri-s", "Muri with durations: the same, shortest remaining service first", make_muri_s,
     true},
    {"sjf", "shortest job first, without preemption", make_sjf},
    {"srsf", "shortest remaining service (time x GPUs) first, with preemption", make_srsf},
    {"srtf", "shortest remaining time first, with preemption", make_srtf},
    {"tiresias", "least attained service in three queues, without knowing how long jobs take",
     make_tiresias, true},
});

}  // namespace

std::span<const PolicyEntry> policies() {
  return kPolicies;
}

Result<const PolicyEntry*> find_policy(std::string_view name) {
  const auto* const found = std::ranges::find(kPolicies, name, &PolicyEntry::name);
  if (found != kPolicies.end()) return found;
  std::string names;
  for (const PolicyEntry& policy : kPolicies) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", policy.name);
  }
  return fail(ErrorCode::kNotFound, "there is no policy {}; there are {}", name, names);
}

Result<void> check_policy(const PolicyEntry& policy, const Fleet& fleet,
                          std::span<const Job> jobs) {
  if (!policy.counts_gpus_only) return {};
  if (fleet.kinds().size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the policy {} knows one kind of GPU, and the fleet has {}", policy.name,
                fleet.kinds().size());
  }
  for (const Job& job : jobs) {
    const bool asks_for_more = job.demand.gpus == 0 || job.demand.shares_gpus() ||
                               job.demand.host != HostShare{} || job.speed != nullptr;
    if (!asks_for_more) continue;
    return fail(ErrorCode::kInvalidArgument,
                "the policy {} counts whole GPUs alone, and job {} asks for a share, cores or "
                "memory, or has speeds of its own",
                policy.name, job.id);
  }
  return {};
}

}  // namespace gpemu::scheduling
