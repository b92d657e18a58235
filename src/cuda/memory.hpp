// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "machine.hpp"

namespace gpemu::cuda {

/// Queues a copy on a stream that is not capturing and moves the content. Called by the API and by
/// graph launches.
[[nodiscard]] Status run_copy(const gpemu_cuda_copy& copy, gpemu_cuda_stream& stream,
                              bool blocking);

/// Queues setting memory, as gpemu_cuda_set_memory, from the SET fields of a node.
[[nodiscard]] Status run_set(const gpemu_cuda_node_parameters& node, gpemu_cuda_stream& stream);

/// Writes what a kernel writes: `count` elements of `value`, or zeros where that is null. Large
/// values other than zero are not kept and read as zeros. Does nothing unless the whole range lies
/// in memory of a device.
void write_by_kernel(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count);

/// Forgets all memory of a device whose context ends.
void release_memory(DeviceState& device);

struct MemoryStatistics {
  Bytes held = 0;
  Bytes peak = 0;
};

/// Tells what this process's allocations on a device take and took at most.
[[nodiscard]] MemoryStatistics memory_statistics(const DeviceState& device);

}  // namespace gpemu::cuda
