// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/cost/shared_speed.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/report/terminal.hpp"

#include "predict/predict_report.hpp"

namespace gpemu::tools {

/// The programs that share one GPU of a kind: the first one at one of its batches.
struct SharingAnswer {
  std::vector<PredictAnswer> programs;  ///< in the order of SharingReport::programs.
  std::vector<cost::SpeedEstimate> speeds;

  [[nodiscard]] const profile::GpuSpec& gpu() const { return programs.front().gpu; }
  /// Returns the memory that all of them need together, with their contexts.
  [[nodiscard]] Bytes needed_memory() const;
  [[nodiscard]] bool fits() const { return needed_memory() <= gpu().memory_bytes; }
};

struct SharingReport {
  std::vector<std::vector<std::string>> programs;  ///< their words.
  std::string sharing;                             ///< as --sharing names it.
  report::Provenance provenance;
  std::vector<SharingAnswer> answers;
};

/// Returns the speeds of programs on a GPU that they share in a way that --sharing names, by turns
/// as a node has them by default or side by side.
[[nodiscard]] std::vector<cost::SpeedEstimate> speeds_together(
    const std::vector<PredictAnswer>& programs, std::string_view sharing);

/// Returns the words of a program beside another one, whose words are `first`: words divided by
/// blanks, or a single Python script, which the other one's Python runs.
///
/// Errors: kInvalidArgument if there are none.
[[nodiscard]] Result<std::vector<std::string>> words_beside(const std::string& text,
                                                            const std::vector<std::string>& first);

/// Returns the answers as a table, and their basis.
[[nodiscard]] std::string sharing_text(const SharingReport& report,
                                       const report::Terminal& terminal);
/// Returns the answers as JSON; docs/reference/results-format.md.
[[nodiscard]] nlohmann::ordered_json sharing_json(const SharingReport& report);

}  // namespace gpemu::tools
