// SPDX-License-Identifier: Apache-2.0
#include "step_queue.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::predict {

using Kind = record::WorkEvent::Kind;

TimePoint StepQueue::run() {
  previous_ = std::exchange(done_, {});
  copies_.clear();
  kernels_.erase(kernels_.begin(), kernels_.begin() + older_kernels_);
  older_kernels_ = std::ssize(kernels_);
  for (const QueuedEvent& event : step_) {
    if (event.kind == Kind::kWait) wait(event.recorded);
    host_ += event.launch;  // Of a wait: to notice its end.
    if (event.kind <= Kind::kCopyFromDevice) start(event);
  }
  return std::max(host_, *std::ranges::max_element(engines_));
}

void StepQueue::start(const QueuedEvent& event) {
  TimePoint& engine = engines_[static_cast<std::size_t>(event.kind)];
  TimePoint& stream = streams_[event.stream];
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

Duration StepQueue::copies_alone() const {
  std::vector<Span> copies = copies_;
  std::ranges::sort(copies, {}, &Span::begin);
  Duration alone{};
  TimePoint at{};
  auto kernel = kernels_.begin();  // In order, one at a time.
  for (const Span& copy : copies) {
    at = std::max(at, copy.begin);
    while (at < copy.end) {
      while (kernel != kernels_.end() && kernel->end <= at) ++kernel;
      if (kernel == kernels_.end() || kernel->begin >= copy.end) {
        alone += copy.end - at;
        at = copy.end;
      } else {
        alone += std::max(kernel->begin - at, Duration::zero());
        at = std::min(kernel->end, copy.end);
      }
    }
  }
  return alone;
}

}  // namespace gpemu::predict
