// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

#include "content.hpp"
#include "device_state.hpp"
#include "recorded_work.hpp"

namespace gpemu::cuda {

/// Has a fork wait for the making of the recorder. Called once, when the library is loaded.
void handle_forks_of_recorder();

/// Counts a device whose context was made. What is counted goes to the folder that GPEMU_RECORD_DIR
/// names, see ProcessRecord; with GPEMU_RECORD_OPERATIONS, each operation and mark does as well.
void record_device(const DeviceState& device);

/// Counts work that was queued. Thread safety: any thread.
void record(const RecordedWork& work);

/// Counts when work of a device runs, once that is final. Requires: one thread at a time.
void record_start(const DeviceState& device, TimePoint start, TimePoint end);

/// Counts time that a thread of the program spent waiting for a device, just now.
void record_wait(Duration time);

/// Counts a large copy whose bytes were moved just now, in `took`. It ended at `end` on the
/// timeline; bytes that come later are late.
void record_move(Bytes bytes, Duration took, TimePoint end);

/// Counts time that a thread of the program waited for bytes, just now, when the copy had ended on
/// the timeline. Nothing unless it is positive.
void record_late_wait(Duration time);

/// Counts pinned memory that could not be locked for want of a limit, and tells it once.
void record_not_locked(Bytes bytes);

/// Counts bytes that the program read though they were not kept, and tells it once.
void record_not_kept(Bytes bytes);

/// Counts bytes that the program read though a kernel or a library had not computed them. Under
/// --strict it ends the program. A program that reads the same few bytes again and again is told
/// once that they do not change.
void record_not_computed(std::uint64_t address, Bytes bytes, WriterId writer);

/// Keeps the most memory that the process has held on a device.
void record_memory(int ordinal, Bytes held);

/// Notes memory that the program took of a device, or gave back: bytes are negative then. `address`
/// is the same for both.
void record_allocation(int ordinal, std::uint64_t address, std::int64_t bytes);

/// Counts a call of what is not supported and tells it once. Under --strict it ends the program.
void record_not_supported(std::string_view library, std::string_view function);

/// Returns how many bytes record_not_computed has counted.
[[nodiscard]] std::int64_t recorded_not_computed_bytes();

/// Notes what the program marks. Requires: attached.
void record_mark(gpemu_cuda_mark_kind kind, std::string_view text);

}  // namespace gpemu::cuda
