// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Structures and values that the driver and the runtime share.

constexpr int kPinned = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED.
constexpr int kDeviceLocation = 1, kHostLocation = 2;
constexpr unsigned kReadWrite = 3;

/// CUmemLocation, cudaMemLocation.
struct Location {
  int type, id;
};

/// CUmemAccessDesc, cudaMemAccessDesc.
struct Access {
  Location location;
  unsigned flags;
};

/// CUmemPoolProps, cudaMemPoolProps.
struct PoolProperties {
  int type, handle_types;
  Location location;
  void* security;
  size_t max_size;
  char reserved[56];
};
