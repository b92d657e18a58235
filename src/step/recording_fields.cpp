// SPDX-License-Identifier: Apache-2.0
#include "recording_fields.hpp"

#include <algorithm>
#include <span>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::step {

using nlohmann::json;

Fields::Fields(std::string_view source, std::string where, const json& object)
    : source_(source), where_(std::move(where)), object_(object) {}

std::string Fields::where(std::string_view field) const {
  return fmt::format("{}.{}", where_, field);
}

std::unexpected<Error> Fields::fault(std::string_view field, std::string_view what) const {
  return fail(ErrorCode::kCorruptData, "{}: {} {}", source_, where(field), what);
}

const json* Fields::find(const char* field) {
  asked_.insert(field);
  const auto found = object_.find(field);  // The end, if it is not an object.
  return found == object_.end() ? nullptr : &*found;
}

bool Fields::has(const char* field) const {
  return object_.contains(field);
}

Result<std::string> Fields::text(const char* field) {
  const json* const found = find(field);
  if (found == nullptr || !found->is_string()) return fault(field, "is not a string");
  return found->get<std::string>();
}

Result<std::int64_t> Fields::integer(const char* field, std::int64_t min) {
  const json* const found = find(field);
  if (found == nullptr || !found->is_number_integer() || *found < min) {
    return fault(field, fmt::format("is not a whole number of at least {}", min));
  }
  return found->get<std::int64_t>();
}

Result<const json*> Fields::array(const char* field) {
  const json* const found = find(field);
  if (found == nullptr || !found->is_array()) return fault(field, "is not a list");
  return found;
}

Result<const json*> Fields::object(const char* field) {
  const json* const found = find(field);
  if (found == nullptr || !found->is_object()) return fault(field, "is not an object");
  return found;
}

Result<int> Fields::name_of(const char* field, const std::string_view* names, int count) {
  GPEMU_ASSIGN(const std::string name, text(field));
  const std::span all(names, static_cast<std::size_t>(count));
  const auto found = std::ranges::find(all, name);
  if (found == all.end()) return fault(field, fmt::format("has the unknown value \"{}\"", name));
  return static_cast<int>(found - all.begin());
}

Result<void> Fields::truth(const char* field) {
  const json* const found = find(field);
  if (found == nullptr || *found != true) return fault(field, "is not true");
  return {};
}

Result<void> Fields::end() const {
  for (const auto& entry : object_.items()) {
    if (!asked_.contains(entry.key())) return fault(entry.key(), "is not known");
  }
  return {};
}

Result<RecordedOperation> read_kind(Fields& fields) {
  RecordedOperation operation;
  GPEMU_ASSIGN(const int kind,
               fields.name_of("op", kernels::kOperationKindNames.data(),
                              static_cast<int>(kernels::kOperationKindNames.size())));
  operation.kind = static_cast<gpemu_operation_kind>(kind);
  GPEMU_ASSIGN(const int group,
               fields.name_of("class", kernels::kOperationClassNames.data(),
                              static_cast<int>(kernels::kOperationClassNames.size())));
  operation.operation_class = static_cast<kernels::OperationClass>(group);
  if (fields.has("type")) {
    const int types = static_cast<int>(kernels::kDataTypeNames.size());
    GPEMU_ASSIGN(const int type, fields.name_of("type", kernels::kDataTypeNames.data(), types));
    GPEMU_ASSIGN(const int compute,
                 fields.name_of("compute_type", kernels::kDataTypeNames.data(), types));
    operation.type = static_cast<gpemu_data_type>(type);
    operation.compute_type = static_cast<gpemu_data_type>(compute);
  }
  static constexpr std::array<std::string_view, 2> kAccess = {"strided", "converted"};
  if (fields.has("access")) {
    GPEMU_ASSIGN(const int access, fields.name_of("access", kAccess.data(), kAccess.size()));
    operation.access = access == 0 ? GPEMU_ACCESS_STRIDED : GPEMU_ACCESS_CONVERTED;
  }
  if (fields.has("channels_last")) {
    GPEMU_TRY(fields.truth("channels_last"));
    operation.channels_last = true;
  }
  return operation;
}

}  // namespace gpemu::step
