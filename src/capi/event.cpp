// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

/// Returns a copy of the event and the clock on which it was recorded.
std::pair<device::Event, std::shared_ptr<sim::Clock>> read(const gpemu_event* event) {
  auto* const mutable_event = const_cast<gpemu_event*>(event);
  const gpemu::Lock lock(mutable_event->mutex);
  return {mutable_event->event, mutable_event->clock};
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
    return {};
  });
}

gpemu_status gpemu_stream_wait_event(gpemu_stream* stream, const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_wait_event", stream, event));
    GPEMU_TRY(stream->device.device->check_owner());
    stream->stream->wait(gpemu::read(event).first);
    return {};
  });
}

gpemu_status gpemu_event_query(const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_query", event));
    const auto [recorded, clock] = gpemu::read(event);
    if (!recorded.recorded() || recorded.moment().is_over(clock->now())) return {};
    return std::unexpected(Error{ErrorCode::kNotReady, {}});
  });
}

gpemu_status gpemu_event_synchronize(const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_synchronize", event));
    const auto [recorded, clock] = gpemu::read(event);
    if (recorded.recorded()) recorded.moment().wait(*clock);
    return {};
  });
}

gpemu_status gpemu_event_elapsed(const gpemu_event* start, const gpemu_event* end,
                                 int64_t* elapsed_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_elapsed", start, end, elapsed_ns));
    const auto [first, first_clock] = gpemu::read(start);
    const auto [last, last_clock] = gpemu::read(end);
    const auto& clock = first_clock != nullptr ? first_clock : gpemu::real_clock();
    if (last_clock != nullptr && first_clock != nullptr && first_clock != last_clock) {
      return fail(ErrorCode::kInvalidArgument, "the events were recorded on different clocks");
    }
    GPEMU_ASSIGN(const gpemu::Duration elapsed, gpemu::device::elapsed_time(first, last, *clock));
    *elapsed_ns = elapsed.count();
    return {};
  });
}

gpemu_status gpemu_event_time(const gpemu_event* event, int64_t* time_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_time", event, time_ns));
    const auto [recorded, clock] = gpemu::read(event);
    if (!recorded.recorded()) {
      return fail(ErrorCode::kInvalidArgument, "the event was never recorded");
    }
    if (!recorded.moment().is_over(clock->now())) {
      return fail(ErrorCode::kNotReady, "the event has not happened yet");
    }
    *time_ns = gpemu::to_ns(recorded.moment().time());
    return {};
  });
}
