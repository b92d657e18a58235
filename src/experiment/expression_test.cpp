// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/expression.hpp"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace gpemu::experiment {
namespace {

Result<Value> toy_names(std::string_view name) {
  if (name == "a.x") return Value{2};
  if (name == "rows") return Value{1, 2, 4};
  if (name == "others") return Value{30, 20, 10};
  if (name == "gaps") return Value{1, NAN, 3};
  return fail(ErrorCode::kInvalidArgument, "'{}' is not a name", name);
}

double number_of(std::string_view text) {
  const auto value = compute(text, toy_names);
  EXPECT_TRUE(value) << value.error().message;
  return value ? value->front() : NAN;
}

std::string fault_of(std::string_view text) {
  const auto value = compute(text, toy_names);
  return value ? "no fault" : value.error().message;
}

TEST(Compute, DoesArithmetic) {
  EXPECT_EQ(number_of("1 + 2 * 3 - 4 / 2"), 5);
  EXPECT_EQ(number_of("-(1 - 3) * 2.5"), 5);
  EXPECT_EQ(number_of("1e2 * a.x"), 200);
  EXPECT_EQ(number_of("10 - 2 - 3"), 5);
  EXPECT_EQ(compute("2 * rows + others", toy_names).value(), (Value{32, 24, 18}));
}

TEST(Compute, KnowsFunctionsOfRows) {
  EXPECT_EQ(number_of("min(rows)"), 1);
  EXPECT_EQ(number_of("max(rows / 2)"), 2);
  EXPECT_DOUBLE_EQ(number_of("mean(rows)"), 7.0 / 3);
  EXPECT_EQ(number_of("least_step(others)"), 0.5);
  EXPECT_EQ(number_of("largest_step(rows)"), 2);
  EXPECT_DOUBLE_EQ(number_of("correlation(rows, others)"), -1);
  // Without the row of which one value is not known.
  EXPECT_DOUBLE_EQ(number_of("correlation(rows, gaps)"), 1);
}

TEST(Compute, EqualValuesShareTheirRank) {
  const Names names = [](std::string_view name) -> Result<Value> {
    return name == "ours" ? Value{9, 9, 9, 9, 1, 1} : Value{6, 5, 4, 3, 2, 1};
  };
  // Ranks 3.5, 3.5, 3.5, 3.5, 0.5, 0.5 and 5 to 0: 12 / sqrt(12 x 17.5).
  EXPECT_NEAR(compute("correlation(ours, paper)", names)->front(), 0.82808, 1e-5);
}

TEST(Compute, NamesThePlaceOfAFault) {
  EXPECT_EQ(fault_of("1 +"), "'1 +', character 4: expected a number, a name or a bracket");
  EXPECT_EQ(fault_of("(1"), "'(1', character 3: expected ')'");
  EXPECT_EQ(fault_of("1 2"), "'1 2', character 3: expected the end");
  EXPECT_EQ(fault_of("nothing"), "'nothing' is not a name");
  EXPECT_EQ(fault_of("sqrt(2)"), "'sqrt(2)', character 8: no function 'sqrt'");
  EXPECT_EQ(fault_of("least_step(1)"), "'least_step(1)', character 14: too few rows");
  EXPECT_EQ(fault_of("correlation(1, 2)"),
            "'correlation(1, 2)', character 18: expected as many rows");
  EXPECT_TRUE(fault_of(std::string(1000, '(')).ends_with("character 101: too deep"));
  EXPECT_TRUE(fault_of(std::string(1000, '-')).ends_with("character 101: too deep"));
}

TEST(Compare, ShowsBothSides) {
  const Comparison met = compare("1 <= a.x <= 3", toy_names).value();
  EXPECT_TRUE(met.holds);
  EXPECT_EQ(met.sides, "1 <= 2 <= 3");
  EXPECT_FALSE(compare("a.x < 2", toy_names)->holds);
  EXPECT_EQ(compare("rows >= 1", toy_names)->sides, "1 to 4 >= 1");
  EXPECT_TRUE(compare("rows >= 1", toy_names)->holds);
  EXPECT_FALSE(compare("rows > 1", toy_names)->holds);
  EXPECT_FALSE(compare("rows < others / 5", toy_names)->holds);  // Not the last one.
  // What is not known does not hold.
  EXPECT_FALSE(compare("gaps > 0", toy_names)->holds);
}

TEST(Compare, NeedsARelation) {
  EXPECT_EQ(compare("1 + 1", toy_names).error().message,
            "'1 + 1', character 6: expected <, <=, > or >=");
}

}  // namespace
}  // namespace gpemu::experiment
