// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "gpemu/base/units.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/train/trainer.hpp"

#include "train/run_options.hpp"

namespace gpemu::tools {

/// The results of the passes of `gpemu analyze`: the mean time of a step in each, after the first
/// step. Each pass adds one thing to the previous pass, so the difference is its cost. Source:
/// Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
struct StallPasses {
  Duration ingestion{};  ///< batches already on the GPU.
  Duration copying{};    ///< batches ready in host memory: plus copies.
  Duration cached{};     ///< files in the page cache: plus preprocessing.
  Duration cold{};       ///< files in storage: plus fetching.

  /// Share of a step with ready batches that the copy adds.
  [[nodiscard]] double copy_share() const { return share(copying - ingestion, copying); }
  /// Share of a cached step that waiting for preprocessing adds.
  [[nodiscard]] double prep_stall() const { return share(cached - copying, cached); }
  /// Share of a cold step that waiting for storage adds.
  [[nodiscard]] double fetch_stall() const { return share(cold - cached, cold); }

 private:
  /// A pass that is faster than the previous one, because of noise, has no stall.
  static double share(Duration part, Duration whole) {
    if (part <= Duration::zero() || whole <= Duration::zero()) return 0;
    return static_cast<double>(part.count()) / static_cast<double>(whole.count());
  }
};

/// Everything that is reported about a run of `gpemu analyze`.
struct AnalyzeReport {
  RunOptions options;
  std::string gpu;
  std::string model;
  std::string precision;
  train::StepPlan plan;
  StallPasses passes;
  train::TrainResult cached;
  train::TrainResult cold;
  std::size_t images = 0;  ///< of the data set.
  Bytes bytes = 0;
  report::Provenance provenance;
};

/// Returns one sentence with the largest stall and its meaning. `pageable`: how inputs were copied.
[[nodiscard]] std::string analyze_verdict(const StallPasses& passes, bool pageable);

/// Returns the result for the terminal, as JSON (docs/reference/results-format.md) and as a page.
[[nodiscard]] std::string analyze_text(const AnalyzeReport& report, int columns);
[[nodiscard]] nlohmann::ordered_json analyze_json(const AnalyzeReport& report);
[[nodiscard]] std::string analyze_page(const AnalyzeReport& report);

}  // namespace gpemu::tools
