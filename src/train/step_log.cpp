// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/step_log.hpp"

#include <algorithm>
#include <bit>

#include "gpemu/base/error.hpp"

namespace gpemu::train {
namespace {

// Durations below 2^(kBits + 1) ns have a class each. Above, the classes between two powers of two
// are 2^kBits, and a class stands for its middle, so the error is at most half of 2^-kBits.
constexpr unsigned kBits = 10;

std::size_t class_of(Duration duration) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
  const auto width = static_cast<unsigned>(std::bit_width(ns));
  if (width <= kBits + 1) return ns;
  const unsigned shift = width - kBits - 1;
  return (static_cast<std::size_t>(shift) << kBits) + (ns >> shift);
}

Duration middle_of(std::size_t index) {
  if (index < (std::size_t{2} << kBits)) return Duration(index);
  const std::size_t shift = (index >> kBits) - 1;
  const std::uint64_t first = (index - (shift << kBits)) << shift;
  return Duration(first + (std::uint64_t{1} << shift) / 2);
}

TimePoint end_of(const StepSpan& span, StepEnd which) {
  return which == StepEnd::kTimeline ? span.end : span.observed_end;
}

}  // namespace

void DurationRange::include(const DurationRange& other) {
  least = std::min(least, other.least);
  most = std::max(most, other.most);
}

void StepSpan::append(const StepSpan& next) {
  steps += next.steps;
  end = next.end;
  observed_end = next.observed_end;
  fetch_wait += next.fetch_wait;
  prep_wait += next.prep_wait;
  observed_step.include(next.observed_step);
  fetch_waits.include(next.fetch_waits);
  prep_waits.include(next.prep_waits);
}

void DurationSketch::add(Duration duration) {
  const std::size_t index = class_of(duration);
  if (index >= counts_.size()) counts_.resize(index + 1);
  ++counts_[index];
  if (total_++ == 0) range_ = {duration, duration};
  range_.include({duration, duration});
}

Duration DurationSketch::percentile(int percent) const {
  GPEMU_CHECK(total_ > 0, "there is a duration");
  const std::uint64_t rank = (total_ * static_cast<unsigned>(percent) + 99) / 100;
  std::uint64_t seen = 0;
  std::size_t index = 0;
  while ((seen += counts_[index]) < rank) ++index;
  return std::clamp(middle_of(index), range_.least, range_.most);
}

StepLog::StepLog(std::initializer_list<StepSample> steps) {
  for (const StepSample& step : steps) add(step);
}

void StepLog::add(const StepSample& step) {
  ++size_;
  StepSpan span{.end = step.end,
                .observed_end = step.observed_end,
                .fetch_wait = step.fetch_wait,
                .prep_wait = step.prep_wait,
                .fetch_waits = {step.fetch_wait, step.fetch_wait},
                .prep_waits = {step.prep_wait, step.prep_wait}};
  if (spans_.empty()) {
    spans_.push_back(span);
    return;
  }
  StepSpan& last = spans_.back();
  const Duration observed = step.observed_end - last.observed_end;
  span.observed_step = {observed, observed};
  if (steps_of_a_span_ > 1) {
    timeline_.add(step.end - last.end);
    observed_.add(observed);
    if (last.steps < steps_of_a_span_) {
      last.append(span);
      return;
    }
  }
  if (spans_.size() < kMostSpans) {
    spans_.push_back(span);
    return;
  }
  if (steps_of_a_span_ == 1) {
    sketch_spans();
    timeline_.add(step.end - last.end);
    observed_.add(observed);
  }
  merge_pairs();
  spans_.push_back(span);
}

void StepLog::sketch_spans() {
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    timeline_.add(spans_[i].end - spans_[i - 1].end);
    observed_.add(spans_[i].observed_end - spans_[i - 1].observed_end);
  }
}

void StepLog::merge_pairs() {
  std::size_t kept = 1;
  for (std::size_t i = 1; i + 1 < spans_.size(); i += 2) {
    spans_[i].append(spans_[i + 1]);
    spans_[kept++] = spans_[i];
  }
  static_assert(kMostSpans % 2 == 1, "every span but the first has one to merge with");
  spans_.resize(kept);
  steps_of_a_span_ *= 2;
}

StepStatistics StepLog::statistics(TimePoint start, StepEnd which) const {
  if (empty()) return {};
  const TimePoint first = end_of(spans_.front(), which);
  if (size_ == 1) return {first - start, first - start, first - start};
  const Duration mean = (end_of(spans_.back(), which) - first) / (size_ - 1);
  if (steps_of_a_span_ > 1) {
    const DurationSketch& sketch = which == StepEnd::kTimeline ? timeline_ : observed_;
    return {mean, sketch.percentile(50), sketch.percentile(99)};
  }
  std::vector<Duration> durations;
  durations.reserve(spans_.size() - 1);
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    durations.push_back(end_of(spans_[i], which) - end_of(spans_[i - 1], which));
  }
  std::ranges::sort(durations);
  // Nearest rank: the smallest value that at least that share of all does not exceed.
  const auto percentile = [&durations](std::size_t percent) {
    return durations[(durations.size() * percent + 99) / 100 - 1];
  };
  return {mean, percentile(50), percentile(99)};
}

}  // namespace gpemu::train
