// SPDX-License-Identifier: Apache-2.0
#include "linear_program.hpp"

#include <algorithm>
#include <coin/Clp_C_Interface.h>
#include <memory>
#include <utility>

#ifdef GPEMU_STATIC_LAPACK
#include <cstdlib>

/// LAPACK calls this for arguments that are wrong. It lets programs replace its own, the only part
/// of what Clp uses that needs Fortran's runtime library.
extern "C" void xerbla_(const char* /*routine*/, const int* /*argument*/) {
  std::abort();
}
#endif

namespace gpemu::scheduling {
namespace {

/// Clp takes the greatest number for infinity.
double limit_for_clp(double limit) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::clamp(limit, -kMost, kMost);
}

/// The terms of all rows, by variable, as Clp wants them.
struct Columns {
  std::vector<int> begins;
  std::vector<int> rows;
  std::vector<double> factors;
};

}  // namespace

std::size_t LinearProgram::add_variable(double gain, double most) {
  gains_.push_back(gain);
  most_.push_back(limit_for_clp(most));
  return gains_.size() - 1;
}

void LinearProgram::add_row(std::vector<Term> terms, double least, double most) {
  rows_.push_back(
      {.terms = std::move(terms), .least = limit_for_clp(least), .most = limit_for_clp(most)});
}

std::optional<std::vector<double>> LinearProgram::solve() const {
  const std::size_t variables = gains_.size();
  Columns columns{.begins = std::vector<int>(variables + 1), .rows = {}, .factors = {}};
  std::vector<double> row_least;
  std::vector<double> row_most;
  for (const Row& row : rows_) {
    for (const Term& term : row.terms) ++columns.begins[term.variable + 1];
    row_least.push_back(row.least);
    row_most.push_back(row.most);
  }
  for (std::size_t i = 0; i < variables; ++i) columns.begins[i + 1] += columns.begins[i];
  const auto terms = static_cast<std::size_t>(columns.begins.back());
  columns.rows.resize(terms);
  columns.factors.resize(terms);
  std::vector<int> next = columns.begins;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (const Term& term : rows_[row].terms) {
      const auto place = static_cast<std::size_t>(next[term.variable]++);
      columns.rows[place] = static_cast<int>(row);
      columns.factors[place] = term.factor;
    }
  }

  const std::unique_ptr<Clp_Simplex, decltype(&Clp_deleteModel)> model(Clp_newModel(),
                                                                       &Clp_deleteModel);
  Clp_setLogLevel(model.get(), 0);
  const std::vector<double> least(variables, 0.0);
  Clp_loadProblem(model.get(), static_cast<int>(variables), static_cast<int>(rows_.size()),
                  columns.begins.data(), columns.rows.data(), columns.factors.data(), least.data(),
                  most_.data(), gains_.data(), row_least.data(), row_most.data());
  Clp_setOptimizationDirection(model.get(), -1);  // maximise
  constexpr int kOptimal = 0;
  Clp_initialSolve(model.get());
  if (Clp_status(model.get()) != kOptimal) return std::nullopt;
  const double* const found = Clp_primalColumnSolution(model.get());
  std::vector<double> values(variables);
  for (std::size_t i = 0; i < variables; ++i) values[i] = std::clamp(found[i], 0.0, most_[i]);
  return values;
}

}  // namespace gpemu::scheduling
