// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/name_pattern.hpp"

#include <regex>
#include <utility>

namespace gpemu::predict {

struct NamePattern::Expression {
  std::regex regex;
};

NamePattern::NamePattern(std::shared_ptr<const Expression> expression)
    : expression_(std::move(expression)) {}

Result<NamePattern> NamePattern::read(const std::string& expression) {
  try {
    const auto flags = std::regex::ECMAScript | std::regex::optimize;
    return NamePattern(std::make_shared<Expression>(std::regex(expression, flags)));
  } catch (const std::regex_error& error) {  // std::regex reports faults only by exceptions.
    return fail(ErrorCode::kInvalidArgument, "{}", error.what());
  }
}

bool NamePattern::is_in(const std::string& name) const {
  return std::regex_search(name, expression_->regex);
}

}  // namespace gpemu::predict
