// SPDX-License-Identifier: Apache-2.0
#include "smi/smi_sample.hpp"

#include <ctime>

#include <fmt/chrono.h>

namespace gpemu::tools {

SmiSample sample_at(std::chrono::system_clock::time_point time) {
  const auto since_epoch = time.time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm fields{};
  ::localtime_r(&seconds, &fields);
  return {.time = fmt::format("{:%Y/%m/%d %H:%M:%S}.{:03}", fields, ms % 1000),
          .date = fmt::format("{:%a %b} {:>2} {:%H:%M:%S %Y}", fields, fields.tm_mday, fields),
          .devices = {}};
}

}  // namespace gpemu::tools
