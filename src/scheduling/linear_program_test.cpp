// SPDX-License-Identifier: Apache-2.0
#include "linear_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "random_draws.hpp"

namespace gpemu::scheduling {
namespace {

/// Values x with factors * x <= most.
struct HalfSpace {
  std::vector<double> factors;
  double most = 0;
};

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Returns the point in which the planes meet; nothing if it is not one point.
std::optional<std::vector<double>> meeting_point(std::vector<HalfSpace> planes) {
  const std::size_t size = planes.size();
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i; row < size; ++row) {
      if (std::abs(planes[row].factors[i]) > std::abs(planes[pivot].factors[i])) pivot = row;
    }
    std::swap(planes[i], planes[pivot]);
    if (std::abs(planes[i].factors[i]) < 1e-9) return std::nullopt;
    for (std::size_t row = 0; row < size; ++row) {
      if (row == i) continue;
      const double times = planes[row].factors[i] / planes[i].factors[i];
      for (std::size_t k = 0; k < size; ++k) {
        planes[row].factors[k] -= times * planes[i].factors[k];
      }
      planes[row].most -= times * planes[i].most;
    }
  }
  std::vector<double> point(size);
  for (std::size_t i = 0; i < size; ++i) point[i] = planes[i].most / planes[i].factors[i];
  return point;
}

/// Returns the greatest product of gains and a point in all half spaces, by trying all vertices.
/// Requires: the half spaces have no point at infinity in common.
std::optional<double> best_vertex(const std::vector<HalfSpace>& spaces,
                                  const std::vector<double>& gains) {
  std::optional<double> best;
  std::vector<bool> chosen(spaces.size());
  std::fill_n(chosen.begin(), gains.size(), true);
  do {
    std::vector<HalfSpace> planes;
    for (std::size_t i = 0; i < spaces.size(); ++i) {
      if (chosen[i]) planes.push_back(spaces[i]);
    }
    const auto point = meeting_point(std::move(planes));
    if (!point) continue;
    const bool inside = std::ranges::all_of(spaces, [&](const HalfSpace& space) {
      return product(space.factors, *point) <= space.most + 1e-9;
    });
    if (inside) best = std::max(best.value_or(-kNoLimit), product(gains, *point));
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return best;
}

/// A program, and the same as half spaces.
struct Instance {
  LinearProgram program;
  std::vector<double> gains;
  std::vector<HalfSpace> spaces;
};

double small_number(RandomDraws& draw) {
  return static_cast<double>(draw(11)) - 4;
}

Instance random_instance(RandomDraws& draw) {
  Instance made;
  const std::size_t variables = 1 + draw(3);
  for (std::size_t i = 0; i < variables; ++i) {
    const auto most = static_cast<double>(draw(6));
    made.gains.push_back(small_number(draw));
    made.program.add_variable(made.gains.back(), most);
    std::vector<double> unit(variables);
    unit[i] = 1;
    made.spaces.push_back({.factors = unit, .most = most});
    unit[i] = -1;
    made.spaces.push_back({.factors = unit, .most = 0});
  }
  for (std::size_t row = draw(4); row > 0; --row) {
    std::vector<LinearProgram::Term> terms;
    std::vector<double> factors;
    std::vector<double> negated;
    for (std::size_t i = 0; i < variables; ++i) {
      factors.push_back(small_number(draw));
      negated.push_back(-factors.back());
      terms.push_back({.variable = i, .factor = factors.back()});
    }
    const double least = draw(2) == 0 ? -kNoLimit : small_number(draw);
    const double most = draw(2) == 0 ? kNoLimit : std::max(least, 0.0) + small_number(draw) + 4;
    made.program.add_row(std::move(terms), least, most);
    if (most < kNoLimit) made.spaces.push_back({.factors = factors, .most = most});
    if (least > -kNoLimit) made.spaces.push_back({.factors = negated, .most = -least});
  }
  return made;
}

TEST(LinearProgramTest, IsTheBestVertexOf10000SmallInstances) {
  RandomDraws draw(1);
  int without = 0;
  for (int i = 0; i < instances(10000); ++i) {
    const Instance instance = random_instance(draw);
    const std::optional<double> best = best_vertex(instance.spaces, instance.gains);
    const auto values = instance.program.solve();
    ASSERT_EQ(values.has_value(), best.has_value());
    if (!values || !best) {
      ++without;
      continue;
    }
    ASSERT_NEAR(product(instance.gains, *values), *best, 1e-6);
    for (const HalfSpace& space : instance.spaces) {
      ASSERT_LE(product(space.factors, *values), space.most + 1e-6);
    }
  }
  // Both kinds occur.
  EXPECT_GT(without, instances(500));
  EXPECT_LT(without, 5000);
}

TEST(LinearProgramTest, SaysThatASumHasNoLimit) {
  LinearProgram program;
  const std::size_t first = program.add_variable(1);
  const std::size_t second = program.add_variable(0, 3);
  program.add_row({{.variable = first, .factor = -1}, {.variable = second, .factor = 1}}, -kNoLimit,
                  2);
  EXPECT_FALSE(program.solve().has_value());
}

}  // namespace
}  // namespace gpemu::scheduling
