// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "gpemu/base/units.hpp"
#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

void put_expected(gpemu_expected_interval* destination, const device::QueuedWork& work) {
  if (destination == nullptr) return;
  *destination = {.start_ns = to_ns(work.expected.start), .end_ns = to_ns(work.expected.end)};
}

}  // namespace
}  // namespace gpemu

using gpemu::Error;
using gpemu::ErrorCode;
using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_stream_create(gpemu_device* device, gpemu_stream_kind kind,
                                 gpemu_stream** stream) {
  return guard([&]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_create", device, stream));
    GPEMU_TRY(gpemu::check_enum("gpemu_stream_create: kind", kind,
                                {GPEMU_STREAM_BLOCKING, GPEMU_STREAM_NON_BLOCKING}));
    GPEMU_TRY(device->device->check_owner());
    auto created = device->device->create_stream(kind == GPEMU_STREAM_NON_BLOCKING
                                                     ? gpemu::device::StreamKind::kNonBlocking
                                                     : gpemu::device::StreamKind::kBlocking);
    gpemu::device::Stream* const raw = created.get();
    *stream = new gpemu_stream{.device = *device, .owned = std::move(created), .stream = raw};
    return {};
  });
}

gpemu_status gpemu_stream_default(gpemu_device* device, gpemu_stream** stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_default", device, stream));
    *stream = new gpemu_stream{
        .device = *device, .owned = nullptr, .stream = &device->device->default_stream()};
    return {};
  });
}

void gpemu_stream_destroy(gpemu_stream* stream) {
  delete stream;
}

gpemu_status gpemu_stream_launch(gpemu_stream* stream, int64_t duration_ns,
                                 gpemu_expected_interval* expected) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_launch", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    GPEMU_TRY(gpemu::check_duration(duration_ns, "gpemu_stream_launch"));
    gpemu::put_expected(expected, stream->stream->launch(gpemu::Duration(duration_ns)));
    return {};
  });
}

gpemu_status gpemu_stream_copy(gpemu_stream* stream, gpemu_copy_direction direction, uint64_t bytes,
                               int64_t duration_ns, gpemu_expected_interval* expected) {
  return guard([&]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_copy", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    GPEMU_TRY(gpemu::check_duration(duration_ns, "gpemu_stream_copy"));
    GPEMU_TRY(gpemu::check_enum("gpemu_stream_copy: direction", direction,
                                {GPEMU_COPY_HOST_TO_DEVICE, GPEMU_COPY_DEVICE_TO_HOST}));
    const auto engine = direction == GPEMU_COPY_HOST_TO_DEVICE
                            ? gpemu::device::Engine::kCopyHostToDevice
                            : gpemu::device::Engine::kCopyDeviceToHost;
    gpemu::put_expected(expected,
                        stream->stream->copy(engine, bytes, gpemu::Duration(duration_ns)));
    return {};
  });
}

gpemu_status gpemu_stream_query(const gpemu_stream* stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_query", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    if (stream->stream->idle()) return {};
    return std::unexpected(Error{ErrorCode::kNotReady, {}});
  });
}

gpemu_status gpemu_stream_synchronize(gpemu_stream* stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_synchronize", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    stream->stream->synchronize();
    return {};
  });
}
