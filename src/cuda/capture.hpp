// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "machine.hpp"

namespace gpemu::cuda {

/// Errors: STREAM_CAPTURE_IMPLICIT when the stream is a legacy default stream that would have to
/// wait for a stream that captures; that capture is invalidated if asked for.
[[nodiscard]] Status check_legacy_stream(const gpemu_cuda_stream& stream, bool invalidate);

/// Adds an operation that is priced to the graph that a stream captures.
[[nodiscard]] Status capture_operation(gpemu_cuda_stream& stream, const cost::OperationCost& cost,
                                       const gpemu_operation& operation);

/// Errors: STREAM_CAPTURE_UNSUPPORTED, CAPTURED_EVENT when waited for or asked while it is being
/// captured; the capture is then invalidated.
[[nodiscard]] Status refuse_captured(gpemu_cuda_stream& stream);
[[nodiscard]] Status refuse_captured(const gpemu_cuda_event& event);

/// Makes an event stand for what a capturing stream was given, or with the flag for external use
/// adds a node that records it.
[[nodiscard]] Status capture_record(gpemu_cuda_event& event, gpemu_cuda_stream& stream,
                                    std::uint32_t flags);

/// An event that is recorded outside of captures belongs to none.
void forget_capture(gpemu_cuda_event& event);

/// Has a stream wait for an event, where one of both belongs to a capture: the stream joins it.
/// Errors: STREAM_CAPTURE_ISOLATION, _MERGE, _IMPLICIT, _INVALIDATED, CAPTURED_EVENT.
[[nodiscard]] Status capture_wait(gpemu_cuda_stream& stream, gpemu_cuda_event& event,
                                  std::uint32_t flags);

/// Ends or invalidates the capture of a stream that is destroyed.
void leave_capture(gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
