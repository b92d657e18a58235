// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/status.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Queues a copy on a stream that is not capturing and moves the content. Called by the API and by
/// graph launches.
[[nodiscard]] process::Status run_copy(const gpemu_cuda_copy& copy, gpemu_cuda_stream& stream,
                                       bool blocking);

/// Queues the time that pages of managed memory take between the host and the stream's device.
void queue_migration(gpemu_cuda_stream& stream, Bytes bytes, bool to_device);

/// Queues setting memory, like gpemu_cuda_set_memory, with the SET fields of a node.
[[nodiscard]] process::Status run_set(const gpemu_cuda_node_parameters& node,
                                      gpemu_cuda_stream& stream);

/// Writes to and reads from memory that a device can use, at once. Errors: INVALID_VALUE.
[[nodiscard]] process::Status poke(std::uint64_t address, const void* data, Bytes bytes);
[[nodiscard]] process::Status peek(std::uint64_t address, void* data, Bytes bytes);

}  // namespace gpemu::cuda
