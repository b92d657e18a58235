// SPDX-License-Identifier: Apache-2.0
//
// What of cuda.h is not supported yet: sharing between processes, capture and graphs. Each call
// says so, once.
#include "gpemu/cuda.h"

gpemu_cuda_status gpemu_cuda_ipc_export_memory(uint64_t, gpemu_cuda_ipc*) {
  gpemu_cuda_not_supported("cuda", "ipc_export_memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_open_memory(const gpemu_cuda_ipc*, uint64_t*) {
  gpemu_cuda_not_supported("cuda", "ipc_open_memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_close_memory(uint64_t) {
  gpemu_cuda_not_supported("cuda", "ipc_close_memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_export_event(gpemu_cuda_event_handle, gpemu_cuda_ipc*) {
  gpemu_cuda_not_supported("cuda", "ipc_export_event");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_open_event(const gpemu_cuda_ipc*, gpemu_cuda_event_handle*) {
  gpemu_cuda_not_supported("cuda", "ipc_open_event");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_begin_capture(gpemu_cuda_stream_handle, int32_t,
                                           gpemu_cuda_graph_handle) {
  gpemu_cuda_not_supported("cuda", "begin_capture");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_end_capture(gpemu_cuda_stream_handle, gpemu_cuda_graph_handle*) {
  gpemu_cuda_not_supported("cuda", "end_capture");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_capture_set_dependencies(gpemu_cuda_stream_handle,
                                                      const gpemu_cuda_node_handle*, size_t,
                                                      int32_t) {
  gpemu_cuda_not_supported("cuda", "capture_set_dependencies");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_create(gpemu_cuda_graph_handle*) {
  gpemu_cuda_not_supported("cuda", "graph_create");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_clone(gpemu_cuda_graph_handle, gpemu_cuda_graph_handle*) {
  gpemu_cuda_not_supported("cuda", "graph_clone");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_destroy(gpemu_cuda_graph_handle) {
  gpemu_cuda_not_supported("cuda", "graph_destroy");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_add(gpemu_cuda_graph_handle, const gpemu_cuda_node_handle*,
                                       size_t, const gpemu_cuda_node_parameters*,
                                       gpemu_cuda_node_handle*) {
  gpemu_cuda_not_supported("cuda", "graph_add");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_nodes(gpemu_cuda_graph_handle, gpemu_cuda_node_handle*,
                                         size_t*) {
  gpemu_cuda_not_supported("cuda", "graph_nodes");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_edges(gpemu_cuda_graph_handle, gpemu_cuda_node_handle*,
                                         gpemu_cuda_node_handle*, size_t*) {
  gpemu_cuda_not_supported("cuda", "graph_edges");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_node_dependencies(gpemu_cuda_node_handle, gpemu_cuda_node_handle*,
                                               size_t*) {
  gpemu_cuda_not_supported("cuda", "node_dependencies");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_node_get(gpemu_cuda_node_handle, gpemu_cuda_node_parameters*) {
  gpemu_cuda_not_supported("cuda", "node_get");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_instantiate(gpemu_cuda_graph_handle, gpemu_cuda_exec_handle*) {
  gpemu_cuda_not_supported("cuda", "graph_instantiate");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_exec_update(gpemu_cuda_exec_handle, gpemu_cuda_graph_handle) {
  gpemu_cuda_not_supported("cuda", "exec_update");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_exec_destroy(gpemu_cuda_exec_handle) {
  gpemu_cuda_not_supported("cuda", "exec_destroy");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_launch(gpemu_cuda_exec_handle, gpemu_cuda_stream_handle) {
  gpemu_cuda_not_supported("cuda", "graph_launch");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_user_object_create(void*, void (*)(void*), uint32_t,
                                                gpemu_cuda_user_object_handle*) {
  gpemu_cuda_not_supported("cuda", "user_object_create");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_user_object_retain(gpemu_cuda_user_object_handle, uint32_t) {
  gpemu_cuda_not_supported("cuda", "user_object_retain");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_user_object_release(gpemu_cuda_user_object_handle, uint32_t) {
  gpemu_cuda_not_supported("cuda", "user_object_release");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_graph_retain_user_object(gpemu_cuda_graph_handle,
                                                      gpemu_cuda_user_object_handle, uint32_t,
                                                      int32_t) {
  gpemu_cuda_not_supported("cuda", "graph_retain_user_object");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}
