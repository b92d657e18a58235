// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_abi.hpp"

// The common code of the driver and the runtime for streams and events. These functions need no
// current context and do not set the last error; their callers do. Statuses are those of
// gpemu/cuda.h.

/// Errors: INVALID_VALUE for a null pointer or flags that CUDA does not have.
int create_stream(Stream* stream, unsigned flags, int priority);
int create_event(Event* event, unsigned flags);
int record_event(Event event, Stream stream, unsigned flags);
int call_on_host(Stream stream, void (*function)(void*), void* data);

/// Calls a function of the program when the stream reaches this point.
///
/// Errors: INVALID_VALUE; STREAM_CAPTURE_UNSUPPORTED while the stream captures.
int add_callback(Stream stream, StreamCallback function, void* data, unsigned flags);

/// Yields the time between two events. Errors: INVALID_VALUE.
int get_elapsed_time(float* milliseconds, Event start, Event end);

/// Yields the priorities that streams can have; each pointer may be null.
int get_priority_range(int* least, int* greatest);
