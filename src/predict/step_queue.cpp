// SPDX-License-Identifier: Apache-2.0
#include "step_queue.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::predict {

using Kind = record::WorkEvent::Kind;

TimePoint StepQueue::run() {
  previous_ = std::exchange(done_, {});
  copies_.clear();
  collectives_.clear();
  kernels_.erase(kernels_.begin(), kernels_.begin() + older_kernels_);
  older_kernels_ = std::ssize(kernels_);
  for (const QueuedEvent& event : step_) {
    if (event.kind == Kind::kWait) wait(event.recorded);
    host_ += event.launch;  // Of a wait: to notice its end.
    if (event.kind <= Kind::kCopyFromDevice || event.kind == Kind::kCollective) start(event);
    TimePoint& stream = streams_[event.stream];
    if (event.kind == Kind::kEventRecord) events_[event.event] = std::max(host_, stream);
    if (event.kind == Kind::kEventWait) stream = std::max(stream, events_[event.event]);
  }
  TimePoint end = std::max(host_, *std::ranges::max_element(engines_));
  for (const Span& collective : collectives_) end = std::max(end, collective.end);
  return end;
}

void StepQueue::start(const QueuedEvent& event) {
  TimePoint& stream = streams_[event.stream];
  if (event.kind == Kind::kCollective) {
    const TimePoint begin = std::max(host_, stream);
    stream = begin + event.time;
    collectives_.push_back({begin, stream});
    done_.push_back({event.recorded, stream});
    return;
  }
  TimePoint& engine = engines_[static_cast<std::size_t>(event.kind)];
  const TimePoint begin = std::max({host_, stream, engine});
  stream = engine = begin + event.time;
  (is_copy(event.kind) ? copies_ : kernels_).push_back({begin, engine});
  done_.push_back({event.recorded, engine});
}

/// The host waits for the work that had ended by then in the recording, in this step or the
/// previous one.
void StepQueue::wait(TimePoint recorded) {
  for (const Done& done : done_) {
    if (done.recorded <= recorded) host_ = std::max(host_, done.here);
  }
  for (const Done& done : previous_) {
    if (done.recorded - circle_ <= recorded) host_ = std::max(host_, done.here);
  }
}

Duration StepQueue::collectives() const {
  std::vector<Span> spans = collectives_;
  std::ranges::sort(spans, {}, &Span::begin);
  Duration sum{};
  TimePoint at{};
  for (const Span& span : spans) {
    sum += std::max(span.end - std::max(at, span.begin), Duration::zero());
    at = std::max(at, span.end);
  }
  return sum;
}

Duration StepQueue::alone(std::vector<Span> spans) const {
  std::ranges::sort(spans, {}, &Span::begin);
  Duration alone{};
  TimePoint at{};
  auto kernel = kernels_.begin();  // In order, one at a time.
  for (const Span& span : spans) {
    at = std::max(at, span.begin);
    while (at < span.end) {
      while (kernel != kernels_.end() && kernel->end <= at) ++kernel;
      if (kernel == kernels_.end() || kernel->begin >= span.end) {
        alone += span.end - at;
        at = span.end;
      } else {
        alone += std::max(kernel->begin - at, Duration::zero());
        at = std::min(kernel->end, span.end);
      }
    }
  }
  return alone;
}

}  // namespace gpemu::predict
