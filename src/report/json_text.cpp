// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/json_text.hpp"

namespace gpemu::report {
namespace {

template <typename Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json_text(const nlohmann::json& json) {
  return text_of(json, 2);
}

std::string json_text(const nlohmann::ordered_json& json) {
  return text_of(json, 2);
}

std::string one_line(const nlohmann::json& json) {
  return text_of(json, -1);
}

std::string one_line(const nlohmann::ordered_json& json) {
  return text_of(json, -1);
}

}  // namespace gpemu::report
