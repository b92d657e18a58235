// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/status.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Queues moving a range of managed memory to a place. Errors: those of move_managed,
/// INVALID_DEVICE if the stream's device does not share managed memory, STREAM_CAPTURE_UNSUPPORTED.
[[nodiscard]] process::Status prefetch_managed(std::uint64_t address, Bytes bytes,
                                               std::int32_t place, gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
