// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fill.hpp"

namespace gpemu::tools {

/// How a placement filled the fleet with jobs of a table, for one seed.
struct PlaceRow {
  std::string table;  ///< the file.
  std::string placement;
  std::uint64_t seed = 0;
  scheduling::FillResult result;
};

/// Returns a table for the terminal: what rows of the same table and placement, which follow one
/// another, have at the full load, on average over their seeds.
[[nodiscard]] std::string place_text(std::span<const PlaceRow> rows,
                                     const report::Terminal& terminal);

/// Returns the rows as JSON; docs/reference/schemas/place.json.
[[nodiscard]] nlohmann::ordered_json place_json(std::span<const PlaceRow> rows, double load,
                                                const report::Provenance& provenance);

}  // namespace gpemu::tools
