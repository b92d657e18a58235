// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/sweep_cells.hpp"
#include "gpemu/profile/sweep_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = gpemu::profile::parse_sweep_spec(text, "fuzz");
  if (!spec) {
    GPEMU_CHECK(spec.error().message.starts_with("fuzz:"), "a message without its place");
    return 0;
  }
  constexpr std::size_t kMostCombinations = 10'000;  // More only take time.
  std::size_t combinations = 1;
  for (const gpemu::profile::Factor& factor : spec->factors) {
    combinations *= factor.values.size();
    if (combinations > kMostCombinations) return 0;
  }
  const auto cells = gpemu::profile::sweep_cells(*spec);
  if (!cells) return 0;
  for (const gpemu::profile::SweepCell& cell : *cells) {
    GPEMU_CHECK(cell.number <= combinations, "a cell that is no combination");
    GPEMU_CHECK(cell.values.size() == spec->factors.size(), "a cell without a value");
  }
  return 0;
}
