// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "gpemu/base/error.hpp"

namespace gpemu::scheduling {

/// When running jobs pay their restart time.
enum class Accounting : std::uint8_t {
  kFree,    ///< never.
  kChange,  ///< whenever they get GPUs that they did not have.
  /// As Muri's simulator does: at each change of the fleet, every running job loses up to its
  /// restart time of what it did since the last one. Jobs that would end within 1e-9 of each other,
  /// relative to the time, end together.
  kMuri,
};

/// An accounting as users name it.
struct AccountingEntry {
  std::string_view name;
  std::string_view meaning;  ///< when a job pays.
  Accounting accounting = Accounting::kChange;
};

/// Returns all accountings; the first is the default.
[[nodiscard]] std::span<const AccountingEntry> accountings();

/// Returns the accounting of this name.
///
/// Errors: kNotFound with the names that there are.
[[nodiscard]] Result<Accounting> find_accounting(std::string_view name);

}  // namespace gpemu::scheduling
