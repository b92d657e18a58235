// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "gpemu/base/error.hpp"

#include "toml_parser.hpp"

namespace gpemu::profile {

/// Errors: kCorruptData as "origin:line: what is wrong".
[[nodiscard]] Result<toml::table> parse_toml(std::string_view text, std::string_view origin);

/// Whether `name` can be a file's name and an option's value without quoting.
[[nodiscard]] bool is_plain_name(std::string_view name);

/// Whether a name can stand in an expression.
[[nodiscard]] bool is_expression_name(std::string_view name);

/// A TOML file whose numbers name their sources, which stand in its table `sources`. All faults are
/// kCorruptData as "origin:line: field: what is wrong". The parsed file outlives it.
class SourcedFile {
 public:
  SourcedFile(const toml::table& root, std::string_view origin) : root_(root), origin_(origin) {}

  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> fault(const toml::node& node, std::string_view field,
                                             fmt::format_string<Args...> format,
                                             Args&&... args) const {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}: {}", origin_, node.source().begin.line, field,
                fmt::format(format, std::forward<Args>(args)...));
  }

  /// Returns a text of the file's top level that must be there.
  [[nodiscard]] Result<std::string> text(std::string_view key) const {
    return text(root_, key, key);
  }
  /// Returns a text of a table that must be there. `field` names it in messages.
  [[nodiscard]] Result<std::string> text(const toml::table& table, std::string_view key,
                                         std::string_view field) const;
  /// Returns the name of what the file describes.
  [[nodiscard]] Result<std::string> name() const;

  /// Reads the table `sources`. Call it before cite().
  [[nodiscard]] Result<void> read_sources();
  /// Returns the citation that `entry` of `field` names.
  [[nodiscard]] Result<std::string> citation(const toml::table& entry, const std::string& field);
  /// Notes that `field` has the source that `entry` names,
  [[nodiscard]] Result<void> cite(const toml::table& entry, const std::string& field);
  /// or that it has a source of another file.
  void note(const std::string& field, const std::string& citation) {
    citations_.emplace(field, citation);
  }
  /// Checks that each source has been cited.
  [[nodiscard]] Result<void> check_sources() const;
  /// Returns the citations by field.
  [[nodiscard]] std::map<std::string, std::string> citations() && { return std::move(citations_); }

 private:
  const toml::table& root_;
  std::string_view origin_;
  const toml::table* sources_ = nullptr;
  std::set<std::string> cited_;
  std::map<std::string, std::string> citations_;
};

}  // namespace gpemu::profile
