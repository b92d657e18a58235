// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "gpemu/base/error.hpp"

namespace gpemu::predict {

/// A regular expression, in the grammar of ECMAScript, that the names of operations and ranges are
/// searched for. Copies share it.
class NamePattern {
 public:
  /// Errors: kInvalidArgument with what is wrong about the expression.
  [[nodiscard]] static Result<NamePattern> read(const std::string& expression);

  [[nodiscard]] bool is_in(const std::string& name) const;

 private:
  struct Expression;  ///< <regex> takes seconds to compile.
  explicit NamePattern(std::shared_ptr<const Expression> expression);

  std::shared_ptr<const Expression> expression_;
};

}  // namespace gpemu::predict
