// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::tools {

/// What a policy made of a table of jobs.
struct ScheduleRow {
  std::string table;  ///< the file.
  std::string policy;
  std::size_t jobs = 0;
  scheduling::ScheduleMetrics metrics;
};

/// Returns the rows as a table for the terminal.
[[nodiscard]] std::string schedule_text(std::span<const ScheduleRow> rows,
                                        const report::Terminal& terminal);

/// Returns the rows as JSON; docs/reference/schemas/schedule.json.
[[nodiscard]] nlohmann::ordered_json schedule_json(std::span<const ScheduleRow> rows,
                                                   const report::Provenance& provenance);

}  // namespace gpemu::tools
