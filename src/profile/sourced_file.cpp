// SPDX-License-Identifier: Apache-2.0
#include "sourced_file.hpp"

namespace gpemu::profile {

Result<toml::table> parse_toml(std::string_view text, std::string_view origin) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", origin, error.source().begin.line,
                error.description());
  }
}

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_expression_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
  constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz_0123456789";
  return !name.empty() && kLetters.contains(name.front()) &&
         name.find_first_not_of(kAll) == std::string_view::npos;
}

Result<std::string> SourcedFile::text(const toml::table& table, std::string_view key,
                                      std::string_view field) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fault(table, field, "missing; expected a string");
  const auto* value = node->as_string();
  if (value == nullptr || value->get().empty()) {
    return fault(*node, field, "expected a non-empty string");
  }
  return value->get();
}

Result<std::string> SourcedFile::name() const {
  GPEMU_ASSIGN(std::string name, text("name"));
  if (is_plain_name(name)) return name;
  return fault(*root_.get("name"), "name",
               "expected at most 64 of the characters A-Z a-z 0-9 . _ -");
}

Result<void> SourcedFile::read_sources() {
  const toml::node* node = root_.get("sources");
  if (node == nullptr || !node->is_table()) {
    return fault(node == nullptr ? root_ : *node, "sources",
                 "expected a table of citations, one for each source that a number names");
  }
  sources_ = node->as_table();
  for (const auto& [key, citation] : *sources_) {
    if (!citation.is_string() || citation.as_string()->get().empty()) {
      return fault(citation, fmt::format("sources.{}", key.str()), "expected a citation");
    }
  }
  return {};
}

Result<std::string> SourcedFile::citation(const toml::table& entry, const std::string& field) {
  const toml::node* node = entry.get("source");
  if (node == nullptr) return fault(entry, field, "no source");
  if (!node->is_string()) return fault(*node, field, "source: expected a key of [sources]");
  const std::string& key = node->as_string()->get();
  const toml::node* citation = sources_->get(key);
  if (citation == nullptr)
    return fault(*node, field, "source '{}' is not in [sources]; add {} = \"...\" there", key, key);
  cited_.insert(key);
  return citation->as_string()->get();
}

Result<void> SourcedFile::cite(const toml::table& entry, const std::string& field) {
  GPEMU_ASSIGN(const std::string found, citation(entry, field));
  note(field, found);
  return {};
}

Result<void> SourcedFile::check_sources() const {
  for (const auto& [key, citation] : *sources_) {
    if (!cited_.contains(std::string(key.str()))) {
      return fault(citation, fmt::format("sources.{}", key.str()), "no number names this source");
    }
  }
  return {};
}

}  // namespace gpemu::profile
