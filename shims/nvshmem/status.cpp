// SPDX-License-Identifier: Apache-2.0
// Queries that are allowed before NVSHMEM has started.
#include "abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int nvshmem_selected_device_transport;
int nvshmem_selected_device_transport = 0;

GPEMU_SHIM_EXPORT void nvshmem_info_get_version(int* major, int* minor) {
  if (major != nullptr) {
    *major = kMajorVersion;
  }
  if (minor != nullptr) {
    *minor = kMinorVersion;
  }
}

/// NVSHMEM never starts.
GPEMU_SHIM_EXPORT int nvshmemx_init_status() {
  return kNotInitialized;
}
GPEMU_SHIM_EXPORT int nvshmemid_init_status() {
  return kNotInitialized;
}
