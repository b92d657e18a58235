// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/recorded_work.hpp"

/// The lines of a run's operations, without their line feeds. docs/reference/operations-format.md
/// describes them. A text that is not UTF-8 has a '?' for each byte beyond ASCII.
namespace gpemu::process {

/// Returns the line that gives `text` the number by which operations name it.
[[nodiscard]] std::string name_line(int number, std::string_view text);

/// Returns the line of an operation that `thread` of the host asked for. `name` is the number of
/// the work's name.
[[nodiscard]] std::string operation_line(const RecordedWork& work, int name, std::int64_t thread);

/// Returns the line of a collective. `id` is its number in the process.
[[nodiscard]] std::string collective_line(const RecordedCollective& work, std::uint64_t id,
                                          int name, std::int64_t thread);

/// Returns the line that gives a collective its times. `waited_for`: the index in the node of the
/// GPU that came last.
[[nodiscard]] std::string collective_end_line(std::uint64_t id, const device::RoundTimes& times,
                                              int waited_for);

/// Returns the line that gives an operation other times than those in its own line.
[[nodiscard]] std::string moved_line(const device::StartedWork& work);

/// Returns how a line calls a mark of the program; "unknown" if it has no name.
[[nodiscard]] std::string_view mark_name(gpemu_cuda_mark_kind kind);

/// Returns the line of a mark, or of a wait for the device (`kind` is "wait").
[[nodiscard]] std::string mark_line(std::string_view kind, std::string_view text, TimePoint time,
                                    std::int64_t thread);

/// Returns the line of an event that was recorded in a stream (`kind` is "event_record"), or for
/// which a stream waits ("event_wait"). `event` is the same number in both.
[[nodiscard]] std::string event_line(std::string_view kind, std::uint64_t event,
                                     std::uint64_t stream, TimePoint time, std::int64_t thread);

/// Returns the line of memory that was allocated, or freed if `bytes` is negative.
[[nodiscard]] std::string memory_line(std::int64_t bytes, std::uint64_t address, int ordinal);

}  // namespace gpemu::process
