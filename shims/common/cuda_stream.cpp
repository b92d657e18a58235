// SPDX-License-Identifier: Apache-2.0
#include "cuda_stream.hpp"

#include <memory>

namespace {

struct Callback {
  StreamCallback function;
  Stream stream;
  void* data;
};

}  // namespace

int create_stream(Stream* stream, unsigned flags, int priority) {
  return stream == nullptr || (flags & ~kAllStreamFlags) != 0
             ? kInvalidValue
             : gpemu_cuda_stream_create(flags, priority, stream);
}

int create_event(Event* event, unsigned flags) {
  return event == nullptr || (flags & ~kAllEventFlags) != 0 ? kInvalidValue
                                                            : gpemu_cuda_event_create(flags, event);
}

int record_event(Event event, Stream stream, unsigned flags) {
  return (flags & ~kAllRecordFlags) != 0 ? kInvalidValue
                                         : gpemu_cuda_event_record(event, stream, flags);
}

int call_on_host(Stream stream, void (*function)(void*), void* data) {
  return function == nullptr ? kInvalidValue
                             : gpemu_cuda_launch_host_function(stream, function, data);
}

int add_callback(Stream stream, StreamCallback function, void* data, unsigned flags) {
  if (function == nullptr || flags != 0) {
    return kInvalidValue;
  }
  if (const int status = gpemu_cuda_refuse_capture(stream); status != kSuccess) {
    return status;
  }
  auto callback = std::make_unique<Callback>(Callback{function, stream, data});
  const auto call = [](void* argument) {
    const std::unique_ptr<Callback> owned(static_cast<Callback*>(argument));
    owned->function(owned->stream, kSuccess, owned->data);
  };
  const int status = gpemu_cuda_launch_host_function(stream, call, callback.get());
  if (status == kSuccess) {
    (void)callback.release();
  }
  return status;
}

int get_elapsed_time(float* milliseconds, Event start, Event end) {
  constexpr double kNanosecondsPerMillisecond = 1e6;
  int64_t elapsed = 0;
  const int status =
      milliseconds == nullptr ? kInvalidValue : gpemu_cuda_event_elapsed(start, end, &elapsed);
  if (status == kSuccess) {
    *milliseconds = static_cast<float>(static_cast<double>(elapsed) / kNanosecondsPerMillisecond);
  }
  return status;
}

int get_priority_range(int* least, int* greatest) {
  int32_t low = 0;
  int32_t high = 0;
  const int status = gpemu_cuda_stream_priority_range(&low, &high);
  if (status == kSuccess && least != nullptr) {
    *least = low;
  }
  if (status == kSuccess && greatest != nullptr) {
    *greatest = high;
  }
  return status;
}
