// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/predict/step_prediction.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/run/program_run.hpp"

namespace gpemu::tools {

/// What is predicted of a program on one GPU at one batch.
struct PredictAnswer {
  profile::GpuSpec gpu;
  std::shared_ptr<const run::ProgramRun> program_run;
  predict::StepPrediction step;
  /// The most that the program held where it was given more memory than the GPU has; 0 where that
  /// fits, or the program does not.
  Bytes memory_asked_for = 0;
  std::string why_other;  ///< why it was recorded at another compute capability; empty: it was not.

  /// Returns the device memory that the program needs: what it held, and the context.
  [[nodiscard]] Bytes needed_memory() const;
  [[nodiscard]] bool fits() const { return needed_memory() <= gpu.memory_bytes; }
  /// Returns operations of the program in a step.
  [[nodiscard]] int operations() const;
};

struct PredictReport {
  std::vector<std::string> words;  ///< the program.
  report::Provenance provenance;
  std::vector<PredictAnswer> answers;
};

/// Returns the answers as a table, and what they rest on.
[[nodiscard]] std::string predict_text(const PredictReport& report);

/// Returns the answers as JSON; docs/reference/results-format.md.
[[nodiscard]] nlohmann::ordered_json predict_json(const PredictReport& report);

/// Returns what the steps are made of.
[[nodiscard]] report::StackedBars predict_plot(const PredictReport& report);

/// Returns the answers as a self-contained page with that plot.
[[nodiscard]] std::string predict_page(const PredictReport& report);

}  // namespace gpemu::tools
