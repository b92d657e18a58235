// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// A policy that the command knows.
struct PolicyEntry {
  std::string_view name;     ///< as in the field's papers, e.g. "srtf".
  std::string_view meaning;  ///< in one line, for lists.
  std::unique_ptr<Policy> (*make)();
};

/// Returns all policies, by name.
[[nodiscard]] std::span<const PolicyEntry> policies();

/// Returns the policy of this name.
///
/// Errors: kNotFound with the names that there are.
[[nodiscard]] Result<const PolicyEntry*> find_policy(std::string_view name);

}  // namespace gpemu::scheduling
