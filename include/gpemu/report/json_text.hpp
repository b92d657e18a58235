// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace gpemu::report {

/// Returns JSON as indented text, or as one line. Bytes that are not UTF-8, which names of files
/// and processes may contain, are replaced. Not templates: each file would compile the serializer.
[[nodiscard]] std::string json_text(const nlohmann::json& json);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json);
[[nodiscard]] std::string one_line(const nlohmann::json& json);
[[nodiscard]] std::string one_line(const nlohmann::ordered_json& json);

}  // namespace gpemu::report
