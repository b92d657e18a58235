// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/streams/context.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

namespace {

/// Yields up to *count entries and their number; without `out`, the total number.
template <typename Entry>
void yield_entries(const std::vector<Entry>& entries, Entry* out, std::size_t* count) {
  if (out == nullptr) {
    *count = entries.size();
    return;
  }
  const std::size_t obtained = std::min(*count, entries.size());
  std::copy_n(entries.begin(), obtained, out);
  std::fill(out + obtained, out + *count, Entry{});
  *count = obtained;
}

}  // namespace

gpemu_cuda_status gpemu_cuda_graph_create(gpemu_cuda_graph_handle* graph) try {
  if (graph == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_graph* const created = cuda::create_graph();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *graph = created;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_clone(gpemu_cuda_graph_handle graph,
                                         gpemu_cuda_graph_handle* clone) try {
  if (clone == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_graph* const found = cuda::find_graph(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_graph* const copy = cuda::clone_graph(*found);
  if (copy == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *clone = copy;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_destroy(gpemu_cuda_graph_handle graph) try {
  GPEMU_CUDA_TRY(process::attach());
  std::vector<gpemu_cuda_user_object*> released;
  {
    const gpemu::Lock lock(cuda::graph_mutex());
    gpemu_cuda_graph* const found = cuda::find_graph(graph);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    if (found->is_child || found->is_captured_into) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    cuda::destroy_graph(*found, released);
  }
  cuda::destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_add(gpemu_cuda_graph_handle graph,
                                       const gpemu_cuda_node_handle* dependencies, size_t count,
                                       const gpemu_cuda_node_parameters* parameters,
                                       gpemu_cuda_node_handle* node) try {
  if (parameters == nullptr || node == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  const process::TellLater later;
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_graph* const found = cuda::find_graph(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(cuda::check_nodes(*found, dependencies, count));
  cuda::NodeWork work;
  GPEMU_CUDA_TRY(cuda::describe_node(*parameters, *device, &work));
  return cuda::add_node(*found, std::move(work), {dependencies, dependencies + count}, node);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_connect(gpemu_cuda_graph_handle graph,
                                           const gpemu_cuda_node_handle* from,
                                           const gpemu_cuda_node_handle* to, size_t count,
                                           int32_t connect) try {
  if ((from == nullptr || to == nullptr) && count > 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_graph* const found = cuda::find_graph(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::connect_nodes(*found, from, to, count, connect != 0);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_nodes(gpemu_cuda_graph_handle graph, gpemu_cuda_node_handle* out,
                                         size_t* count) try {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_graph* const found = cuda::find_graph(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  yield_entries(found->nodes, out, count);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_graph_edges(gpemu_cuda_graph_handle graph,
                                         gpemu_cuda_node_handle* from, gpemu_cuda_node_handle* to,
                                         size_t* count) try {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_graph* const found = cuda::find_graph(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  std::vector<gpemu_cuda_node*> starts, ends;
  for (gpemu_cuda_node* const node : found->nodes) {
    for (gpemu_cuda_node* const dependency : node->dependencies) {
      starts.push_back(dependency);
      ends.push_back(node);
    }
  }
  size_t pairs = *count;
  yield_entries(starts, from, &pairs);
  yield_entries(ends, to, count);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_node_dependencies(gpemu_cuda_node_handle node,
                                               gpemu_cuda_node_handle* out, size_t* count) try {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_node* const found = cuda::find_node(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  yield_entries(found->dependencies, out, count);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_node_dependents(gpemu_cuda_node_handle node,
                                             gpemu_cuda_node_handle* out, size_t* count) try {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_node* const found = cuda::find_node(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  yield_entries(cuda::dependents_of(*found), out, count);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_node_get(gpemu_cuda_node_handle node,
                                      gpemu_cuda_node_parameters* parameters) try {
  if (parameters == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu::Lock lock(cuda::graph_mutex());
  const gpemu_cuda_node* const found = cuda::find_node(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  *parameters = found->work.parameters;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_node_set(gpemu_cuda_node_handle node,
                                      const gpemu_cuda_node_parameters* parameters) try {
  if (parameters == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const process::TellLater later;
  const gpemu::Lock lock(cuda::graph_mutex());
  gpemu_cuda_node* const found = cuda::find_node(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (parameters->kind != found->work.parameters.kind ||
      parameters->kind == GPEMU_CUDA_NODE_GRAPH) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  cuda::NodeWork work;
  GPEMU_CUDA_TRY(cuda::describe_node(*parameters, *found->work.device, &work));
  found->work = std::move(work);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_node_destroy(gpemu_cuda_node_handle node) try {
  GPEMU_CUDA_TRY(process::attach());
  std::vector<gpemu_cuda_user_object*> released;
  {
    const gpemu::Lock lock(cuda::graph_mutex());
    gpemu_cuda_node* const found = cuda::find_node(node);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    if (found->graph->is_child || found->graph->is_captured_into) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
    cuda::destroy_node(*found, released);
  }
  cuda::destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
