// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/registry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

constexpr auto kPolicies = std::to_array<PolicyEntry>({
    {"allox",
     "for single GPUs of several kinds: the least average JCT by matching jobs and machines",
     make_allox, PolicyScope::kSingleGpus},
    {"antman", "nothing is preempted; opportunistic jobs run beside others and give way to them",
     make_antman, PolicyScope::kWholeGpus},
    {"conservative",
     "backfilling: a job overtakes if no other starts later for it; durations are known",
     make_conservative},
    {"drf-fifo",
     "for single GPUs: dominant resource fairness between users, in the order of arrival",
     make_drf_fifo, PolicyScope::kSingleGpus},
    {"drf-sjf", "for single GPUs: dominant resource fairness, the shortest job of a user first",
     make_drf_sjf, PolicyScope::kSingleGpus},
    {"easy", "backfilling: a job overtakes if the first one does not start later for it (EASY)",
     make_easy},
    {"equal-share", "for single GPUs: equal shares of each kind of GPU for users", make_equal_share,
     PolicyScope::kSingleGpus},
    {"fifo", "first in, first out: who waits first starts first, and nobody overtakes", make_fifo},
    {"gavel-fifo",
     "Gavel for several kinds of GPUs: in the order of arrival, each on its fastest kind",
     make_gavel_fifo, PolicyScope::kWholeGpusOfKinds, true},
    {"gavel-makespan", "Gavel for several kinds of GPUs: the last job ends as early as possible",
     make_gavel_makespan, PolicyScope::kWholeGpusOfKinds, true},
    {"gavel-max-min",
     "Gavel for several kinds of GPUs: the slowest job is as fast as possible (max-min fairness)",
     make_gavel_max_min, PolicyScope::kWholeGpusOfKinds, true},
    {"gittins",
     "the greatest Gittins index first, from the service that ended jobs needed, in rounds",
     make_gittins, PolicyScope::kAll, true},
    {"las", "least attained service (time x GPUs) first, in rounds", make_las, PolicyScope::kAll,
     true},
    {"las-proportional", "las, with cores and memory in proportion to the GPUs",
     make_las_proportional, PolicyScope::kHosts, true},
    {"las-synergy", "las, with the cores and the memory that make each job fastest (Synergy-TUNE)",
     make_las_synergy, PolicyScope::kHosts, true},
    {"max-min", "gavel-max-min without knowing which job is how fast on which kind of GPU",
     make_max_min, PolicyScope::kWholeGpusOfKinds, true},
    {"muri-l",
     "Muri without durations: jobs that complement each other share GPUs, least service first",
     make_muri_l, PolicyScope::kWholeGpus},
    {"muri-l-split", "muri-l, but groups that are slower together than in turn are split",
     make_muri_l_split, PolicyScope::kWholeGpus},
    {"muri-s", "Muri with durations: the same, shortest remaining service first", make_muri_s,
     PolicyScope::kWholeGpus},
    {"muri-s-split", "muri-s, but groups that are slower together than in turn are split",
     make_muri_s_split, PolicyScope::kWholeGpus},
    {"sjf", "shortest job first, without preemption", make_sjf},
    {"srsf", "shortest remaining service (time x GPUs) first, with preemption", make_srsf},
    {"srtf", "shortest remaining time first, with preemption", make_srtf},
    {"srtf-proportional", "srtf in rounds, with cores and memory in proportion to the GPUs",
     make_srtf_proportional, PolicyScope::kHosts, true},
    {"srtf-synergy",
     "srtf in rounds, with the cores and the memory that make each job fastest (Synergy-TUNE)",
     make_srtf_synergy, PolicyScope::kHosts, true},
    {"themis", "finish-time fairness: the jobs that sharing slows down the most first, in rounds",
     make_themis, PolicyScope::kWholeGpus, true},
    {"tiresias", "least attained service in three queues, without knowing how long jobs take",
     make_tiresias, PolicyScope::kWholeGpus},
});

/// Returns the greatest number of GPUs of a kind on which a job can run.
std::uint32_t most_for(const Job& job, const std::vector<std::uint32_t>& gpus_by_kind) {
  std::uint32_t most = 0;
  for (std::size_t kind = 0; kind < gpus_by_kind.size(); ++kind) {
    const bool can_run =
        (job.demand.kinds >> kind & 1U) != 0 && std::isfinite(job.iteration_s_on(kind));
    if (can_run) most = std::max(most, gpus_by_kind[kind]);
  }
  return most;
}

}  // namespace

std::span<const PolicyEntry> policies() {
  return kPolicies;
}

Result<void> check_settings(std::span<const PolicyEntry* const> wanted,
                            const PolicySettings& settings) {
  const auto has_rounds = [](const PolicyEntry* policy) { return policy->has_rounds; };
  if (!settings.round_s || std::ranges::any_of(wanted, has_rounds)) return {};
  std::string names;
  for (const PolicyEntry& policy : kPolicies) {
    if (policy.has_rounds) names += fmt::format("{}{}", names.empty() ? "" : ", ", policy.name);
  }
  return fail(ErrorCode::kInvalidArgument,
              "a length of rounds is set, and no policy that runs has rounds; these have: {}",
              names);
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

namespace {

/// Checks that a job can run with the cores and the memory that it will have.
Result<void> check_host(const PolicyEntry& policy, const Fleet& fleet, const Job& job) {
  if (!job.speed) return {};
  const HostShare& host = job.demand.host;
  const std::uint32_t gpus = std::max(job.demand.gpus, 1U);
  HostShare per_gpu{.millicores = host.millicores / gpus, .memory_mib = host.memory_mib / gpus};
  const bool hands_out = policy.scope == PolicyScope::kHosts;
  if (hands_out) per_gpu = fleet.host_for_each_gpu();
  for (std::size_t kind = 0; kind < fleet.kinds().size(); ++kind) {
    const bool may_have = (job.demand.kinds >> kind & 1U) != 0;
    if (!may_have || job.speed->speed(kind, per_gpu) > 0) continue;
    return fail(ErrorCode::kInvalidArgument,
                "job {} cannot run with the {} cores and {} MiB that {} for each GPU: its model's "
                "speeds ask for more{}",
                job.id, static_cast<double>(per_gpu.millicores) / 1000, per_gpu.memory_mib,
                hands_out ? "servers have" : "it asks for",
                hands_out ? "" : "; its row needs more, or a policy hands them out (las-synergy)");
  }
  return {};
}

/// Checks that a job asks for whole GPUs alone.
Result<void> check_gpus(const PolicyEntry& policy, const Job& job) {
  const bool one_kind = policy.scope == PolicyScope::kWholeGpus;
  const bool asks_for_more =
      job.demand.gpus == 0 || job.demand.shares_gpus() || job.demand.host != HostShare{};
  if (asks_for_more || (one_kind && job.speed != nullptr)) {
    return fail(ErrorCode::kInvalidArgument,
                "the policy {} counts whole GPUs alone, and job {} asks for a share, cores or "
                "memory{}",
                policy.name, job.id, one_kind ? ", or has speeds of its own" : "");
  }
  if (policy.scope != PolicyScope::kSingleGpus || job.demand.gpus == 1) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the policy {} is for jobs of one GPU, and job {} needs {}", policy.name, job.id,
              job.demand.gpus);
}

}  // namespace

Result<void> check_policy(const PolicyEntry& policy, const Fleet& fleet,
                          std::span<const Job> jobs) {
  if (policy.scope == PolicyScope::kWholeGpus && fleet.kinds().size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the policy {} knows one kind of GPU, and the fleet has {}", policy.name,
                fleet.kinds().size());
  }
  const bool counts_gpus = policy.scope != PolicyScope::kAll && policy.scope != PolicyScope::kHosts;
  const std::vector<std::uint32_t>& gpus = fleet.gpus_by_kind();
  for (const Job& job : jobs) {
    GPEMU_TRY(check_host(policy, fleet, job));
    if (policy.scope == PolicyScope::kHosts && (job.demand.gpus == 0 || job.demand.shares_gpus())) {
      return fail(ErrorCode::kInvalidArgument,
                  "the policy {} is for jobs of whole GPUs, and job {} asks for a share or none",
                  policy.name, job.id);
    }
    if (counts_gpus) GPEMU_TRY(check_gpus(policy, job));
    const bool of_kinds = policy.scope == PolicyScope::kWholeGpusOfKinds;
    if (const std::uint32_t most = most_for(job, gpus); of_kinds && job.demand.gpus > most) {
      return fail(
          ErrorCode::kInvalidArgument,
          "with the policy {}, the GPUs of a job are of one kind, and job {} needs {}; of a "
          "kind on which it can run, the fleet has at most {}",
          policy.name, job.id, job.demand.gpus, most);
    }
  }
  return {};
}

}  // namespace gpemu::scheduling
