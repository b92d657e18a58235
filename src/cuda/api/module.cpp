// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include <cstddef>

#include "gpemu/base/file.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"

#include "capture.hpp"

namespace cuda = gpemu::cuda;
namespace launch = gpemu::launch;
namespace process = gpemu::process;

gpemu_cuda_status gpemu_cuda_module_load(const void* image, gpemu_cuda_module_handle* module) try {
  if (image == nullptr || module == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::load_module(static_cast<const std::byte*>(image), launch::kUnknownSize, module);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_module_load_file(const char* path,
                                              gpemu_cuda_module_handle* module) try {
  if (path == nullptr || module == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const auto content = gpemu::read_file(path);
  if (!content) return GPEMU_CUDA_ERROR_FILE_NOT_FOUND;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::load_module(reinterpret_cast<const std::byte*>(content->data()), content->size(),
                           module);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_module_unload(gpemu_cuda_module_handle module) try {
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_module* const found = launch::modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  // Source: github.com/ROCm/rocm-systems/issues/11698, on CUDA, and NVIDIA/warp/issues/401.
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  cuda::unload_module(*found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_module_kernel(gpemu_cuda_module_handle module, const char* name,
                                           gpemu_cuda_kernel_handle* kernel) try {
  if (name == nullptr || kernel == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_module* const found = launch::modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  return cuda::find_kernel(*found, name, kernel);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_module_kernel_count(gpemu_cuda_module_handle module,
                                                 uint32_t* count) try {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu_cuda_module* const found = launch::modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (!found->image) return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  *count = static_cast<uint32_t>(found->image->kernels.size());
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_module_kernels(gpemu_cuda_module_handle module,
                                            gpemu_cuda_kernel_handle* kernels, uint32_t count) try {
  if (kernels == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_module* const found = launch::modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (!found->image) return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  uint32_t filled = 0;
  for (const auto& [name, code] : found->image->kernels) {
    if (filled == count) break;
    GPEMU_CUDA_TRY(cuda::find_kernel(*found, name.c_str(), &kernels[filled++]));
  }
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_module_variable(gpemu_cuda_module_handle module, const char* name,
                                             uint64_t* address, uint64_t* bytes) try {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_module* const found = launch::modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  return cuda::find_variable(*found, name, address, bytes);
}
GPEMU_CUDA_CATCH

void gpemu_cuda_register_variable(const void* host_variable, const char* name, uint64_t bytes,
                                  const void* fat_binary) try {
  if (host_variable == nullptr || name == nullptr || process::forked()) return;
  cuda::register_variable(host_variable, name, bytes, fat_binary);
}
GPEMU_CUDA_CATCH_VOID

void gpemu_cuda_unregister(const void* fat_binary) try {
  if (process::forked()) return;
  cuda::unregister(fat_binary);
}
GPEMU_CUDA_CATCH_VOID

gpemu_cuda_status gpemu_cuda_registered_variable(const void* host_variable, uint64_t* address,
                                                 uint64_t* bytes) try {
  return cuda::registered_variable(host_variable, address, bytes);
}
GPEMU_CUDA_CATCH
