// SPDX-License-Identifier: Apache-2.0
#include "operation_lines.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::process {
namespace {

constexpr std::array<std::string_view, 7> kMarkNames = {
    "push", "pop", "instant", "profiler_start", "profiler_stop", "start", "end"};

template <std::size_t Size>
std::string_view name_in(const std::array<std::string_view, Size>& names, int index) {
  return index >= 0 && static_cast<std::size_t>(index) < Size
             ? names[static_cast<std::size_t>(index)]
             : "unknown";
}

/// Returns whether a text is UTF-8, as JSON requires; surrogates and overlong forms pass.
bool is_utf8(std::string_view text) {
  int following = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (following > 0) {
      if ((byte & 0xC0) != 0x80) return false;
      --following;
    } else if (byte >= 0x80) {
      following = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
      if (byte < 0xC2 || byte > 0xF4) return false;
    }
  }
  return following == 0;
}

/// Returns a text as the inside of a JSON string.
std::string escaped(std::string_view text) {
  const bool plain = is_utf8(text);
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", byte);
    } else if (byte >= 0x80 && !plain) {
      result += '?';
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

/// Copies over a link have no operation; their names show the kind.
std::string kind_of(const RecordedWork& work) {
  if (work.operation != nullptr)
    return std::string(name_in(kernels::kOperationKindNames, work.operation->kind));
  std::string kind = work.name;
  std::ranges::replace(kind, ' ', '_');
  return escaped(kind);
}

std::string shape_json(const gpemu_operation& operation) {
  int length = GPEMU_OPERATION_SHAPE_LENGTH;
  while (length > 0 && operation.shape[length - 1] == 0) --length;
  std::string json;
  for (int i = 0; i < length; ++i) {
    fmt::format_to(std::back_inserter(json), "{}{}", i == 0 ? "" : ",", operation.shape[i]);
  }
  return json;
}

}  // namespace

std::string name_line(int number, std::string_view text) {
  return fmt::format(R"({{"name":{},"text":"{}"}})", number, escaped(text));
}

std::string operation_line(const RecordedWork& work, int name, std::int64_t thread) {
  const std::string id =
      work.queued.number == 0 ? "" : fmt::format(R"(,"id":{})", work.queued.number);
  std::string line = fmt::format(
      R"({{"op":"{}","name":{}{},"device":{},"stream":{},"thread":{},"asked_ns":{},"start_ns":{},)"
      R"("end_ns":{},"duration_ns":{},"class":"{}","evidence":"{}")",
      kind_of(work), name, id, work.device->ordinal, work.stream_id, thread,
      to_ns(work.queued.asked), to_ns(work.queued.expected.start), to_ns(work.queued.expected.end),
      work.queued.busy.count(), kernels::operation_class_name(work.operation_class),
      cost::evidence_name(work.evidence));
  if (work.operation != nullptr) {
    const gpemu_operation& operation = *work.operation;
    const auto compute =
        operation.compute_type == GPEMU_TYPE_UNKNOWN ? operation.type : operation.compute_type;
    if (operation.type != GPEMU_TYPE_UNKNOWN) {
      fmt::format_to(std::back_inserter(line), R"(,"type":"{}","compute_type":"{}")",
                     name_in(kernels::kDataTypeNames, operation.type),
                     name_in(kernels::kDataTypeNames, compute));
    }
    fmt::format_to(std::back_inserter(line), R"(,"shape":[{}])", shape_json(operation));
    if (operation.channels_last != 0) line += R"(,"channels_last":true)";
    if (operation.access == GPEMU_ACCESS_STRIDED) line += R"(,"access":"strided")";
    if (operation.access == GPEMU_ACCESS_CONVERTED) line += R"(,"access":"converted")";
  }
  if (work.bytes != 0) {
    fmt::format_to(std::back_inserter(line), R"(,"bytes":{})", work.bytes);
  }
  return line + "}";
}

std::string collective_line(const RecordedCollective& work, std::uint64_t id, int name,
                            std::int64_t thread) {
  std::string line = fmt::format(
      R"({{"collective":{},"name":{},"device":{},"stream":{},"thread":{},"communicator":"{:016x}",)"
      R"("number":{},"rank":{},"ranks":{},"type":"{}","bytes":{},"bus_factor":{},"asked_ns":{})",
      id, name, work.device->ordinal, work.stream_id, thread, work.communicator, work.number,
      work.rank, work.ranks, work.type, work.bytes, work.bus_factor, to_ns(work.asked));
  if (work.peer >= 0) fmt::format_to(std::back_inserter(line), R"(,"peer":{})", work.peer);
  return line + "}";
}

std::string collective_end_line(std::uint64_t id, const device::RoundTimes& times, int waited_for) {
  std::string line = fmt::format(R"({{"ended":{},"arrived_ns":{},"start_ns":{},"end_ns":{})", id,
                                 to_ns(times.arrived), to_ns(times.start), to_ns(times.end));
  if (times.start > times.arrived) {
    fmt::format_to(std::back_inserter(line), R"(,"waited_for":{})", waited_for);
  }
  return line + "}";
}

std::string moved_line(const device::StartedWork& work) {
  return fmt::format(R"({{"moved":{},"start_ns":{},"end_ns":{}}})", work.moved, to_ns(work.start),
                     to_ns(work.end));
}

std::string_view mark_name(gpemu_cuda_mark_kind kind) {
  return name_in(kMarkNames, kind);
}

std::string mark_line(std::string_view kind, std::string_view text, TimePoint time,
                      std::int64_t thread) {
  return fmt::format(R"({{"mark":"{}","time_ns":{},"thread":{},"text":"{}"}})", kind, to_ns(time),
                     thread, escaped(text));
}

std::string event_line(std::string_view kind, std::uint64_t event, std::uint64_t stream,
                       TimePoint time, std::int64_t thread) {
  return fmt::format(R"({{"mark":"{}","time_ns":{},"thread":{},"text":"","event":{},"stream":{}}})",
                     kind, to_ns(time), thread, event, stream);
}

std::string memory_line(std::int64_t bytes, std::uint64_t address, int ordinal) {
  return fmt::format(R"({{"memory":{},"address":{},"device":{}}})", bytes, address, ordinal);
}

}  // namespace gpemu::process
