// SPDX-License-Identifier: Apache-2.0
#include "exec.hpp"

#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/log.hpp"

#include "capture.hpp"
#include "stream.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;

gpemu_cuda_status gpemu_cuda_graph_instantiate(gpemu_cuda_graph_handle graph,
                                               gpemu_cuda_exec_handle* exec) try {
  if (exec == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_graph* const found = cuda::find_graph(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::instantiate(*found, exec);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_exec_update(gpemu_cuda_exec_handle exec,
                                         gpemu_cuda_graph_handle graph) try {
  GPEMU_CUDA_TRY(process::attach());
  std::vector<gpemu_cuda_user_object*> released;
  {
    const gpemu::Lock lock(cuda::graph_mutex());
    gpemu_cuda_exec* const found = cuda::find_exec(exec);
    const gpemu_cuda_graph* const source = cuda::find_graph(graph);
    if (found == nullptr || source == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    GPEMU_CUDA_TRY(cuda::update_exec(*found, *source, released));
  }
  cuda::destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_exec_set(gpemu_cuda_exec_handle exec, gpemu_cuda_node_handle node,
                                      const gpemu_cuda_node_parameters* parameters) try {
  if (parameters == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const process::TellLater later;
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_exec* const found = cuda::find_exec(exec);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::set_exec_node(*found, node, *parameters);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_exec_set_enabled(gpemu_cuda_exec_handle exec,
                                              gpemu_cuda_node_handle node, int32_t enabled) try {
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_exec* const found = cuda::find_exec(exec);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::enable_exec_node(*found, node, enabled != 0);
}
GPEMU_CUDA_CATCH

// Source of the check: github.com/pytorch/pytorch/pull/161037 and microsoft/onnxruntime/pull/32081,
// the latter with an H200.
gpemu_cuda_status gpemu_cuda_exec_destroy(gpemu_cuda_exec_handle exec) try {
  GPEMU_CUDA_TRY(process::attach());
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  std::vector<gpemu_cuda_user_object*> released;
  {
    const gpemu::Lock lock(cuda::graph_mutex());
    gpemu_cuda_exec* const found = cuda::find_exec(exec);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    cuda::destroy_exec(*found, released);
  }
  cuda::destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_upload(gpemu_cuda_exec_handle exec,
                                          gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  GPEMU_CUDA_TRY(cuda::refuse_captured(*found));
  const gpemu::Lock lock(cuda::graph_mutex());
  return cuda::find_exec(exec) == nullptr ? GPEMU_CUDA_ERROR_INVALID_VALUE : GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

// A capture takes no launches of graphs. Source: github.com/microsoft/onnxruntime/pull/32081, with
// an H200, driver 580: error 900.
gpemu_cuda_status gpemu_cuda_graph_launch(gpemu_cuda_exec_handle exec,
                                          gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* found_stream = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found_stream));
  GPEMU_CUDA_TRY(cuda::refuse_captured(*found_stream));
  gpemu_cuda_exec* const found = cuda::pin_exec(exec);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const process::Status status = cuda::launch_exec(*found, *found_stream);
  cuda::unpin_exec(*found);
  return status;
}
GPEMU_CUDA_CATCH
