// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/device/moment.hpp"
#include "gpemu/streams/host_calls.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::streams {

/// Calls a function of the program at its emulated time, on a thread of gpemu. Later work of the
/// stream depends on it. Returns false if the system starts no more threads; then it is not called.
[[nodiscard]] bool add_host_function(const device::Moment& time, void (*function)(void*),
                                     void* data, gpemu_cuda_stream& stream);

/// Calls a function of gpemu there, after everything that ends by then is over. Nothing waits for
/// it. Returns false as add_host_function does.
[[nodiscard]] bool call_at(const device::Moment& time, void (*function)(void*), void* data);

void follow_slowly(gpemu_cuda_stream& stream, const HostCalls* others);
void copy_host_calls_slowly(const gpemu_cuda_stream& stream, HostCalls& calls);

/// To be called when a stream gets work: it makes blocking streams and the legacy default stream of
/// a device depend on each other's host functions, and on `others`, if given.
inline void follow(gpemu_cuda_stream& stream, const HostCalls* others = nullptr) {
  if (any_host_calls()) follow_slowly(stream, others);
}

/// Yields the host functions on which a stream's work depends. Without any open call, the output
/// may stay as it is.
inline void copy_host_calls(const gpemu_cuda_stream& stream, HostCalls& calls) {
  if (any_host_calls()) copy_host_calls_slowly(stream, calls);
}

[[nodiscard]] bool have_returned(const HostCalls& calls);
[[nodiscard]] bool have_returned(const gpemu_cuda_stream& stream);

/// Blocks until the host functions of an event, a stream or a device's streams have returned.
/// Returns at once within a host function, which would wait for itself.
void wait_for_host_functions(const HostCalls& calls);
void wait_for_host_functions(const gpemu_cuda_stream& stream);
void wait_for_host_functions(const process::DeviceState& device);

}  // namespace gpemu::streams
