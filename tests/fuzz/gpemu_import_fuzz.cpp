// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "curve_fit.hpp"
#include "extrapolation.hpp"
#include "gpemu_import.hpp"

namespace gpemu::profile {
namespace {

void import_times(std::string_view text) {
  std::vector<PackFault> faults;
  const std::vector<CurvePoint> rows = parse_time_table(text, "fuzz", faults);
  if (!faults.empty()) return;
  GPEMU_CHECK(find_linear_fill(rows) <= rows.size(), "a fill beyond the table");
  std::vector<CurvePoint> positive;
  for (const CurvePoint& row : rows) {
    if (row.value > 0) positive.push_back(row);
  }
  const std::vector<CurvePoint> points = fit_curve(positive, 0.01);
  GPEMU_CHECK(points.empty() == positive.empty(), "a curve out of nothing, or the reverse");
  if (points.empty()) return;
  GPEMU_CHECK(points.front().batch == positive.front().batch &&
                  points.back().batch == positive.back().batch,
              "the curve does not reach as far as the rows");
}

void import_memory(std::string_view text) {
  std::vector<PackFault> faults;
  const std::vector<MemoryRow> rows = parse_memory_table(text, "fuzz", faults);
  if (!faults.empty()) return;
  GPEMU_CHECK(find_polynomial_fill(rows).size() == rows.size(), "not an answer for each row");
  GPEMU_CHECK(find_rows_on_tail(rows, rows.size() / 2).size() == rows.size(),
              "not an answer for each row");
}

}  // namespace
}  // namespace gpemu::profile

/// The first byte chooses the table.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 't') {
    gpemu::profile::import_times(text);
  } else if (data[0] == 'm') {
    gpemu::profile::import_memory(text);
  } else {
    std::vector<gpemu::profile::PackFault> faults;
    for (const auto& row : gpemu::profile::parse_flat_table(text, "fuzz", faults)) {
      GPEMU_CHECK(row.batch > 0 && !row.model.empty(), "an unusable row");
    }
  }
  return 0;
}
