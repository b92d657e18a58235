// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule_report.hpp"

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {

std::string schedule_text(std::span<const ScheduleRow> rows, const report::Terminal& terminal) {
  report::TextTable table({"jobs", "policy", "JCT (s)", "median", "p95", "p99", "makespan (s)",
                           "wait (s)", "held (%)", "preempted"});
  const auto seconds = [](double value) { return fmt::format("{:.1f}", value); };
  for (const ScheduleRow& row : rows) {
    const scheduling::ScheduleMetrics& metrics = row.metrics;
    table.add_row(
        {std::filesystem::path(row.table).filename().string(), row.policy,
         seconds(metrics.average_jct_s), seconds(metrics.median_jct_s), seconds(metrics.p95_jct_s),
         seconds(metrics.p99_jct_s), seconds(metrics.makespan_s), seconds(metrics.average_wait_s),
         report::percent(metrics.utilization, 1), fmt::format("{:.0f}", metrics.preemptions)});
  }
  return table.str(terminal.output_columns);
}

nlohmann::ordered_json schedule_json(std::span<const ScheduleRow> rows,
                                     const report::Provenance& provenance) {
  nlohmann::ordered_json json{{"format", "gpemu-schedule-1"}};
  report::add_provenance(json, provenance);
  json["results"] = nlohmann::ordered_json::array();
  for (const ScheduleRow& row : rows) {
    const scheduling::ScheduleMetrics& metrics = row.metrics;
    json["results"].push_back({{"table", row.table},
                               {"policy", row.policy},
                               {"jobs", row.jobs},
                               {"average_jct_s", metrics.average_jct_s},
                               {"median_jct_s", metrics.median_jct_s},
                               {"p95_jct_s", metrics.p95_jct_s},
                               {"p99_jct_s", metrics.p99_jct_s},
                               {"makespan_s", metrics.makespan_s},
                               {"average_wait_s", metrics.average_wait_s},
                               {"utilization", metrics.utilization},
                               {"preemptions", metrics.preemptions}});
  }
  return json;
}

}  // namespace gpemu::tools
