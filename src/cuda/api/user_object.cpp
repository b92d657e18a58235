// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"

#include "graph.hpp"
#include "user_objects.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;

gpemu_cuda_status gpemu_cuda_user_object_create(void* object, void (*destroy)(void*),
                                                uint32_t references,
                                                gpemu_cuda_user_object_handle* handle) try {
  if (destroy == nullptr || references == 0 || handle == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_user_object* const created = cuda::user_objects().create(object, destroy, references);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *handle = created;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_user_object_retain(gpemu_cuda_user_object_handle handle,
                                                uint32_t count) try {
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_user_object* const found = cuda::user_objects().find(handle);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  found->references += count;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_user_object_release(gpemu_cuda_user_object_handle handle,
                                                 uint32_t count) try {
  GPEMU_CUDA_TRY(process::attach());
  std::vector<gpemu_cuda_user_object*> released;
  {
    const gpemu::Lock lock(cuda::graph_mutex());
    gpemu_cuda_user_object* const found = cuda::user_objects().find(handle);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
    if (found->references < count) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    found->references -= count;
    cuda::end_if_unheld(*found, released);
  }
  cuda::destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_retain_user_object(gpemu_cuda_graph_handle graph,
                                                      gpemu_cuda_user_object_handle handle,
                                                      uint32_t count, int32_t move) try {
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_graph* const found = cuda::find_graph(graph);
  gpemu_cuda_user_object* const object = cuda::user_objects().find(handle);
  if (found == nullptr || object == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (count == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (move != 0) {
    if (object->references < count) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    object->references -= count;
  }
  object->held += count;
  found->objects[object] += count;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_release_user_object(gpemu_cuda_graph_handle graph,
                                                       gpemu_cuda_user_object_handle handle,
                                                       uint32_t count) try {
  GPEMU_CUDA_TRY(process::attach());
  std::vector<gpemu_cuda_user_object*> released;
  {
    const gpemu::Lock lock(cuda::graph_mutex());
    gpemu_cuda_graph* const found = cuda::find_graph(graph);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    const auto held = found->objects.find(cuda::user_objects().find(handle));
    if (held == found->objects.end() || held->second < count) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    held->first->held -= count;
    held->second -= count;
    cuda::end_if_unheld(*held->first, released);
    if (held->second == 0) found->objects.erase(held);
  }
  cuda::destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
