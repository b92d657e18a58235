// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "gpemu/record/program_work.hpp"

namespace gpemu::predict {

[[nodiscard]] constexpr bool is_copy(record::WorkEvent::Kind kind) {
  return kind == record::WorkEvent::Kind::kCopyToDevice ||
         kind == record::WorkEvent::Kind::kCopyFromDevice;
}

/// An operation, copy, collective or wait of a step, or a use of an event, with its price.
struct QueuedEvent {
  record::WorkEvent::Kind kind = record::WorkEvent::Kind::kOperation;
  std::int64_t stream = 0;
  int event = 0;         ///< of kEventRecord and kEventWait.
  TimePoint recorded{};  ///< when it ended in the recording.
  Duration launch{};     ///< of the host.
  Duration time{};       ///< of the device.
};

/// Host and device while a step repeats: the host asks for one operation after the other; each
/// starts once its stream and its engine have finished their earlier work. Collectives have no
/// engine: those in different streams run at the same time.
class StepQueue {
 public:
  /// Keeps a view of `step`. `circle` is how long the step took in the recording.
  StepQueue(std::span<const QueuedEvent> step, Duration circle) : step_(step), circle_(circle) {}

  /// Runs the step once more; returns when all of its work had ended.
  TimePoint run();

  /// Returns for how long copies but no kernels ran in the last step.
  [[nodiscard]] Duration copies_alone() const { return alone(copies_); }
  /// Returns for how long collectives but no kernels ran in the last step.
  [[nodiscard]] Duration collectives_alone() const { return alone(collectives_); }
  /// Returns for how long collectives ran in the last step, each time counted once.
  [[nodiscard]] Duration collectives() const;

 private:
  struct Span {
    TimePoint begin, end;
  };
  /// When work ended in the recording, and when it ends here.
  struct Done {
    TimePoint recorded, here;
  };

  void start(const QueuedEvent& event);
  void wait(TimePoint recorded);
  /// Returns for how long some of the spans but no kernels last.
  [[nodiscard]] Duration alone(std::vector<Span> spans) const;

  std::span<const QueuedEvent> step_;
  Duration circle_;
  TimePoint host_{};
  std::array<TimePoint, 3> engines_{};  ///< by kind of event: kernels, copies there and back.
  std::map<std::int64_t, TimePoint> streams_;
  std::vector<Done> done_, previous_;       ///< of the last step, and the one before.
  std::map<int, TimePoint> events_;         ///< when what they stand for ends.
  std::vector<Span> copies_, collectives_;  ///< of the last step.
  std::vector<Span> kernels_;               ///< of the last two: copies may run ahead.
  std::ptrdiff_t older_kernels_ = 0;        ///< of them, those of the step before the last.
};

}  // namespace gpemu::predict
