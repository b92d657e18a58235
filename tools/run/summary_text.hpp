// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace gpemu::tools {

/// Returns the summary as one screen of text, which begins with the verdict.
[[nodiscard]] std::string summary_text(const nlohmann::ordered_json& summary, int columns);

/// Returns a device's line about its idle time, without the label.
[[nodiscard]] std::string idle_text(const nlohmann::ordered_json& device);

/// Returns for which rank the others waited the longest, and how long; nothing if none waited.
[[nodiscard]] std::string waited_for_text(const nlohmann::ordered_json& communication);

/// Returns the shares of emulated time by evidence as text.
[[nodiscard]] std::string evidence_text(const nlohmann::ordered_json& evidence);

/// Returns a time and its unit (s, ms or us), with four significant digits.
[[nodiscard]] std::string time_text(std::int64_t time_ns);

}  // namespace gpemu::tools
