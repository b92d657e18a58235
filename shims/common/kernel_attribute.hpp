// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_abi.hpp"

/// Yields an attribute of a kernel, numbered as CUfunction_attribute.
int get_kernel_attribute(int* value, int attribute, gpemu_cuda_kernel_handle kernel);

/// Sets an attribute of a kernel that can be set, numbered as CUfunction_attribute and
/// cudaFuncAttribute.
///
/// Errors: INVALID_VALUE for one that cannot be set or a value out of range; NOT_SUPPORTED for
/// clusters on a device that has none.
int set_kernel_attribute(gpemu_cuda_kernel_handle kernel, int attribute, int value);

/// Applies a launch's attributes to the launch.
///
/// Attributes that only advise how a GPU schedules (priorities, programmatic launches, memory
/// domains) are accepted: the cost model has no term for them. Errors: INVALID_VALUE; NOT_SUPPORTED
/// for clusters on a device that has none.
int apply_launch_attributes(gpemu_cuda_launch& launch, const LaunchAttribute* attributes,
                            uint32_t count);

/// Copies into a launch the arguments packed in `extra`, which may be null, as in cuLaunchKernel.
/// Errors: INVALID_VALUE.
int read_packed_arguments(gpemu_cuda_launch& launch, void* const* extra);

/// Yields how many clusters of a launch fit on the current device at once.
int count_active_clusters(int* clusters, gpemu_cuda_kernel_handle kernel,
                          const gpemu_cuda_launch& launch, const LaunchAttribute* attributes,
                          uint32_t count);

/// Yields the blocks of the largest cluster that a kernel may be launched with.
int largest_cluster(int* blocks, gpemu_cuda_kernel_handle kernel);

/// Yields the dynamic shared memory a block may have so that `blocks` of them fit on a
/// multiprocessor.
int available_dynamic_shared(size_t* bytes, gpemu_cuda_kernel_handle kernel, int blocks,
                             int threads_per_block);

/// Yields the launch that fills the device with the most threads: the block size and the grid.
///
/// `shared_of_block` gives the dynamic shared memory of a block size; if it is null, it is
/// `dynamic_shared` for all. A `limit` of 0 means none.
int most_occupying_block(int* grid, int* block, gpemu_cuda_kernel_handle kernel,
                         size_t (*shared_of_block)(int), size_t dynamic_shared, int limit);
