// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/recorder.hpp"

namespace process = gpemu::process;

void gpemu_cuda_not_supported(const char* library, const char* function) try {
  process::record_not_supported(library == nullptr ? "?" : library,
                                function == nullptr ? "?" : function);
}
GPEMU_CUDA_CATCH_VOID

uint64_t gpemu_cuda_not_computed_bytes(void) try {
  return static_cast<uint64_t>(process::recorded_not_computed_bytes());
} catch (const std::exception&) {
  return 0;
}

void gpemu_cuda_mark(gpemu_cuda_mark_kind kind, const char* text) try {
  if (process::attach() != GPEMU_CUDA_SUCCESS) return;
  process::record_mark(kind, text == nullptr ? "" : text);
}
GPEMU_CUDA_CATCH_VOID

gpemu_cuda_status gpemu_cuda_log_register(gpemu_cuda_log_callback callback, void* data,
                                          gpemu_cuda_log_handle* log) try {
  if (callback == nullptr || log == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return process::register_log(callback, data, log);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_log_unregister(gpemu_cuda_log_handle log) try {
  return process::unregister_log(log);
}
GPEMU_CUDA_CATCH
