// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

namespace gpemu::experiment {
namespace {

/// Deeper than any test; bounds the stack.
constexpr int kMostDepth = 100;

/// Returns ranks from 0; equal values share the mean of theirs.
Value ranks(const Value& values) {
  Value result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    double below = 0, equal = 0;
    for (const double other : values) {
      below += other < values[i] ? 1 : 0;
      equal += other == values[i] ? 1 : 0;
    }
    result[i] = below + (equal - 1) / 2;
  }
  return result;
}

double mean_of(const Value& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double correlation(const Value& first, const Value& second) {
  Value a, b;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (std::isnan(first[i]) || std::isnan(second[i])) continue;
    a.push_back(first[i]);
    b.push_back(second[i]);
  }
  a = ranks(a);
  b = ranks(b);
  const double a_mean = mean_of(a), b_mean = mean_of(b);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - a_mean) * (b[i] - b_mean);
    aa += (a[i] - a_mean) * (a[i] - a_mean);
    bb += (b[i] - b_mean) * (b[i] - b_mean);
  }
  return ab / std::sqrt(aa * bb);
}

double least_of(const Value& values) {
  return *std::ranges::min_element(values);
}
double most_of(const Value& values) {
  return *std::ranges::max_element(values);
}

Value steps_of(const Value& values) {
  Value ratios;
  for (std::size_t i = 1; i < values.size(); ++i) ratios.push_back(values[i] / values[i - 1]);
  return ratios;
}

struct RowFunction {
  std::string_view name;
  double (*compute)(const Value& rows);
};
constexpr std::array<RowFunction, 5> kRowFunctions = {{
    {"min", least_of},
    {"max", most_of},
    {"mean", mean_of},
    {"least_step", [](const Value& v) { return least_of(steps_of(v)); }},
    {"largest_step", [](const Value& v) { return most_of(steps_of(v)); }},
}};

constexpr std::array<std::string_view, 4> kRelations = {"<=", ">=", "<", ">"};

bool related(std::string_view relation, double a, double b) {
  if (relation == "<=") return a <= b;
  if (relation == ">=") return a >= b;
  return relation == "<" ? a < b : a > b;
}

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const Names& names) : text_(text), names_(names) {}

  Result<Value> sum() {
    GPEMU_ASSIGN(Value left, product());
    while (true) {
      const char sign = peek();
      if (sign != '+' && sign != '-') return left;
      ++at_;
      GPEMU_ASSIGN(const Value right, product());
      GPEMU_ASSIGN(left, combined(left, right, sign));
    }
  }

  Result<Comparison> comparison() {
    GPEMU_ASSIGN(Value left, sum());
    Comparison result{.holds = true, .sides = shown(left)};
    bool compared = false;
    while (const std::optional<std::string_view> relation = next_relation()) {
      GPEMU_ASSIGN(Value right, sum());
      for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
        const double a = left[left.size() == 1 ? 0 : i];
        const double b = right[right.size() == 1 ? 0 : i];
        result.holds = result.holds && related(*relation, a, b);
      }
      result.sides += fmt::format(" {} {}", *relation, shown(right));
      left = std::move(right);
      compared = true;
    }
    if (!compared) return wrong("expected <, <=, > or >=");
    return result;
  }

  /// Errors: kInvalidArgument if text is left.
  Result<void> end() {
    if (peek() == '\0' && at_ >= text_.size()) return {};
    return wrong("expected the end");
  }

 private:
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, "'{}', character {}: {}", text_, at_ + 1, what);
  }

  /// Returns the next character that is not a space; 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::optional<std::string_view> next_relation() {
    peek();
    for (const std::string_view relation : kRelations) {
      if (!text_.substr(at_).starts_with(relation)) continue;
      at_ += relation.size();
      return relation;
    }
    return std::nullopt;
  }

  [[nodiscard]] Result<Value> combined(const Value& left, const Value& right, char sign) const {
    if (left.size() != right.size() && left.size() != 1 && right.size() != 1) {
      return wrong("values of different numbers of rows");
    }
    Value result(std::max(left.size(), right.size()));
    for (std::size_t i = 0; i < result.size(); ++i) {
      const double a = left[left.size() == 1 ? 0 : i];
      const double b = right[right.size() == 1 ? 0 : i];
      result[i] = sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b;
    }
    return result;
  }

  Result<Value> product() {
    GPEMU_ASSIGN(Value left, factor());
    while (true) {
      const char sign = peek();
      if (sign != '*' && sign != '/') return left;
      ++at_;
      GPEMU_ASSIGN(const Value right, factor());
      GPEMU_ASSIGN(left, combined(left, right, sign));
    }
  }

  Result<Value> factor() {
    if (++depth_ > kMostDepth) return wrong("too deep");
    Result<Value> result = primary();
    --depth_;
    return result;
  }

  Result<Value> primary() {
    const char first = peek();
    if (first == '-') {
      ++at_;
      GPEMU_ASSIGN(Value value, factor());
      for (double& element : value) element = -element;
      return value;
    }
    if (first == '(') {
      ++at_;
      GPEMU_ASSIGN(Value value, sum());
      GPEMU_TRY(take(')'));
      return value;
    }
    if ((first >= '0' && first <= '9') || first == '.') return number();
    const std::size_t begin = at_;
    constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz_0123456789.";
    at_ = std::min(text_.find_first_not_of(kOfNames, at_), text_.size());
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) return wrong("expected a number, a name or a bracket");
    if (peek() == '(') return call(name);
    return names_(name);
  }

  Result<Value> number() {
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return wrong("expected a number");
    at_ += static_cast<std::size_t>(end - begin);
    return Value{value};
  }

  Result<void> take(char wanted) {
    if (peek() != wanted) return wrong(fmt::format("expected '{}'", wanted));
    ++at_;
    return {};
  }

  Result<Value> call(std::string_view name) {
    GPEMU_TRY(take('('));
    GPEMU_ASSIGN(const Value rows, sum());
    if (name == "correlation") {
      GPEMU_TRY(take(','));
      GPEMU_ASSIGN(const Value others, sum());
      GPEMU_TRY(take(')'));
      if (rows.size() != others.size() || rows.size() < 2) return wrong("expected as many rows");
      return Value{correlation(rows, others)};
    }
    GPEMU_TRY(take(')'));
    const auto function = std::ranges::find(kRowFunctions, name, &RowFunction::name);
    if (function == kRowFunctions.end()) return wrong(fmt::format("no function '{}'", name));
    if (rows.empty() || (name.ends_with("step") && rows.size() < 2)) return wrong("too few rows");
    return Value{function->compute(rows)};
  }

  static std::string shown(const Value& value) {
    const auto [least, most] = std::ranges::minmax(value);
    return value.size() == 1 ? fmt::format("{:.4g}", least)
                             : fmt::format("{:.4g} to {:.4g}", least, most);
  }

  std::string_view text_;
  const Names& names_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Value> compute(std::string_view text, const Names& names) {
  ExpressionParser parser(text, names);
  GPEMU_ASSIGN(Value value, parser.sum());
  GPEMU_TRY(parser.end());
  return value;
}

Result<Comparison> compare(std::string_view text, const Names& names) {
  ExpressionParser parser(text, names);
  GPEMU_ASSIGN(Comparison result, parser.comparison());
  GPEMU_TRY(parser.end());
  return result;
}

}  // namespace gpemu::experiment
