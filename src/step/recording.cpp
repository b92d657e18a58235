// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/recording.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/kernels/described_operation.hpp"

#include "recording_fields.hpp"

namespace gpemu::step {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "gpemu-recording-2";

/// Returns a JSON string; bytes that are not UTF-8 are replaced.
std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string numbers(const std::vector<int>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

/// Returns the fields of an operation except its shape.
std::string written_call(const RecordedOperation& operation) {
  std::string line = fmt::format(
      R"({{"op":"{}","name":{},"class":"{}")", kernels::kOperationKindNames[operation.kind],
      quoted(operation.name), kernels::operation_class_name(operation.operation_class));
  if (operation.type != GPEMU_TYPE_UNKNOWN) {
    line +=
        fmt::format(R"(,"type":"{}","compute_type":"{}")", kernels::kDataTypeNames[operation.type],
                    kernels::kDataTypeNames[operation.compute_type]);
  }
  if (operation.channels_last) line += R"(,"channels_last":true)";
  if (operation.access == GPEMU_ACCESS_STRIDED) line += R"(,"access":"strided")";
  if (operation.access == GPEMU_ACCESS_CONVERTED) line += R"(,"access":"converted")";
  return line + "}";
}

std::string written_entry(const AffineEntry& entry) {
  return entry.slope == 0 ? fmt::format("{}", entry.constant)
                          : fmt::format("[{},{}]", entry.constant, entry.slope);
}

std::string written_shape(const RecordedOperation& operation) {
  std::size_t length = operation.shape.size();
  while (length > 0 && operation.shape[length - 1] == AffineEntry{}) --length;
  std::string line = "[";
  for (std::size_t i = 0; i < length; ++i) {
    if (i > 0) line += ',';
    line += written_entry(operation.shape[i]);
  }
  return line + "]";
}

std::string written_tensors(const std::vector<TensorGroup>& groups) {
  std::vector<std::string> written;
  std::ranges::transform(groups, std::back_inserter(written), [](const TensorGroup& group) {
    return fmt::format("[{},{}]", group.count, written_entry(group.bytes));
  });
  return fmt::format("[{}]", fmt::join(written, ","));
}

std::string written_memory(const std::optional<RecordedMemory>& memory) {
  if (!memory) return "";
  std::vector<std::string> fullest;
  std::ranges::transform(memory->fullest, std::back_inserter(fullest), written_tensors);
  return fmt::format(",\n\"memory\":{{\n\"fullest\":[\n{}\n],\n\"after\":{}\n}}",
                     fmt::join(fullest, ",\n"), written_tensors(memory->after));
}

/// Returns the index of a line in a list; adds it if it is new.
std::size_t place_of(const std::string& line, std::vector<std::string>& lines) {
  const auto found = std::ranges::find(lines, line);
  const auto place = static_cast<std::size_t>(found - lines.begin());
  if (found == lines.end()) lines.push_back(line);
  return place;
}

/// Reads one file. Its functions return the first fault.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  [[nodiscard]] Result<Recording> read(std::string_view text) const {
    const json document = json::parse(text, nullptr, false);
    if (document.is_discarded()) return fault("the file", "is not JSON");
    Fields root(source_, "the file", document);
    GPEMU_ASSIGN(const std::string format, root.text("format"));
    if (format != kFormat) {
      return fail(ErrorCode::kIncompatible, "{}: format is \"{}\"; this gpemu reads \"{}\"",
                  source_, format, kFormat);
    }
    Recording recording;
    GPEMU_ASSIGN(recording.model, root.text("model"));
    GPEMU_ASSIGN(recording.gpu, root.text("gpu"));
    GPEMU_ASSIGN(recording.batches, indices(root, "batches", 1 << 20));
    if (std::ssize(recording.batches) < kFewestBatches ||
        !std::ranges::is_sorted(recording.batches, std::less_equal<>())) {
      return fault("batches", "are not three or more, ascending");
    }
    GPEMU_TRY(read_operations(root, recording));
    GPEMU_TRY(read_phases(root, recording));
    GPEMU_TRY(read_memory(root, recording));
    GPEMU_TRY(root.end());
    return recording;
  }

 private:
  [[nodiscard]] std::unexpected<Error> fault(std::string_view where, std::string_view what) const {
    return fail(ErrorCode::kCorruptData, "{}: {} {}", source_, where, what);
  }

  [[nodiscard]] Result<std::vector<RecordedOperation>> read_calls(Fields& root) const {
    GPEMU_ASSIGN(const json* const calls, root.array("calls"));
    std::vector<RecordedOperation> result;
    for (std::size_t i = 0; i < calls->size(); ++i) {
      Fields fields(source_, fmt::format("calls[{}]", i), (*calls)[i]);
      GPEMU_ASSIGN(RecordedOperation call, read_kind(fields));
      GPEMU_ASSIGN(call.name, fields.text("name"));
      GPEMU_TRY(fields.end());
      result.push_back(std::move(call));
    }
    return result;
  }

  using Shape = std::array<AffineEntry, GPEMU_OPERATION_SHAPE_LENGTH>;

  [[nodiscard]] Result<std::vector<Shape>> read_shapes(Fields& root) const {
    GPEMU_ASSIGN(const json* const shapes, root.array("shapes"));
    std::vector<Shape> result;
    for (std::size_t i = 0; i < shapes->size(); ++i) {
      const json& entries = (*shapes)[i];
      Shape& shape = result.emplace_back();
      if (!entries.is_array() || entries.size() > shape.size()) {
        return fault(fmt::format("shapes[{}]", i), "is not a list of at most 20 numbers");
      }
      for (std::size_t j = 0; j < entries.size(); ++j) {
        GPEMU_ASSIGN(shape[j], read_entry(entries[j], fmt::format("shapes[{}][{}]", i, j)));
      }
    }
    return result;
  }

  [[nodiscard]] Result<void> read_operations(Fields& root, Recording& recording) const {
    GPEMU_ASSIGN(const std::vector<RecordedOperation> calls, read_calls(root));
    GPEMU_ASSIGN(const std::vector<Shape> shapes, read_shapes(root));
    GPEMU_ASSIGN(const json* const operations, root.array("operations"));
    for (std::size_t i = 0; i < operations->size(); ++i) {
      const json& pair = (*operations)[i];
      const auto names = [&pair](std::size_t j, std::size_t count) {
        return pair[j].is_number_unsigned() && pair[j] < count;
      };
      if (!pair.is_array() || pair.size() != 2 || !names(0, calls.size()) ||
          !names(1, shapes.size())) {
        return fault(fmt::format("operations[{}]", i), "does not name a call and a shape");
      }
      RecordedOperation operation = calls[pair[0].get<std::size_t>()];
      operation.shape = shapes[pair[1].get<std::size_t>()];
      recording.operations.push_back(std::move(operation));
    }
    return {};
  }

  [[nodiscard]] Result<AffineEntry> read_entry(const json& entry, const std::string& where) const {
    // Large enough for every count, and small enough that no batch overflows.
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const auto number = [&](const json& value) -> Result<std::int64_t> {
      const bool huge =
          value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kMost};
      if (!value.is_number_integer() || huge || value < -kMost) {
        return fault(where, "is not a whole number in the possible range");
      }
      return value.get<std::int64_t>();
    };
    AffineEntry result;
    if (!entry.is_array()) {
      GPEMU_ASSIGN(result.constant, number(entry));
      return result;
    }
    if (entry.size() != 2) return fault(where, "is neither one number nor two");
    GPEMU_ASSIGN(result.constant, number(entry[0]));
    GPEMU_ASSIGN(result.slope, number(entry[1]));
    return result;
  }

  /// Numbers of a list from 0 to below `limit`.
  [[nodiscard]] Result<std::vector<int>> indices(Fields& fields, const char* field,
                                                 std::int64_t limit) const {
    GPEMU_ASSIGN(const json* const list, fields.array(field));
    std::vector<int> result;
    for (const json& value : *list) {
      if (!value.is_number_integer() || value < 0 || value >= limit) {
        return fault(fields.where(field), fmt::format("has a number outside 0 to {}", limit - 1));
      }
      result.push_back(value.get<int>());
    }
    return result;
  }

  [[nodiscard]] Result<void> read_phases(Fields& root, Recording& recording) const {
    GPEMU_ASSIGN(const json* const phases, root.array("phases"));
    for (std::size_t i = 0; i < phases->size(); ++i) {
      Fields fields(source_, fmt::format("phases[{}]", i), (*phases)[i]);
      RecordedPhase phase;
      GPEMU_ASSIGN(phase.name, fields.text("name"));
      GPEMU_ASSIGN(phase.operations,
                   indices(fields, "operations", std::ssize(recording.operations)));
      GPEMU_TRY(fields.end());
      recording.phases.push_back(std::move(phase));
    }
    return {};
  }

  [[nodiscard]] Result<std::vector<TensorGroup>> read_tensors(const json& list,
                                                              const std::string& where) const {
    if (!list.is_array()) return fault(where, "is not a list");
    std::vector<TensorGroup> groups;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const json& pair = list[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned()) {
        return fault(fmt::format("{}[{}]", where, i), "is not a count and a size");
      }
      TensorGroup group;
      GPEMU_ASSIGN(const AffineEntry count, read_entry(pair[0], where));
      GPEMU_ASSIGN(group.bytes, read_entry(pair[1], where));
      group.count = count.constant;
      groups.push_back(group);
    }
    return groups;
  }

  [[nodiscard]] Result<void> read_memory(Fields& root, Recording& recording) const {
    if (!root.has("memory")) return {};
    GPEMU_ASSIGN(const json* const object, root.object("memory"));
    Fields fields(source_, "memory", *object);
    RecordedMemory& memory = recording.memory.emplace();
    GPEMU_ASSIGN(const json* const fullest, fields.array("fullest"));
    for (const json& moment : *fullest) {
      GPEMU_ASSIGN(std::vector<TensorGroup> groups, read_tensors(moment, "memory.fullest"));
      memory.fullest.push_back(std::move(groups));
    }
    GPEMU_ASSIGN(const json* const after, fields.array("after"));
    GPEMU_ASSIGN(memory.after, read_tensors(*after, "memory.after"));
    return fields.end();
  }

  std::string_view source_;
};

}  // namespace

std::string write_recording(const Recording& recording) {
  std::vector<std::string> calls, shapes, operations, phases;
  for (const RecordedOperation& operation : recording.operations) {
    const std::size_t call = place_of(written_call(operation), calls);
    const std::size_t shape = place_of(written_shape(operation), shapes);
    operations.push_back(fmt::format("[{},{}]", call, shape));
  }
  for (const RecordedPhase& phase : recording.phases) {
    phases.push_back(fmt::format(R"({{"name":{},"operations":{}}})", quoted(phase.name),
                                 numbers(phase.operations)));
  }
  return fmt::format(
      "{{\n\"format\":\"{}\",\n\"model\":{},\n\"gpu\":{},\n\"batches\":{},\n"
      "\"calls\":[\n{}\n],\n\"shapes\":[\n{}\n],\n\"operations\":[{}],\n"
      "\"phases\":[\n{}\n]{}\n}}\n",
      kFormat, quoted(recording.model), quoted(recording.gpu), numbers(recording.batches),
      fmt::join(calls, ",\n"), fmt::join(shapes, ",\n"), fmt::join(operations, ","),
      fmt::join(phases, ",\n"), written_memory(recording.memory));
}

Result<Recording> parse_recording(std::string_view text, std::string_view source) {
  return Reader(source).read(text);
}

}  // namespace gpemu::step
