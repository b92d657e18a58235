// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::train {

/// What is kept of each step. `observed_end` is when the host saw the end of the step; it differs
/// from `end` by the lateness of the host. If the host was waiting for a later batch, or for its
/// copy, when the step ended, it equals `end`: that is not lateness.
struct StepSample {
  TimePoint end;
  TimePoint observed_end;
  /// The first GPU's idle time while the step's batch was missing, divided as in its TimeBreakdown.
  Duration fetch_wait{};
  Duration prep_wait{};
};

/// The smallest and the largest of some durations.
struct DurationRange {
  Duration least{};
  Duration most{};

  void include(const DurationRange& other);
};

/// Steps that follow each other: a single one, or several of which sums and extremes are kept.
struct StepSpan {
  std::int64_t steps = 1;
  TimePoint end;           ///< of the last of them, as are the next.
  TimePoint observed_end;  ///< as the host saw it.
  Duration fetch_wait{};   ///< the sums over the steps.
  Duration prep_wait{};
  DurationRange observed_step;  ///< from the end of the step before; zero for the first step.
  DurationRange fetch_waits;
  DurationRange prep_waits;

  /// Adds the steps that follow.
  void append(const StepSpan& next);
};

/// Mean, median and 99th percentile of the time between the ends of successive steps.
struct StepStatistics {
  Duration mean{};
  Duration p50{};
  Duration p99{};
};

enum class StepEnd : std::uint8_t { kTimeline, kObserved };

/// Counts durations in classes whose width is a small share of their values, so that any number of
/// them takes the same memory.
class DurationSketch {
 public:
  /// The most by which a percentile differs from the exact one, as a share of it.
  static constexpr double kRelativeError = 1.0 / 2048;

  void add(Duration duration);
  /// Returns the smallest duration that at least `percent` of all do not exceed, to within the
  /// relative error; exactly if all are alike. Requires: there is one.
  [[nodiscard]] Duration percentile(int percent) const;

 private:
  std::vector<std::uint64_t> counts_;  ///< by class, as far as there are any.
  std::uint64_t total_ = 0;
  DurationRange range_;
};

/// The steps of a run. Each one is kept until there are `kMostSpans`; from then on, steps that
/// follow each other share a span, so that the memory does not grow with the length of the run, and
/// percentiles come from a sketch. The first step always has a span of its own.
class StepLog {
 public:
  /// Source: 96 bytes each; a run has about 50 MB of them at most.
  static constexpr std::size_t kMostSpans = (std::size_t{1} << 19) + 1;

  StepLog() = default;
  StepLog(std::initializer_list<StepSample> steps);

  void add(const StepSample& step);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  /// Returns the steps in order.
  [[nodiscard]] std::span<const StepSpan> spans() const { return spans_; }
  /// Returns the most by which a percentile may differ, as a share of it; 0 while each step is
  /// kept.
  [[nodiscard]] double percentile_error() const {
    return steps_of_a_span_ == 1 ? 0 : DurationSketch::kRelativeError;
  }

  /// Returns the statistics of the steps after the first, which is left out because it also fills
  /// the pipeline: the mean is (end of last - end of first) / (n - 1). A run of a single step
  /// counts from `start`, the run's; without steps all are zero.
  [[nodiscard]] StepStatistics statistics(TimePoint start, StepEnd which) const;

 private:
  void merge_pairs();
  void sketch_spans();

  std::int64_t size_ = 0;
  std::vector<StepSpan> spans_;
  std::int64_t steps_of_a_span_ = 1;  ///< but of the first, and of the last until it is full.
  DurationSketch timeline_;           ///< of all steps after the first, once they share spans.
  DurationSketch observed_;
};

}  // namespace gpemu::train
