// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/process_priority.hpp"

#include <string_view>

namespace gpemu::device {

Result<ProcessPriority> process_priority(const Lookup& lookup) {
  const char* const value = lookup(variable::kGpuPriority);
  const std::string_view text = value == nullptr ? "" : value;
  if (text == "high") return ProcessPriority::kHigh;
  if (text.empty() || text == "normal") return ProcessPriority::kNormal;
  if (text == "low") return ProcessPriority::kLow;
  return fail(ErrorCode::kInvalidArgument, "{} is \"{}\", not a priority: give high, normal or low",
              variable::kGpuPriority, text);
}

}  // namespace gpemu::device
