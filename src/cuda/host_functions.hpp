// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/device/moment.hpp"

#include "host_calls.hpp"
#include "stream_state.hpp"

namespace gpemu::cuda {

/// Has a function of the program called at its emulated time, on a thread of gpemu's. What the
/// stream is given from now on depends on it.
void add_host_function(const device::Moment& time, void (*function)(void*), void* data,
                       gpemu_cuda_stream& stream);

/// Has a function of gpemu's called there, once all is over that ends until then. Nothing waits for
/// it.
void call_at(const device::Moment& time, void (*function)(void*), void* data);

void follow_slowly(gpemu_cuda_stream& stream, const HostCalls* others);
void copy_host_calls_slowly(const gpemu_cuda_stream& stream, HostCalls& calls);

/// Tells that a stream is given work, which makes blocking streams and the legacy default stream of
/// a device depend on each other's host functions; and on others, if there are any.
inline void follow(gpemu_cuda_stream& stream, const HostCalls* others = nullptr) {
  if (any_host_calls()) follow_slowly(stream, others);
}

/// Yields what a stream's work depends on. Without any open call, what is there may stay.
inline void copy_host_calls(const gpemu_cuda_stream& stream, HostCalls& calls) {
  if (any_host_calls()) copy_host_calls_slowly(stream, calls);
}

[[nodiscard]] bool have_returned(const HostCalls& calls);
[[nodiscard]] bool have_returned(const gpemu_cuda_stream& stream);

/// Blocks until the host functions have returned that an event or a stream depends on, or that
/// streams of a device were given. Returns at once within a host function, which would wait for
/// itself.
void wait_for_host_functions(const HostCalls& calls);
void wait_for_host_functions(const gpemu_cuda_stream& stream);
void wait_for_host_functions(const DeviceState& device);

}  // namespace gpemu::cuda
