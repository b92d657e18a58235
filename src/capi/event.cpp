// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <unistd.h>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

struct Recorded {
  device::Event event;
  std::shared_ptr<sim::Clock> clock;  ///< on which it was recorded; null if it was not.
};

/// Returns a copy of the event. Errors: kUnavailable if a parent of this process recorded it.
Result<Recorded> read(const gpemu_event* event) {
  auto* const mutable_event = const_cast<gpemu_event*>(event);
  const gpemu::Lock lock(mutable_event->mutex);
  if (mutable_event->process != 0 && mutable_event->process != ::getpid()) {
    return fail(ErrorCode::kUnavailable, "the event was recorded before this process was forked");
  }
  return Recorded{.event = mutable_event->event, .clock = mutable_event->clock};
}

}  // namespace
}  // namespace gpemu

using gpemu::Error;
using gpemu::ErrorCode;
using gpemu::fail;
using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_event_create(gpemu_event** event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_create", event));
    *event = new gpemu_event();
    return {};
  });
}

void gpemu_event_destroy(gpemu_event* event) {
  delete event;
}

gpemu_status gpemu_event_record(gpemu_event* event, gpemu_stream* stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_record", event, stream));
    GPEMU_TRY(stream->device.device->check_owner());
    const gpemu::Lock lock(event->mutex);
    stream->stream->record(event->event);
    event->clock = stream->device.clock;
    event->process = ::getpid();
    return {};
  });
}

gpemu_status gpemu_stream_wait_event(gpemu_stream* stream, const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_wait_event", stream, event));
    GPEMU_TRY(stream->device.device->check_owner());
    GPEMU_ASSIGN(const auto recorded, gpemu::read(event));
    stream->stream->wait(recorded.event);
    return {};
  });
}

gpemu_status gpemu_event_query(const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_query", event));
    GPEMU_ASSIGN(const auto recorded, gpemu::read(event));
    const auto& [point, clock] = recorded;
    if (!point.recorded() || point.moment().is_over(clock->now())) return {};
    return std::unexpected(Error{ErrorCode::kNotReady, {}});
  });
}

gpemu_status gpemu_event_synchronize(const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_synchronize", event));
    GPEMU_ASSIGN(const auto recorded, gpemu::read(event));
    if (recorded.event.recorded()) recorded.event.moment().wait(*recorded.clock);
    return {};
  });
}

gpemu_status gpemu_event_elapsed(const gpemu_event* start, const gpemu_event* end,
                                 int64_t* elapsed_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_elapsed", start, end, elapsed_ns));
    GPEMU_ASSIGN(const auto first, gpemu::read(start));
    GPEMU_ASSIGN(const auto last, gpemu::read(end));
    const auto& clock = first.clock != nullptr ? first.clock : gpemu::real_clock();
    if (last.clock != nullptr && first.clock != nullptr && first.clock != last.clock) {
      return fail(ErrorCode::kInvalidArgument, "the events were recorded on different clocks");
    }
    GPEMU_ASSIGN(const gpemu::Duration elapsed,
                 gpemu::device::elapsed_time(first.event, last.event, *clock));
    *elapsed_ns = elapsed.count();
    return {};
  });
}

gpemu_status gpemu_event_time(const gpemu_event* event, int64_t* time_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_time", event, time_ns));
    GPEMU_ASSIGN(const auto recorded, gpemu::read(event));
    if (!recorded.event.recorded()) {
      return fail(ErrorCode::kInvalidArgument, "the event was never recorded");
    }
    if (!recorded.event.moment().is_over(recorded.clock->now())) {
      return fail(ErrorCode::kNotReady, "the event has not happened yet");
    }
    *time_ns = gpemu::to_ns(recorded.event.moment().time());
    return {};
  });
}
