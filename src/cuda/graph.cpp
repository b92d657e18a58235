// SPDX-License-Identifier: Apache-2.0
//
// Graphs as programs build them: nodes, their dependencies, and the objects that graphs keep.
#include "graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "gpemu/base/mutex.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/launch/kernel.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/launch/prices.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/event_state.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {
namespace {

/// More than any program keeps alive; an unused slot costs only address space.
constexpr std::size_t kMaxGraphs = 1 << 16;
constexpr std::size_t kMaxNodes = 1 << 22;

process::HandleTable<gpemu_cuda_graph>& graphs() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_graph>> table;
  return table.get(kMaxGraphs);
}

process::HandleTable<gpemu_cuda_node>& nodes() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_node>> table;
  return table.get(kMaxNodes);
}

process::Status describe_set(NodeWork* work) {
  gpemu_cuda_node_parameters& set = work->parameters;
  if (set.set_element_bytes != 1 && set.set_element_bytes != 2 && set.set_element_bytes != 4) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (set.set_element_bytes < 4) set.set_value &= (1U << (8 * set.set_element_bytes)) - 1;
  return GPEMU_CUDA_SUCCESS;
}

process::Status describe_child(NodeWork* work) GPEMU_REQUIRES(graph_mutex()) {
  const gpemu_cuda_graph* const child = graphs().find(work->parameters.child);
  if (child == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_graph* const copy = clone_graph(*child);
  if (copy == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  copy->is_child = true;
  work->parameters.child = copy;
  return GPEMU_CUDA_SUCCESS;
}

/// Ends a node to which no other refers.
void end_node(gpemu_cuda_node& node, std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex()) {
  if (node.work.parameters.kind == GPEMU_CUDA_NODE_GRAPH) {
    destroy_graph(*node.work.parameters.child, released);
  }
  nodes().destroy(&node);
}

}  // namespace

process::Status describe_node(const gpemu_cuda_node_parameters& parameters,
                              process::DeviceState& device, NodeWork* work) {
  *work = {.parameters = parameters,
           .cost = {},
           .operation = {},
           .name = {},
           .device = &device,
           .memory = {}};
  switch (parameters.kind) {
    case GPEMU_CUDA_NODE_KERNEL: {
      if (parameters.launch.packed != nullptr) {
        std::vector<void*> arguments;
        gpemu_cuda_node_parameters plain = parameters;
        GPEMU_CUDA_TRY(
            launch::unpack_launch(parameters.kernel, parameters.launch, &arguments, &plain.launch));
        return describe_node(plain, device, work);
      }
      gpemu_cuda_kernel* kernel = nullptr;
      GPEMU_CUDA_TRY(launch::find_launched(parameters.kernel, parameters.launch, device, &kernel));
      const kernels::DescribedOperation described =
          launch::describe_operation(*kernel, parameters.launch, device);
      work->cost = launch::price_on(device, described);
      launch::set_shape(*kernel, parameters.launch, device, work->cost);
      work->operation = described.operation;
      work->name = work->operation.name;
      kernels::KernelWork memory;
      launch::describe_for_later(kernel->effect, parameters.launch, &memory);
      work->memory = std::make_shared<const kernels::KernelWork>(std::move(memory));
      work->parameters.launch.arguments = nullptr;
      return GPEMU_CUDA_SUCCESS;
    }
    case GPEMU_CUDA_NODE_COPY:
      return parameters.copy.kind < GPEMU_CUDA_COPY_HOST_TO_HOST ||
                     parameters.copy.kind > GPEMU_CUDA_COPY_DEFAULT
                 ? GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION
                 : GPEMU_CUDA_SUCCESS;
    case GPEMU_CUDA_NODE_SET:
      return describe_set(work);
    case GPEMU_CUDA_NODE_HOST:
      return parameters.host_function == nullptr ? GPEMU_CUDA_ERROR_INVALID_VALUE
                                                 : GPEMU_CUDA_SUCCESS;
    case GPEMU_CUDA_NODE_GRAPH:
      return describe_child(work);
    case GPEMU_CUDA_NODE_EMPTY:
      return GPEMU_CUDA_SUCCESS;
    case GPEMU_CUDA_NODE_WAIT_EVENT:
    case GPEMU_CUDA_NODE_RECORD_EVENT:
      return streams::find_event(parameters.event) != nullptr ? GPEMU_CUDA_SUCCESS
                                                              : GPEMU_CUDA_ERROR_INVALID_HANDLE;
    case GPEMU_CUDA_NODE_ALLOCATE:
    case GPEMU_CUDA_NODE_FREE:
      break;
  }
  process::record_not_supported("cuda", "graph nodes that allocate memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

process::Status add_node(gpemu_cuda_graph& graph, NodeWork work,
                         std::vector<gpemu_cuda_node*> dependencies, gpemu_cuda_node** node) {
  gpemu_cuda_node* const created = nodes().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  created->graph = &graph;
  created->dependencies = std::move(dependencies);
  created->work = std::move(work);
  graph.nodes.push_back(created);
  *node = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_graph* find_graph(gpemu_cuda_graph_handle handle) {
  return graphs().find(handle);
}

gpemu_cuda_node* find_node(gpemu_cuda_node_handle handle) {
  return nodes().find(handle);
}

gpemu_cuda_graph* create_graph() {
  return graphs().create();
}

gpemu_cuda_graph* clone_graph(const gpemu_cuda_graph& graph) {
  gpemu_cuda_graph* const clone = graphs().create();
  if (clone == nullptr) return nullptr;
  std::unordered_map<const gpemu_cuda_node*, gpemu_cuda_node*> copies;
  bool complete = true;
  for (const gpemu_cuda_node* const node : graph.nodes) {
    gpemu_cuda_node* copy = nullptr;
    NodeWork work = node->work;
    complete = complete &&
               (work.parameters.kind != GPEMU_CUDA_NODE_GRAPH ||
                describe_child(&work) == GPEMU_CUDA_SUCCESS) &&
               add_node(*clone, std::move(work), {}, &copy) == GPEMU_CUDA_SUCCESS;
    copies[node] = copy;
  }
  if (!complete) {
    std::vector<gpemu_cuda_user_object*> released;
    destroy_graph(*clone, released);
    return nullptr;
  }
  for (const gpemu_cuda_node* const node : graph.nodes) {
    for (const gpemu_cuda_node* const dependency : node->dependencies) {
      copies[node]->dependencies.push_back(copies[dependency]);
    }
  }
  clone->objects = graph.objects;
  retain_objects(clone->objects);
  return clone;
}

void destroy_graph(gpemu_cuda_graph& graph, std::vector<gpemu_cuda_user_object*>& released) {
  for (gpemu_cuda_node* const node : graph.nodes) end_node(*node, released);
  release_objects(graph.objects, released);
  graphs().destroy(&graph);
}

process::Status check_nodes(const gpemu_cuda_graph& graph, const gpemu_cuda_node_handle* handles,
                            std::size_t count) {
  if (handles == nullptr && count > 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  std::unordered_set<const gpemu_cuda_node*> seen;
  for (std::size_t i = 0; i < count; ++i) {
    const gpemu_cuda_node* const node = nodes().find(handles[i]);
    if (node == nullptr || node->graph != &graph || !seen.insert(node).second) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status sort_nodes(const gpemu_cuda_graph& graph, std::vector<gpemu_cuda_node*>* sorted) {
  std::unordered_map<const gpemu_cuda_node*, std::size_t> missing;
  std::unordered_map<const gpemu_cuda_node*, std::vector<gpemu_cuda_node*>> dependents;
  sorted->clear();
  for (gpemu_cuda_node* const node : graph.nodes) {
    missing[node] = node->dependencies.size();
    if (node->dependencies.empty()) sorted->push_back(node);
    for (const gpemu_cuda_node* const dependency : node->dependencies) {
      dependents[dependency].push_back(node);
    }
  }
  for (std::size_t i = 0; i < sorted->size(); ++i) {
    for (gpemu_cuda_node* const dependent : dependents[(*sorted)[i]]) {
      if (--missing[dependent] == 0) sorted->push_back(dependent);
    }
  }
  return sorted->size() == graph.nodes.size() ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

process::Status connect_nodes(const gpemu_cuda_graph& graph, const gpemu_cuda_node_handle* from,
                              const gpemu_cuda_node_handle* to, std::size_t count, bool connect) {
  for (std::size_t i = 0; i < count; ++i) {
    GPEMU_CUDA_TRY(check_nodes(graph, &from[i], 1));
    GPEMU_CUDA_TRY(check_nodes(graph, &to[i], 1));
    const auto& present = to[i]->dependencies;
    const bool is_there = std::find(present.begin(), present.end(), from[i]) != present.end();
    if (from[i] == to[i] || is_there == connect) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::erase(to[i]->dependencies, from[i]);
    if (connect) to[i]->dependencies.push_back(from[i]);
  }
  return GPEMU_CUDA_SUCCESS;
}

std::vector<gpemu_cuda_node*> dependents_of(const gpemu_cuda_node& node) {
  std::vector<gpemu_cuda_node*> dependents;
  for (gpemu_cuda_node* const other : node.graph->nodes) {
    const auto& of_other = other->dependencies;
    if (std::find(of_other.begin(), of_other.end(), &node) != of_other.end()) {
      dependents.push_back(other);
    }
  }
  return dependents;
}

void destroy_node(gpemu_cuda_node& node, std::vector<gpemu_cuda_user_object*>& released) {
  std::erase(node.graph->nodes, &node);
  for (gpemu_cuda_node* const other : node.graph->nodes) std::erase(other->dependencies, &node);
  end_node(node, released);
}

}  // namespace gpemu::cuda
