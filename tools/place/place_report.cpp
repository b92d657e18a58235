// SPDX-License-Identifier: Apache-2.0
#include "place/place_report.hpp"

#include <cmath>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

nlohmann::ordered_json curve_json(const std::vector<double>& curve) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const double value : curve) {
    json.push_back(std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value));
  }
  return json;
}

}  // namespace

std::string place_text(std::span<const PlaceRow> rows, const report::Terminal& terminal) {
  report::TextTable table(
      {"jobs", "placement", "seeds", "arrived", "left out", "allocated (%)", "fragmented (%)"});
  for (std::size_t begin = 0; begin < rows.size();) {
    const PlaceRow& first = rows[begin];
    double arrived = 0, left_out = 0, allocated = 0, fragmented = 0;
    std::size_t end = begin;
    for (; end < rows.size() && rows[end].table == first.table &&
           rows[end].placement == first.placement;
         ++end) {
      const scheduling::FillResult& result = rows[end].result;
      arrived += static_cast<double>(result.arrived);
      left_out += static_cast<double>(result.left_out);
      allocated += result.allocated_percent.back();
      fragmented += result.fragmented_percent.back();
    }
    const auto seeds = static_cast<double>(end - begin);
    table.add_row({std::filesystem::path(first.table).filename().string(), first.placement,
                   fmt::format("{}", seeds), fmt::format("{:.0f}", arrived / seeds),
                   fmt::format("{:.0f}", left_out / seeds),
                   fmt::format("{:.2f}", allocated / seeds),
                   fmt::format("{:.2f}", fragmented / seeds)});
    begin = end;
  }
  return table.str(terminal.output_columns);
}

nlohmann::ordered_json place_json(std::span<const PlaceRow> rows, double load,
                                  const report::Provenance& provenance) {
  nlohmann::ordered_json json{{"format", "gpemu-place-1"}};
  report::add_provenance(json, provenance);
  json["load"] = load;
  json["results"] = nlohmann::ordered_json::array();
  for (const PlaceRow& row : rows) {
    json["results"].push_back({{"table", row.table},
                               {"placement", row.placement},
                               {"seed", row.seed},
                               {"arrived", row.result.arrived},
                               {"left_out", row.result.left_out},
                               {"allocated_percent", curve_json(row.result.allocated_percent)},
                               {"fragmented_percent", curve_json(row.result.fragmented_percent)}});
  }
  return json;
}

}  // namespace gpemu::tools
