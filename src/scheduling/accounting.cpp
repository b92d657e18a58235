// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/accounting.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace gpemu::scheduling {
namespace {

constexpr auto kAccountings = std::to_array<AccountingEntry>({
    {"change", "whenever it gets other GPUs", Accounting::kChange},
    {"free", "never", Accounting::kFree},
    {"muri", "as in Muri's simulator (docs/design/scheduling.md)", Accounting::kMuri},
});

}  // namespace

std::span<const AccountingEntry> accountings() {
  return kAccountings;
}

Result<Accounting> find_accounting(std::string_view name) {
  const auto* const found = std::ranges::find(kAccountings, name, &AccountingEntry::name);
  if (found != kAccountings.end()) return found->accounting;
  std::string names;
  for (const AccountingEntry& entry : kAccountings) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  return fail(ErrorCode::kNotFound, "there is no accounting {}; there are {}", name, names);
}

}  // namespace gpemu::scheduling
