// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace gpemu::scheduling {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// A linear program: which values of its variables, each from 0 to a limit, give the greatest sum
/// of gain times value, while each row's sum of factor times value stays within its limits?
class LinearProgram {
 public:
  struct Term {
    std::size_t variable = 0;
    double factor = 0;
  };

  /// Returns the number of the variable, from 0. Requires: `most` is 0 or more.
  std::size_t add_variable(double gain, double most = kNoLimit);
  /// Requires: the variables have been added, and each occurs once. Limits that are not there are
  /// kNoLimit or -kNoLimit.
  void add_row(std::vector<Term> terms, double least, double most);

  /// Returns the values by variable, exact to about 1e-7 (by Clp's simplex): an optimum at a
  /// vertex, always the same one for the same program. Nothing if no values satisfy the rows, or
  /// the sum has no limit.
  [[nodiscard]] std::optional<std::vector<double>> solve() const;

 private:
  struct Row {
    std::vector<Term> terms;
    double least = 0;
    double most = 0;
  };

  std::vector<double> gains_;
  std::vector<double> most_;
  std::vector<Row> rows_;
};

}  // namespace gpemu::scheduling
