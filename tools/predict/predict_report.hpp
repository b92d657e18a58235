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
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/program_run.hpp"

namespace gpemu::tools {

/// The prediction for a program on one GPU at one batch.
struct PredictAnswer {
  profile::GpuSpec gpu;
  std::shared_ptr<const run::ProgramRun> program_run;
  predict::StepPrediction step;
  /// The most that the program held when it had more memory than this GPU; 0 if that fits, or if
  /// the program does not fit at all.
  Bytes memory_asked_for = 0;
  std::string why_other;  ///< why it was recorded at another compute capability, or empty.

  /// Returns the device memory that the program needs: what it held, and the context.
  [[nodiscard]] Bytes needed_memory() const;
  [[nodiscard]] bool fits() const { return needed_memory() <= gpu.memory_bytes; }
  /// Returns the number of operations in a step.
  [[nodiscard]] int operations() const;
};

struct PredictReport {
  std::vector<std::string> words;  ///< the program.
  report::Provenance provenance;
  std::vector<PredictAnswer> answers;
};

/// Returns lines on what was recorded, without repeated ones.
[[nodiscard]] std::vector<std::string> predict_basis(const std::vector<PredictAnswer>& answers);

/// Returns the answers as a table, and their basis.
[[nodiscard]] std::string predict_text(const PredictReport& report,
                                       const report::Terminal& terminal);

/// Returns the answers as JSON; docs/reference/results-format.md.
[[nodiscard]] nlohmann::ordered_json predict_json(const PredictReport& report);

/// Returns a plot of the parts of the steps.
[[nodiscard]] report::StackedBars predict_plot(const PredictReport& report);

/// Returns the answers as a self-contained page with that plot.
[[nodiscard]] std::string predict_page(const PredictReport& report);

}  // namespace gpemu::tools
