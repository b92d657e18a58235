// SPDX-License-Identifier: Apache-2.0
#include "capture.hpp"

#include "gpemu/cuda.h"

#include "stream.hpp"

namespace cuda = gpemu::cuda;

gpemu_cuda_status gpemu_cuda_begin_capture(gpemu_cuda_stream_handle stream, int32_t mode,
                                           gpemu_cuda_graph_handle graph) try {
  if (mode < 0 || mode > cuda::kRelaxedCapture) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve(stream, &found));
  return cuda::begin_capture(*found, mode, graph);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_end_capture(gpemu_cuda_stream_handle stream,
                                         gpemu_cuda_graph_handle* graph) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve(stream, &found));
  if (!cuda::capturing(*found)) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
  if (graph == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::end_capture(*found, graph);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_capture_get_info(gpemu_cuda_stream_handle stream,
                                              gpemu_cuda_capture_info* info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve(stream, &found));
  return cuda::describe_capture(*found, info);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_capture_set_dependencies(gpemu_cuda_stream_handle stream,
                                                      const gpemu_cuda_node_handle* dependencies,
                                                      size_t count, int32_t add) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  return cuda::set_capture_dependencies(*found, dependencies, count, add != 0);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_refuse_capture(gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  return cuda::refuse_captured(*found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_exchange_capture_mode(int32_t* mode) try {
  if (mode == nullptr || *mode < 0 || *mode > cuda::kRelaxedCapture) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  cuda::exchange_capture_mode(mode);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
