// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_abi.hpp"

// The common code of the driver and the runtime for memory. These functions need no current context
// and do not set the last error; their callers do. Statuses are those of gpemu/cuda.h.

/// Yields the memory of the current device. Errors: INVALID_VALUE.
int get_memory_info(size_t* free_bytes, size_t* total_bytes);

/// Yields the distance between rows that begin aligned, and the bytes of all of them.
///
/// Errors: OUT_OF_MEMORY if no number holds them.
int measure_rows(size_t width, size_t rows, size_t* pitch, size_t* bytes);

/// Advises on managed memory, and prefetches it, by a location instead of a place. Errors: those of
/// gpemu_cuda_advise and gpemu_cuda_prefetch, INVALID_VALUE; NOT_SUPPORTED for NUMA nodes.
int advise(uint64_t address, size_t bytes, int advice, Location location);
int prefetch(uint64_t address, size_t bytes, Location location, unsigned flags, Stream stream);

/// Yields an attribute of managed memory, or several. Errors: INVALID_VALUE.
int get_range_attribute(void* data, size_t data_bytes, int attribute, uint64_t address,
                        size_t bytes);
int get_range_attributes(void** data, size_t* data_bytes, int* attributes, size_t count,
                         uint64_t address, size_t bytes);

/// Attaches managed memory to a stream. On devices where host and device cannot access memory at
/// the same time, this only restricts what the program may touch. Errors: INVALID_VALUE,
/// STREAM_CAPTURE_UNSUPPORTED.
int attach_memory(Stream stream, uint64_t address, unsigned flags);

/// Makes a pool on a device. `function` is the caller, for the log.
///
/// Errors: INVALID_VALUE; NOT_SUPPORTED for memory of the host or for other processes.
int create_pool(Pool* pool, const PoolProperties* properties, const char* function);

/// Yields or sets an attribute of a pool: the first three are int, the others 64 bits wide.
///
/// Errors: INVALID_VALUE.
int get_pool_attribute(Pool pool, int attribute, void* value);
int set_pool_attribute(Pool pool, int attribute, const void* value);

/// Sets which devices may use a pool's memory. Errors: INVALID_VALUE.
int set_pool_access(Pool pool, const Access* accesses, size_t count);

/// Yields whether a device may use a pool's memory: 3 for reading and writing, else 0.
///
/// Errors: INVALID_VALUE.
int get_pool_access(unsigned* flags, Pool pool, const Location* location);
