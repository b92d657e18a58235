// SPDX-License-Identifier: Apache-2.0
// The functions that return a pointer, and what may be asked before NVSHMEM has started.
#include "shim.hpp"

namespace {

void* refuse(const char* function) {
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, function);
  return nullptr;
}

}  // namespace

GPEMU_SHIM_EXPORT int nvshmem_selected_device_transport;
int nvshmem_selected_device_transport = 0;

GPEMU_SHIM_EXPORT void* nvshmem_malloc(size_t) {
  return refuse("nvshmem_malloc");
}
GPEMU_SHIM_EXPORT void* nvshmem_calloc(size_t, size_t) {
  return refuse("nvshmem_calloc");
}
GPEMU_SHIM_EXPORT void* nvshmem_align(size_t, size_t) {
  return refuse("nvshmem_align");
}
GPEMU_SHIM_EXPORT void nvshmem_free(void*) {}
GPEMU_SHIM_EXPORT void* nvshmem_ptr(const void*, int) {
  return refuse("nvshmem_ptr");
}
GPEMU_SHIM_EXPORT void* nvshmemx_mc_ptr(int, const void*) {
  return refuse("nvshmemx_mc_ptr");
}
GPEMU_SHIM_EXPORT void* nvshmemx_buffer_register_symmetric(void*, size_t, int) {
  return refuse("nvshmemx_buffer_register_symmetric");
}

GPEMU_SHIM_EXPORT void nvshmem_info_get_version(int* major, int* minor) {
  // Source: the newest version of the interface that nvshmem_info_get_version documents.
  if (major != nullptr) {
    *major = 1;
  }
  if (minor != nullptr) {
    *minor = 3;
  }
}

/// Returns NVSHMEM_STATUS_NOT_INITIALIZED (0): it never starts.
GPEMU_SHIM_EXPORT int nvshmemx_init_status() {
  return 0;
}
GPEMU_SHIM_EXPORT int nvshmemid_init_status() {
  return 0;
}
