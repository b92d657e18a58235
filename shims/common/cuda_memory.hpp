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

/// Errors: INVALID_VALUE unless the range is managed memory and the advice is one of CUDA's.
int check_advice(uint64_t address, size_t bytes, int advice);

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
