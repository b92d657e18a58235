// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/pipeline/input_pipeline.hpp"

namespace gpemu::experiment {

/// A quantity of a run that expressions can use.
struct Quantity {
  std::string_view name;     ///< e.g. "epoch_s".
  std::string_view meaning;  ///< for the documentation.
};

/// Returns the quantities of runs on described hosts.
[[nodiscard]] std::vector<Quantity> epoch_quantities();

/// What a run measured: the value of each quantity of its kind.
class RunResult {
 public:
  using Values = std::vector<std::pair<std::string_view, double>>;
  explicit RunResult(Values values) : values_(std::move(values)) {}
  explicit RunResult(const pipeline::EpochResult& epoch);

  [[nodiscard]] const Values& values() const { return values_; }
  /// Returns the value of this name; nothing if runs of this kind have none.
  [[nodiscard]] std::optional<double> value(std::string_view name) const;

 private:
  Values values_;
};

}  // namespace gpemu::experiment
