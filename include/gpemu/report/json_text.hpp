// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace gpemu::report {

/// Returns JSON as indented text, or as one line. Bytes that are not UTF-8, which names of files
/// and processes may contain, are replaced.
template <typename Json>
[[nodiscard]] std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
template <typename Json>
[[nodiscard]] std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gpemu::report
