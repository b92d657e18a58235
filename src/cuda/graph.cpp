// SPDX-License-Identifier: Apache-2.0
//
// Graphs as programs build them: nodes, what they depend on, and the objects that graphs keep.
#include "graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "handle_table.hpp"
#include "stream.hpp"

struct gpemu_cuda_user_object {
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
  std::uint64_t references = 0;  ///< of the program.
  std::uint64_t held = 0;        ///< by graphs, executable ones too.
};

namespace gpemu::cuda {
namespace {

/// More than any program keeps alive; an untouched slot costs address space only.
constexpr std::size_t kMaxGraphs = 1 << 16;
constexpr std::size_t kMaxNodes = 1 << 22;
constexpr std::size_t kMaxUserObjects = 1 << 16;

HandleTable<gpemu_cuda_graph>& graphs() {
  static auto* const table = new HandleTable<gpemu_cuda_graph>(kMaxGraphs);
  return *table;
}

HandleTable<gpemu_cuda_node>& nodes() {
  static auto* const table = new HandleTable<gpemu_cuda_node>(kMaxNodes);
  return *table;
}

HandleTable<gpemu_cuda_user_object>& user_objects() {
  static auto* const table = new HandleTable<gpemu_cuda_user_object>(kMaxUserObjects);
  return *table;
}

Status describe_set(NodeWork* work) {
  gpemu_cuda_node_parameters& set = work->parameters;
  if (set.set_element_bytes != 1 && set.set_element_bytes != 2 && set.set_element_bytes != 4) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (set.set_element_bytes < 4) set.set_value &= (1U << (8 * set.set_element_bytes)) - 1;
  return GPEMU_CUDA_SUCCESS;
}

Status describe_child(NodeWork* work) {
  const gpemu_cuda_graph* const child = graphs().find(work->parameters.child);
  if (child == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_graph* const copy = clone_graph(*child);
  if (copy == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  copy->is_child = true;
  work->parameters.child = copy;
  return GPEMU_CUDA_SUCCESS;
}

void destroy_node(gpemu_cuda_node& node, std::vector<gpemu_cuda_user_object*>& released) {
  if (node.work.parameters.kind == GPEMU_CUDA_NODE_GRAPH) {
    destroy_graph(*node.work.parameters.child, released);
  }
  nodes().destroy(&node);
}

/// Yields up to *count entries and how many those are; without `out`, how many there are.
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

/// Puts an object that nobody holds any more into `released`. Requires: the lock.
void end_if_unheld(gpemu_cuda_user_object& object, std::vector<gpemu_cuda_user_object*>& released) {
  if (object.references == 0 && object.held == 0) released.push_back(&object);
}

}  // namespace

std::mutex& graph_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Status describe_node(const gpemu_cuda_node_parameters& parameters, DeviceState& device,
                     NodeWork* work) {
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
            unpack_launch(parameters.kernel, parameters.launch, &arguments, &plain.launch));
        return describe_node(plain, device, work);
      }
      const PricedLaunch priced = price_launch(parameters.kernel, parameters.launch, device);
      GPEMU_CUDA_TRY(priced.status);
      work->cost = priced.cost;
      work->operation = priced.operation;
      work->name = work->operation.name;
      KernelWork memory;
      describe_launch(parameters.kernel, parameters.launch, &memory);
      work->memory = std::make_shared<const KernelWork>(std::move(memory));
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
      return find_event(parameters.event) != nullptr ? GPEMU_CUDA_SUCCESS
                                                     : GPEMU_CUDA_ERROR_INVALID_HANDLE;
    case GPEMU_CUDA_NODE_ALLOCATE:
    case GPEMU_CUDA_NODE_FREE:
      break;
  }
  gpemu_cuda_not_supported("cuda", "graph nodes that allocate memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

Status add_node(gpemu_cuda_graph& graph, NodeWork work, std::vector<gpemu_cuda_node*> dependencies,
                gpemu_cuda_node** node) {
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
  for (gpemu_cuda_node* const node : graph.nodes) destroy_node(*node, released);
  release_objects(graph.objects, released);
  graphs().destroy(&graph);
}

Status check_nodes(const gpemu_cuda_graph& graph, const gpemu_cuda_node_handle* handles,
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

Status sort_nodes(const gpemu_cuda_graph& graph, std::vector<gpemu_cuda_node*>* sorted) {
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

void retain_objects(const UserObjects& objects) {
  for (const auto& [object, count] : objects) object->held += count;
}

void release_objects(const UserObjects& objects, std::vector<gpemu_cuda_user_object*>& released) {
  for (const auto& [object, count] : objects) {
    object->held -= count;
    end_if_unheld(*object, released);
  }
}

void destroy_objects(const std::vector<gpemu_cuda_user_object*>& released) {
  for (gpemu_cuda_user_object* const object : released) {
    object->destroy(object->object);
    user_objects().destroy(object);
  }
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::cuda::check_nodes;
using gpemu::cuda::current_device;
using gpemu::cuda::describe_node;
using gpemu::cuda::destroy_objects;
using gpemu::cuda::DeviceState;
using gpemu::cuda::end_if_unheld;
using gpemu::cuda::graph_mutex;
using gpemu::cuda::graphs;
using gpemu::cuda::nodes;
using gpemu::cuda::NodeWork;
using gpemu::cuda::user_objects;
using gpemu::cuda::yield_entries;

gpemu_cuda_status gpemu_cuda_graph_create(gpemu_cuda_graph_handle* graph) {
  if (graph == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_graph* const created = graphs().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *graph = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_clone(gpemu_cuda_graph_handle graph,
                                         gpemu_cuda_graph_handle* clone) {
  if (clone == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  const gpemu_cuda_graph* const found = graphs().find(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  gpemu_cuda_graph* const copy = gpemu::cuda::clone_graph(*found);
  if (copy == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *clone = copy;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_destroy(gpemu_cuda_graph_handle graph) {
  std::vector<gpemu_cuda_user_object*> released;
  {
    const std::lock_guard lock(graph_mutex());
    gpemu_cuda_graph* const found = graphs().find(graph);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
    if (found->is_child || found->is_captured_into) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    gpemu::cuda::destroy_graph(*found, released);
  }
  destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_add(gpemu_cuda_graph_handle graph,
                                       const gpemu_cuda_node_handle* dependencies, size_t count,
                                       const gpemu_cuda_node_parameters* parameters,
                                       gpemu_cuda_node_handle* node) {
  if (parameters == nullptr || node == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  const std::lock_guard lock(graph_mutex());
  gpemu_cuda_graph* const found = graphs().find(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(check_nodes(*found, dependencies, count));
  NodeWork work;
  GPEMU_CUDA_TRY(describe_node(*parameters, *device, &work));
  return gpemu::cuda::add_node(*found, std::move(work), {dependencies, dependencies + count}, node);
}

gpemu_cuda_status gpemu_cuda_graph_connect(gpemu_cuda_graph_handle graph,
                                           const gpemu_cuda_node_handle* from,
                                           const gpemu_cuda_node_handle* to, size_t count,
                                           int32_t connect) {
  if ((from == nullptr || to == nullptr) && count > 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  const gpemu_cuda_graph* const found = graphs().find(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  for (size_t i = 0; i < count; ++i) {
    GPEMU_CUDA_TRY(check_nodes(*found, &from[i], 1));
    GPEMU_CUDA_TRY(check_nodes(*found, &to[i], 1));
    const auto& present = to[i]->dependencies;
    const bool is_there = std::find(present.begin(), present.end(), from[i]) != present.end();
    if (from[i] == to[i] || is_there == (connect != 0)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    std::erase(to[i]->dependencies, from[i]);
    if (connect != 0) to[i]->dependencies.push_back(from[i]);
  }
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_nodes(gpemu_cuda_graph_handle graph, gpemu_cuda_node_handle* out,
                                         size_t* count) {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  const gpemu_cuda_graph* const found = graphs().find(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  yield_entries(found->nodes, out, count);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_edges(gpemu_cuda_graph_handle graph,
                                         gpemu_cuda_node_handle* from, gpemu_cuda_node_handle* to,
                                         size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(graph_mutex());
  const gpemu_cuda_graph* const found = graphs().find(graph);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
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

gpemu_cuda_status gpemu_cuda_node_dependencies(gpemu_cuda_node_handle node,
                                               gpemu_cuda_node_handle* out, size_t* count) {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  const gpemu_cuda_node* const found = nodes().find(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  yield_entries(found->dependencies, out, count);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_node_dependents(gpemu_cuda_node_handle node,
                                             gpemu_cuda_node_handle* out, size_t* count) {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  gpemu_cuda_node* const found = nodes().find(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  std::vector<gpemu_cuda_node*> dependents;
  for (gpemu_cuda_node* const other : found->graph->nodes) {
    const auto& of_other = other->dependencies;
    if (std::find(of_other.begin(), of_other.end(), found) != of_other.end()) {
      dependents.push_back(other);
    }
  }
  yield_entries(dependents, out, count);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_node_get(gpemu_cuda_node_handle node,
                                      gpemu_cuda_node_parameters* parameters) {
  if (parameters == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  const gpemu_cuda_node* const found = nodes().find(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  *parameters = found->work.parameters;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_node_set(gpemu_cuda_node_handle node,
                                      const gpemu_cuda_node_parameters* parameters) {
  if (parameters == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  gpemu_cuda_node* const found = nodes().find(node);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (parameters->kind != found->work.parameters.kind ||
      parameters->kind == GPEMU_CUDA_NODE_GRAPH) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  NodeWork work;
  GPEMU_CUDA_TRY(describe_node(*parameters, *found->work.device, &work));
  found->work = std::move(work);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_node_destroy(gpemu_cuda_node_handle node) {
  std::vector<gpemu_cuda_user_object*> released;
  {
    const std::lock_guard lock(graph_mutex());
    gpemu_cuda_node* const found = nodes().find(node);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
    if (found->graph->is_child || found->graph->is_captured_into) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
    std::erase(found->graph->nodes, found);
    for (gpemu_cuda_node* const other : found->graph->nodes) {
      std::erase(other->dependencies, found);
    }
    gpemu::cuda::destroy_node(*found, released);
  }
  destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_user_object_create(void* object, void (*destroy)(void*),
                                                uint32_t references,
                                                gpemu_cuda_user_object_handle* handle) {
  if (destroy == nullptr || references == 0 || handle == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_user_object* const created = user_objects().create(object, destroy, references);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *handle = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_user_object_retain(gpemu_cuda_user_object_handle handle,
                                                uint32_t count) {
  const std::lock_guard lock(graph_mutex());
  gpemu_cuda_user_object* const found = user_objects().find(handle);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  found->references += count;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_user_object_release(gpemu_cuda_user_object_handle handle,
                                                 uint32_t count) {
  std::vector<gpemu_cuda_user_object*> released;
  {
    const std::lock_guard lock(graph_mutex());
    gpemu_cuda_user_object* const found = user_objects().find(handle);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
    if (found->references < count) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    found->references -= count;
    end_if_unheld(*found, released);
  }
  destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_retain_user_object(gpemu_cuda_graph_handle graph,
                                                      gpemu_cuda_user_object_handle handle,
                                                      uint32_t count, int32_t move) {
  const std::lock_guard lock(graph_mutex());
  gpemu_cuda_graph* const found = graphs().find(graph);
  gpemu_cuda_user_object* const object = user_objects().find(handle);
  if (found == nullptr || object == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (count == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (move != 0) {
    if (object->references < count) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    object->references -= count;
  }
  object->held += count;
  found->objects[object] += count;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_graph_release_user_object(gpemu_cuda_graph_handle graph,
                                                       gpemu_cuda_user_object_handle handle,
                                                       uint32_t count) {
  std::vector<gpemu_cuda_user_object*> released;
  {
    const std::lock_guard lock(graph_mutex());
    gpemu_cuda_graph* const found = graphs().find(graph);
    if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
    const auto held = found->objects.find(user_objects().find(handle));
    if (held == found->objects.end() || held->second < count) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    held->first->held -= count;
    held->second -= count;
    end_if_unheld(*held->first, released);
    if (held->second == 0) found->objects.erase(held);
  }
  destroy_objects(released);
  return GPEMU_CUDA_SUCCESS;
}
