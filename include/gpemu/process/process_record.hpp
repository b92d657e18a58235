// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::process {

/// How often something happened, and its emulated time.
struct RecordedTotal {
  std::int64_t count = 0;
  std::int64_t time_ns = 0;
};

/// What a process did with one of its devices.
struct RecordedDevice {
  std::int32_t used = 0;   ///< whether the process had a context on it.
  std::int32_t index = 0;  ///< in the node.
  char gpu[64] = {};
  std::uint64_t memory_bytes = 0;
  std::uint64_t peak_memory_bytes = 0;  ///< of what the process allocated.
  std::int64_t operations = 0;
  std::int64_t first_ns = 0;  ///< start of the first operation or collective, once there is one.
  std::int64_t last_ns = 0;   ///< when the last one ends; 0: there is none.
  std::int64_t busy_ns = 0;   ///< kernels or copies of this process ran.
  /// Part of the rest: no work was queued. `computing` and `blocked` say what the thread did that
  /// next asked for work. They are estimates from its CPU time; if that is not known, they sum to
  /// less.
  std::int64_t unasked_ns = 0;
  std::int64_t computing_ns = 0;
  std::int64_t blocked_ns = 0;
  /// Its place in the largest of its NCCL communicators; 0 ranks: it has had no collective.
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int64_t collectives = 0;           ///< sends and receives, too.
  std::int64_t collectives_open = 0;      ///< of these, whose ends are not known.
  std::int64_t collective_bytes = 0;      ///< of the others, in nccl-tests' sizes.
  std::int64_t collective_ns = 0;         ///< at least one was in progress.
  std::int64_t collective_moving_ns = 0;  ///< part of it: at least one moved data.
  std::int64_t collective_hidden_ns = 0;  ///< part of it: a kernel of this process ran.
};

/// NCCL's collectives of one function and number of ranks that have ended.
struct RecordedCollectiveKind {
  char name[24] = {};
  std::int64_t ranks = 0;
  std::int64_t count = 0;
  std::int64_t bytes = 0;       ///< in nccl-tests' sizes.
  std::int64_t bus_bytes = 0;   ///< the same times nccl-tests' factor for the bus bandwidth.
  std::int64_t waiting_ns = 0;  ///< from this rank's arrival until all had arrived.
  std::int64_t moving_ns = 0;   ///< from then on.
};

/// An unsupported function that was called.
struct RecordedCall {
  char library[24] = {};
  char function[104] = {};
  std::int64_t count = 0;
};

/// Reads of results of a kernel or library function that were not computed.
struct RecordedRead {
  char writer[232] = {};  ///< its name, truncated.
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// The counters of a process that uses emulated GPUs. They are in the file `<pid>.record` of the
/// folder GPEMU_RECORD_DIR, which is mapped while the process runs, so they survive any end of the
/// process. Each field is written atomically; `gpemu run` of the same version reads it.
struct ProcessRecord {
  /// "gpemurec", and a number that changes with the layout.
  static constexpr std::uint64_t kMagic = 0x6365727570656700 + 4;
  static constexpr int kMaxClasses = 32;
  static constexpr int kMaxEvidence = 16;
  static constexpr int kMaxDevices = 256;
  static constexpr int kMaxCalls = 256;
  static constexpr int kMaxReads = 64;
  static constexpr int kMaxCollectives = 64;

  std::uint64_t magic = 0;
  std::int64_t process = 0;
  std::int64_t not_kept_bytes = 0;  ///< that the program read although their content was not kept.
  std::int64_t not_computed_bytes = 0;  ///< that the program read, of all writers.
  std::int64_t moved_bytes = 0;         ///< by large copies, in parallel with the program.
  std::int64_t moving_ns = 0;           ///< how long moving them took.
  std::int64_t late_ns = 0;       ///< by how much they ended later than on the timeline, in total.
  std::int64_t late_wait_ns = 0;  ///< for how long threads waited for bytes that were late.
  std::int64_t not_locked_bytes = 0;     ///< of pinned memory, in total over the run.
  std::int64_t wait_ns = 0;              ///< all threads together, for the GPUs.
  std::int64_t lines = 0;                ///< of `<pid>.lines`.
  std::int64_t lines_left_out = 0;       ///< for lack of space.
  std::int64_t calls_left_out = 0;       ///< of functions beyond kMaxCalls.
  RecordedTotal classes[kMaxClasses];    ///< by kernels::OperationClass.
  RecordedTotal evidence[kMaxEvidence];  ///< by cost::Evidence.
  RecordedDevice devices[kMaxDevices];   ///< by the process's own numbers.
  RecordedCall calls[kMaxCalls];         ///< used ones first.
  RecordedRead reads[kMaxReads];         ///< used ones first; more writers are in the sum only.
  /// Used ones first; more kinds are in the devices only.
  RecordedCollectiveKind collectives[kMaxCollectives];
  /// How long collectives waited for the rank that came last, by its GPU's index in the node.
  std::int64_t waited_for_ns[kMaxDevices] = {};
};

}  // namespace gpemu::process
