// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/registry.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

constexpr auto kPolicies = std::to_array<PolicyEntry>({
    {"fifo", "first in, first out: who waits first starts first, and nobody overtakes", make_fifo},
    {"muri-l",
     "Muri without durations: jobs that complement each other share GPUs, least service first",
     make_muri_l},
    {"muri-l-split", "muri-l, but groups that are slower together than in turn are split",
     make_muri_l_split},
    {"muri-s", "Muri with durations: the same, shortest remaining service first", make_muri_s},
    {"muri-s-split", "muri-s, but groups that are slower together than in turn are split",
     make_muri_s_split},
    {"srsf", "shortest remaining service (time x GPUs) first, with preemption", make_srsf},
    {"srtf", "shortest remaining time first, with preemption", make_srtf},
    {"tiresias", "least attained service in three queues, without knowing how long jobs take",
     make_tiresias},
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

}  // namespace gpemu::scheduling
