// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/step/recorded_operation.hpp"

namespace gpemu::step {

/// The fields of one JSON object; the reader must ask for each of them. Faults are kCorruptData and
/// name the source and the field. Holds views: everything passed to it except `where` must outlive
/// it.
class Fields {
 public:
  Fields(std::string_view source, std::string where, const nlohmann::json& object);

  [[nodiscard]] std::string where(std::string_view field) const;
  [[nodiscard]] bool has(const char* field) const;

  [[nodiscard]] Result<std::string> text(const char* field);
  /// A whole number from `min` on.
  [[nodiscard]] Result<std::int64_t> integer(const char* field, std::int64_t min);
  [[nodiscard]] Result<const nlohmann::json*> array(const char* field);
  [[nodiscard]] Result<const nlohmann::json*> object(const char* field);
  /// A name out of `names`, by its index.
  [[nodiscard]] Result<int> name_of(const char* field, const std::string_view* names, int count);

  /// Errors: the value is not `true`, the only one that is written.
  [[nodiscard]] Result<void> truth(const char* field);

  /// Errors: a field was not asked for.
  [[nodiscard]] Result<void> end() const;

 private:
  [[nodiscard]] std::unexpected<Error> fault(std::string_view field, std::string_view what) const;
  [[nodiscard]] const nlohmann::json* find(const char* field);

  std::string_view source_;
  std::string where_;
  const nlohmann::json& object_;
  std::set<std::string_view> asked_;
};

/// Reads the fields that operations have in both formats: all except name and shape.
[[nodiscard]] Result<RecordedOperation> read_kind(Fields& fields);

}  // namespace gpemu::step
