// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "pack_format.hpp"
#include "table_reader.hpp"

/// The first byte chooses the table.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpemu::profile::PackFault;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<PackFault> faults;
  switch (data[0]) {
    case 'm':
      for (const auto& row : gpemu::profile::parse_models(text, "fuzz", faults)) {
        GPEMU_CHECK(row.model.parameters > 0 && row.line > 1, "an unusable model");
      }
      break;
    case 'c':
      for (const auto& row : gpemu::profile::parse_curves(text, "fuzz", faults)) {
        GPEMU_CHECK(row.curve.measured_rows > 0 && row.curve.max_relative_error <= 1,
                    "an unusable curve");
      }
      break;
    case 'l':
      for (const auto& row : gpemu::profile::parse_limits(text, "fuzz", faults)) {
        GPEMU_CHECK(row.limit.largest_batch_measured > 0, "an unusable limit");
      }
      break;
    default:
      for (const auto& row :
           gpemu::profile::parse_points(text, gpemu::profile::Quantity::kForward, "fuzz", faults)) {
        GPEMU_CHECK(row.point.batch > 0 && row.point.value > 0, "an unusable point");
      }
  }
  GPEMU_CHECK(faults.size() <= gpemu::profile::TableReader::kMaxFaults + 10U, "endless faults");
  for (const PackFault& fault : faults) GPEMU_CHECK(fault.line > 0, "a fault without its line");
  return 0;
}
