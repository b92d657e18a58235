// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/step/recorded_operation.hpp"

namespace gpemu::record {

/// One event of a program: work that it asked a GPU for, a mark, or a wait.
struct WorkEvent {
  enum class Kind : std::uint8_t {
    kOperation,
    kCopyToDevice,
    kCopyFromDevice,
    kRange,           ///< an outermost NVTX range of its thread begins.
    kWait,            ///< the host waited for the GPU.
    kProfilerStarts,  ///< cudaProfilerStart.
    kCollective,      ///< of several ranks.
    kEventRecord,     ///< an event was recorded in a stream.
    kEventWait,       ///< a stream waits for an event.
  };
  Kind kind = Kind::kOperation;
  int index = 0;  ///< of the operation or copy, the range's name, the collective or the event.
  std::int64_t stream = 0;
  std::int64_t thread = 0;
  TimePoint time{};     ///< when it ended in the recording.
  Duration duration{};  ///< of operations and copies, in the recording.
};

/// A collective of NCCL, as a rank asks for it.
struct CollectiveWork {
  std::string function;  ///< of NCCL, e.g. "ncclAllReduce".
  Bytes bytes = 0;       ///< as nccl-tests counts them.
  int ranks = 0;

  bool operator==(const CollectiveWork&) const = default;
};

/// What a process did with its GPU, in the order of its requests.
struct ProgramWork {
  /// The distinct ones. Their shapes have no slopes, and their names are mangled. For a copy over
  /// the link to the host, the shape is the number of bytes.
  std::vector<step::RecordedOperation> operations;
  std::vector<std::string> names;           ///< the distinct names of ranges.
  std::vector<CollectiveWork> collectives;  ///< the distinct ones.
  std::vector<WorkEvent> events;
};

/// Reads a process's lines, one by one, in the format of docs/reference/operations-format.md.
class WorkReader {
 public:
  /// `source` names the lines in messages.
  explicit WorkReader(std::string source) : source_(std::move(source)) {}

  /// Errors: kCorruptData for a line that is not in the format.
  [[nodiscard]] Result<void> add_line(std::string_view line);

  [[nodiscard]] const ProgramWork& work() const { return work_; }

 private:
  struct Line;
  [[nodiscard]] std::unexpected<Error> fault() const;
  [[nodiscard]] Result<void> add_operation(const Line& line);
  [[nodiscard]] Result<void> add_mark(const Line& line);
  [[nodiscard]] Result<void> add_collective(const Line& line);
  /// Gives a collective the time of its end.
  [[nodiscard]] Result<void> end_collective(const Line& line);

  std::string source_;
  std::int64_t lines_ = 0;
  std::unordered_map<std::int64_t, std::string> texts_;
  std::unordered_map<std::string, int>
      known_;  ///< operations, by everything that distinguishes them.
  std::unordered_map<std::string, int> ranges_;
  std::map<std::int64_t, int> depth_;             ///< of ranges, by thread.
  std::unordered_map<std::int64_t, int> events_;  ///< of CUDA, by number.
  /// The places of collectives that have not ended, by number.
  std::unordered_map<std::int64_t, std::size_t> open_;
  ProgramWork work_;
};

}  // namespace gpemu::record
