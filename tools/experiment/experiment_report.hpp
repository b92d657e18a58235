// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"

namespace gpemu::tools {

/// Checks of experiments, by how they ended.
struct CheckCounts {
  std::size_t met = 0;
  std::size_t explained = 0;  ///< missed, with a reason in the experiment's file.
  std::size_t missed = 0;     ///< without one.
};
[[nodiscard]] CheckCounts count_checks(std::span<const experiment::ExperimentResult> results);

/// Returns the counts in words, e.g. "11 checks met, 1 missed with a reason".
[[nodiscard]] std::string counts_text(const CheckCounts& counts);

/// Returns an experiment's table beside the numbers of the paper and of GPEmu, and its checks, for
/// the terminal.
[[nodiscard]] std::string experiment_text(const experiment::ExperimentResult& result,
                                          const report::Terminal& terminal);

/// Returns an experiment's checks, one in a line.
[[nodiscard]] std::string checks_text(const experiment::ExperimentResult& result);

/// Returns the results in the format of docs/reference/results-format.md.
[[nodiscard]] nlohmann::ordered_json experiments_json(
    std::span<const experiment::ExperimentResult> results, const report::Provenance& provenance);

/// Returns all results as one self-contained HTML page with plots.
[[nodiscard]] std::string experiments_page(std::span<const experiment::ExperimentResult> results,
                                           const report::Provenance& provenance);

}  // namespace gpemu::tools
