// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/program_work.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::record {
namespace {

using nlohmann::json;
using Kind = WorkEvent::Kind;

std::optional<std::int64_t> integer(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::string text(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

/// Returns the index of a name in a list.
std::optional<int> index_of(std::span<const std::string_view> names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<int>(found - names.begin());
}

/// Returns the kind of a copy over a link; nothing for other operations.
std::optional<Kind> copy_kind(std::string_view kind) {
  if (kind == "copy_host_to_device") return Kind::kCopyToDevice;
  if (kind == "copy_device_to_host" || kind == "copy_to_peer") return Kind::kCopyFromDevice;
  return std::nullopt;
}

/// Returns the operation that a line describes; nothing if a name or the shape is not in the
/// format.
std::optional<step::RecordedOperation> described(const json& line) {
  step::RecordedOperation operation;
  const std::string kind = text(line, "op");
  const auto group = index_of(kernels::kOperationClassNames, text(line, "class"));
  const auto known = index_of(kernels::kOperationKindNames, kind);
  if (!group || (!known && !copy_kind(kind))) return std::nullopt;
  operation.operation_class = static_cast<kernels::OperationClass>(*group);
  operation.kind = known ? static_cast<gpemu_operation_kind>(*known) : GPEMU_OPERATION_OTHER;
  if (line.contains("type")) {
    const auto type = index_of(kernels::kDataTypeNames, text(line, "type"));
    const auto compute = index_of(kernels::kDataTypeNames, text(line, "compute_type"));
    if (!type || !compute) return std::nullopt;
    operation.type = static_cast<gpemu_data_type>(*type);
    operation.compute_type = static_cast<gpemu_data_type>(*compute);
  }
  if (text(line, "access") == "strided") operation.access = GPEMU_ACCESS_STRIDED;
  if (text(line, "access") == "converted") operation.access = GPEMU_ACCESS_CONVERTED;
  operation.channels_last = line.contains("channels_last");
  operation.shape[0].constant = integer(line, "bytes").value_or(0);
  const auto shape = line.find("shape");
  if (shape == line.end()) return operation;
  if (!shape->is_array() || shape->size() > operation.shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < shape->size(); ++i) {
    if (!(*shape)[i].is_number_integer()) return std::nullopt;
    operation.shape[i].constant = (*shape)[i].get<std::int64_t>();
  }
  return operation;
}

/// Returns everything that distinguishes an operation from others.
std::string key_of(const json& line, const std::string& name) {
  std::string key = name;
  for (const char* const field :
       {"op", "class", "type", "compute_type", "access", "channels_last", "bytes", "shape"}) {
    const auto found = line.find(field);
    key += '|';
    if (found != line.end()) key += found->dump();
  }
  return key;
}

}  // namespace

struct WorkReader::Line {
  const json& fields;
};

std::unexpected<Error> WorkReader::fault() const {
  return fail(ErrorCode::kCorruptData, "{}:{}: not a line of operations", source_, lines_);
}

Result<void> WorkReader::add_line(std::string_view line) {
  ++lines_;
  const json fields = json::parse(line, nullptr, false);
  if (!fields.is_object()) return fault();
  if (fields.contains("op")) return add_operation({fields});
  if (fields.contains("mark")) return add_mark({fields});
  if (fields.contains("collective")) return add_collective({fields});
  if (fields.contains("ended")) return end_collective({fields});
  for (const char* const other : {"memory", "moved"}) {
    if (fields.contains(other)) return {};
  }
  const auto number = integer(fields, "name");
  if (!number || !fields.contains("text")) return fault();
  texts_[*number] = text(fields, "text");
  return {};
}

Result<void> WorkReader::add_operation(const Line& line) {
  const auto name = integer(line.fields, "name");
  const auto end = integer(line.fields, "end_ns");
  const auto duration = integer(line.fields, "duration_ns");
  if (!name || !texts_.contains(*name) || !end || !duration) return fault();
  const std::string& called = texts_[*name];
  const auto [known, added] =
      known_.emplace(key_of(line.fields, called), static_cast<int>(work_.operations.size()));
  if (added) {
    auto operation = described(line.fields);
    if (!operation) return fault();
    operation->name = called;
    work_.operations.push_back(*std::move(operation));
  }
  work_.events.push_back({.kind = copy_kind(text(line.fields, "op")).value_or(Kind::kOperation),
                          .index = known->second,
                          .stream = integer(line.fields, "stream").value_or(0),
                          .thread = integer(line.fields, "thread").value_or(0),
                          .time = at_ns(*end),
                          .duration = Duration(*duration)});
  return {};
}

Result<void> WorkReader::add_collective(const Line& line) {
  const auto id = integer(line.fields, "collective");
  const auto name = integer(line.fields, "name");
  const auto stream = integer(line.fields, "stream");
  const auto bytes = integer(line.fields, "bytes");
  const auto ranks = integer(line.fields, "ranks");
  const auto asked = integer(line.fields, "asked_ns");
  if (!id || !name || !texts_.contains(*name) || !stream || !bytes || !ranks || !asked) {
    return fault();
  }
  const CollectiveWork work{.function = texts_[*name],
                            .bytes = static_cast<Bytes>(*bytes),
                            .ranks = static_cast<int>(*ranks)};
  auto known = std::ranges::find(work_.collectives, work);
  if (known == work_.collectives.end()) known = work_.collectives.insert(known, work);
  open_[*id] = work_.events.size();
  work_.events.push_back({.kind = Kind::kCollective,
                          .index = static_cast<int>(known - work_.collectives.begin()),
                          .stream = *stream,
                          .thread = integer(line.fields, "thread").value_or(0),
                          .time = at_ns(*asked)});
  return {};
}

Result<void> WorkReader::end_collective(const Line& line) {
  const auto id = integer(line.fields, "ended");
  const auto start = integer(line.fields, "start_ns");
  const auto end = integer(line.fields, "end_ns");
  if (!id || !start || !end) return fault();
  const auto found = open_.find(*id);
  if (found == open_.end()) return fault();
  WorkEvent& event = work_.events[found->second];
  event.time = at_ns(*end);
  event.duration = Duration(*end - *start);
  open_.erase(found);
  return {};
}

Result<void> WorkReader::add_mark(const Line& line) {
  const std::string mark = text(line.fields, "mark");
  const auto time = integer(line.fields, "time_ns");
  const auto thread = integer(line.fields, "thread");
  if (!time || !thread) return fault();
  WorkEvent event{.thread = *thread, .time = at_ns(*time)};
  if (mark == "event_record" || mark == "event_wait") {
    const auto number = integer(line.fields, "event");
    const auto stream = integer(line.fields, "stream");
    if (!number || !stream) return fault();
    event.kind = mark == "event_record" ? Kind::kEventRecord : Kind::kEventWait;
    event.index = events_.emplace(*number, static_cast<int>(events_.size())).first->second;
    event.stream = *stream;
  } else if (mark == "wait") {
    event.kind = Kind::kWait;
  } else if (mark == "profiler_start") {
    event.kind = Kind::kProfilerStarts;
  } else if (mark == "pop") {
    depth_[*thread] = std::max(0, depth_[*thread] - 1);
    return {};
  } else if (mark == "start" || (mark == "push" && depth_[*thread]++ == 0)) {
    const std::string name = text(line.fields, "text");
    const auto [known, added] = ranges_.emplace(name, static_cast<int>(work_.names.size()));
    if (added) work_.names.push_back(name);
    event.kind = Kind::kRange;
    event.index = known->second;
  } else {
    return {};
  }
  work_.events.push_back(event);
  return {};
}

}  // namespace gpemu::record
