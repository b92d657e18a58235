// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/process/recorded_work.hpp"
#include "gpemu/process/writers.hpp"

namespace gpemu::process {

/// Makes a fork wait while the recorder is being made. Called once, when the library is loaded.
void handle_forks_of_recorder();

/// Counts a device whose context was made. The counts go to the folder GPEMU_RECORD_DIR, see
/// ProcessRecord; with GPEMU_RECORD_OPERATIONS, each operation and mark goes there too.
void record_device(const DeviceState& device);

/// Counts work that was queued. Thread safety: any thread.
void record(const RecordedWork& work);

/// Counts when work of a device runs, once that is final. Requires: one thread at a time.
void record_start(const DeviceState& device, const device::StartedWork& work);

/// Has the kernels counted that may run during collectives: there may be some from now on.
void expect_collectives();

/// Counts a collective of several ranks that was asked for. Requires: expect_collectives() was
/// called. Returns its number, 0 if nothing is
/// recorded. Thread safety: any thread.
[[nodiscard]] std::uint64_t record_collective(const RecordedCollective& work);

/// Counts when that collective, whose number is not 0, took place, once that is known.
/// `waited_for`: the index in the node of the GPU that came last. Requires: one thread at a time,
/// also for record_start().
void record_collective_end(const RecordedCollective& work, std::uint64_t number,
                           const device::RoundTimes& times, int waited_for);

/// Counts time that a thread of the program spent waiting for a device, just now.
void record_wait(Duration time);

/// Counts a large copy whose bytes were moved just now, in `took`. It ended at `end` on the
/// timeline; bytes that come later are late.
void record_move(Bytes bytes, Duration took, TimePoint end);

/// Counts time that a thread of the program has just waited for bytes after the copy's end on the
/// timeline. Ignores times that are not positive.
void record_late_wait(Duration time);

/// Counts pinned memory that could not be locked because of the user's limit, and reports it once.
void record_not_locked(Bytes bytes);

/// Counts bytes that the program read although they were not kept, and reports it once.
void record_not_kept(Bytes bytes);

/// Counts bytes that the program read although a kernel or a library did not compute them. Under
/// --strict it ends the program. If a program reads the same few bytes again and again, reports
/// once that they do not change.
void record_not_computed(std::uint64_t address, Bytes bytes, WriterId writer);

/// Keeps the maximum of the memory that the process has held on a device.
void record_memory(int ordinal, Bytes held);

/// Records memory that the program allocated on a device, or freed, with negative bytes. `address`
/// is the same for both.
void record_allocation(int ordinal, std::uint64_t address, std::int64_t bytes);

/// Counts an unsupported call and reports it once. Under --strict it ends the program.
void record_not_supported(std::string_view library, std::string_view function);

/// Ends the process with --strict. `where`: a part of the message, such as "at a function".
void end_if_strict(std::string_view where);

/// Returns how many bytes record_not_computed has counted.
[[nodiscard]] std::int64_t recorded_not_computed_bytes();

/// As record_event_use, if the run keeps its operations.
void write_event_use(const gpemu_cuda_event& event, std::uint64_t stream_id, bool waits);

/// Records that an event was recorded in a stream, or that a stream waits for one. Requires:
/// attached.
inline void record_event_use(const gpemu_cuda_event& event, std::uint64_t stream_id, bool waits) {
  if (process().settings->record.operations) write_event_use(event, stream_id, waits);
}

/// Records a mark of the program. Requires: attached.
void record_mark(gpemu_cuda_mark_kind kind, std::string_view text);

}  // namespace gpemu::process
