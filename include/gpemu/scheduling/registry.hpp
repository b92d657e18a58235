// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// For which jobs and fleets a policy is made.
enum class PolicyScope : std::uint8_t {
  kAll,
  kHosts,             ///< whole GPUs; it decides itself about a job's cores and memory.
  kWholeGpus,         ///< whole GPUs of one kind: no shares, cores, memory or speeds.
  kWholeGpusOfKinds,  ///< whole GPUs, those of a job of one kind: no shares, cores or memory.
  kSingleGpus,        ///< jobs of one whole GPU, of any kind.
};

/// A policy that the command knows.
struct PolicyEntry {
  std::string_view name;     ///< as in the field's papers, e.g. "srtf".
  std::string_view meaning;  ///< in one line, for lists.
  std::unique_ptr<Policy> (*make)(const PolicySettings& settings);
  PolicyScope scope = PolicyScope::kAll;
  bool has_rounds = false;  ///< PolicySettings::round_s has an effect.
};

/// Checks that a policy can serve such jobs on such a fleet.
///
/// Errors: kInvalidArgument with the first job, or what the fleet has, for which it is not made.
[[nodiscard]] Result<void> check_policy(const PolicyEntry& policy, const Fleet& fleet,
                                        std::span<const Job> jobs);

/// Checks that each setting has an effect on one of these policies.
///
/// Errors: kInvalidArgument with the policies on which it has one.
[[nodiscard]] Result<void> check_settings(std::span<const PolicyEntry* const> wanted,
                                          const PolicySettings& settings);

/// Returns all policies, by name.
[[nodiscard]] std::span<const PolicyEntry> policies();

/// Returns the policy of this name.
///
/// Errors: kNotFound with the names that there are.
[[nodiscard]] Result<const PolicyEntry*> find_policy(std::string_view name);

}  // namespace gpemu::scheduling
