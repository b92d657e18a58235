// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/status.hpp"
#include "gpemu/streams/event_state.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Lets other processes of the node map allocated memory. Errors: INVALID_VALUE.
[[nodiscard]] process::Status export_memory(std::uint64_t address, gpemu_cuda_ipc* ipc);

/// Maps another process's memory. Errors: INVALID_HANDLE, INVALID_CONTEXT for memory of this
/// process, INVALID_DEVICE for that of a device that it does not see.
[[nodiscard]] process::Status open_memory(const gpemu_cuda_ipc& ipc, std::uint64_t* address);
[[nodiscard]] process::Status close_memory(std::uint64_t address);

/// The same for events. Errors: INVALID_HANDLE for one that was not made for it, OUT_OF_MEMORY,
/// OPERATING_SYSTEM.
[[nodiscard]] process::Status export_event(gpemu_cuda_event& event, gpemu_cuda_ipc* ipc);
[[nodiscard]] process::Status open_event(const gpemu_cuda_ipc& ipc, gpemu_cuda_event** event);

/// Gives up an event's place among those that processes share, if it has one.
void stop_sharing(gpemu_cuda_event& event);

}  // namespace gpemu::cuda
