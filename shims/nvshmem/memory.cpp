// SPDX-License-Identifier: Apache-2.0
// The functions that return a pointer.
#include "shim.hpp"

namespace {

void* refuse(const char* function) {
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, function);
  return nullptr;
}

}  // namespace

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
