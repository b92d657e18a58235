// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <vector>

#include "cuda_graph.hpp"
#include "cudart.hpp"
#include "kernel_attribute.hpp"

namespace {

using Parameters = NodeDescription;
using NodePointer = const Node*;

int describe_kernel(const KernelParameters* from, Parameters* to) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  to->kind = GPEMU_CUDA_NODE_KERNEL;
  to->launch = {.grid = {from->grid.x, from->grid.y, from->grid.z},
                .block = {from->block.x, from->block.y, from->block.z},
                .dynamic_shared_bytes = from->shared_bytes,
                .cooperative = 0,
                .arguments = from->arguments};
  const int status = read_packed_arguments(to->launch, from->extra);
  return status == kSuccess ? find_kernel(from->function, &to->kernel) : status;
}

int describe_copy_node(const Copy3D* from, Parameters* to) {
  to->kind = GPEMU_CUDA_NODE_COPY;
  return describe_copy(from, &to->copy);
}

int describe_plain_copy(void* destination, const void* source, size_t bytes, int kind,
                        Parameters* to) {
  to->kind = GPEMU_CUDA_NODE_COPY;
  to->copy = {.destination = address_of(destination),
              .source = address_of(source),
              .width_bytes = bytes,
              .height = 1,
              .depth = 1,
              .kind = static_cast<gpemu_cuda_copy_kind>(kind)};
  return is_copy_kind(kind) ? kSuccess
                            : static_cast<int>(GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION);
}

int describe(const NodeParameters* from, Parameters* to) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  switch (from->kind) {
    case GPEMU_CUDA_NODE_KERNEL:
      return describe_kernel(&from->kernel, to);
    case GPEMU_CUDA_NODE_COPY:
      return describe_copy_node(&from->copy.copy, to);
    case GPEMU_CUDA_NODE_SET:
      return describe_set(&from->set, to);
    case GPEMU_CUDA_NODE_HOST:
      return describe_host(&from->host, to);
    case GPEMU_CUDA_NODE_GRAPH:
      return describe_child(from->child, to);
    case GPEMU_CUDA_NODE_EMPTY:
      return describe_empty(to);
    case GPEMU_CUDA_NODE_WAIT_EVENT:
    case GPEMU_CUDA_NODE_RECORD_EVENT:
      return describe_event(static_cast<gpemu_cuda_node_kind>(from->kind), from->event, to);
    default:
      return not_supported("graph nodes for memory, semaphores and conditions");
  }
}

int add(Node* node, Graph graph, NodePointer dependencies, size_t count,
        const Parameters& parameters) {
  return node == nullptr || (dependencies == nullptr && count > 0)
             ? kInvalidValue
             : gpemu_cuda_graph_add(graph, dependencies, count, &parameters, node);
}

/// Adds a node that `fill` describes.
template <typename Fill>
int add_described(Node* node, Graph graph, NodePointer dependencies, size_t count, Fill&& fill) {
  return in_context([&] {
    Parameters parameters{};
    const int status = fill(&parameters);
    return status == kSuccess ? add(node, graph, dependencies, count, parameters) : status;
  });
}

int add_node(Node* node, Graph graph, NodePointer dependencies, const EdgeData* edges, size_t count,
             const NodeParameters* parameters) {
  if (parameters == nullptr) {
    return record(kInvalidValue);
  }
  if (!are_plain(edges, count)) {
    return not_supported("programmatic dependencies of graph nodes");
  }
  return add_described(node, graph, dependencies, count,
                       [=](Parameters* to) { return describe(parameters, to); });
}

/// Yields the nodes of a graph that depend on none: as many as fit, then nulls.
int get_roots(Graph graph, Node* roots, size_t* count) {
  size_t nodes = 0;
  int status = gpemu_cuda_graph_nodes(graph, nullptr, &nodes);
  if (status != kSuccess) {
    return status;
  }
  std::vector<Node> all(nodes), found;
  status = gpemu_cuda_graph_nodes(graph, all.data(), &nodes);
  for (size_t index = 0; status == kSuccess && index < nodes; ++index) {
    size_t dependencies = 0;
    status = gpemu_cuda_node_dependencies(all[index], nullptr, &dependencies);
    if (status == kSuccess && dependencies == 0) {
      found.push_back(all[index]);
    }
  }
  if (status == kSuccess && roots != nullptr) {
    const size_t capacity = *count;
    found.resize(std::min(capacity, found.size()));
    std::fill(std::copy(found.begin(), found.end(), roots), roots + capacity, nullptr);
  }
  if (status == kSuccess) {
    *count = found.size();
  }
  return status;
}

/// Reads back the parameters of a node.
template <typename Read>
int read_node(Node node, const void* out, int kind, Read&& read) {
  return in_context([&] {
    Parameters parameters{};
    const int status = out == nullptr ? kInvalidValue : gpemu_cuda_node_get(node, &parameters);
    if (status != kSuccess || parameters.kind != kind) {
      return status != kSuccess ? status : kInvalidValue;
    }
    read(parameters);
    return kSuccess;
  });
}

/// Changes a node that `fill` describes; without `exec`, in its graph.
template <typename Fill>
int change(const Exec* exec, Node node, Fill&& fill) {
  return in_context([&] {
    Parameters parameters{};
    const int status = fill(&parameters);
    return status == kSuccess ? set_node(exec, node, parameters) : status;
  });
}

int change_event(const Exec* exec, Node node, gpemu_cuda_node_kind kind, Event event) {
  return change(exec, node, [=](Parameters* to) { return describe_event(kind, event, to); });
}

int connect(Graph graph, NodePointer from, NodePointer to, const EdgeData* edges, size_t count,
            int connect) {
  if (!are_plain(edges, count)) {
    return not_supported("programmatic dependencies of graph nodes");
  }
  return in_context([=] { return gpemu_cuda_graph_connect(graph, from, to, count, connect); });
}

int get_capture(Stream stream, int* status, uint64_t* id, Graph* graph, NodePointer* dependencies,
                size_t* count) {
  return in_context(
      [=] { return get_capture_info(stream, status, id, graph, dependencies, count); });
}

int set_dependencies(Stream stream, NodePointer dependencies, size_t count, unsigned flags) {
  return in_context([=] { return set_capture_dependencies(stream, dependencies, count, flags); });
}

int begin_capture(Stream stream, int mode, Graph graph) {
  return in_context([=] { return begin_stream_capture(stream, mode, graph); });
}

int instantiate(Exec* exec, Graph graph, unsigned long long flags) {
  return in_context([=] { return instantiate_graph(exec, graph, flags); });
}

/// Writes a graph's nodes and edges in the language of Graphviz.
int write_dot(Graph graph, const char* path) {
  size_t node_count = 0;
  size_t edge_count = 0;
  int status = gpemu_cuda_graph_nodes(graph, nullptr, &node_count);
  if (status == kSuccess) {
    status = gpemu_cuda_graph_edges(graph, nullptr, nullptr, &edge_count);
  }
  std::vector<Node> nodes(node_count);
  std::vector<Node> from(edge_count);
  std::vector<Node> to(edge_count);
  if (status == kSuccess) {
    status = gpemu_cuda_graph_nodes(graph, nodes.data(), &node_count);
  }
  if (status == kSuccess) {
    status = gpemu_cuda_graph_edges(graph, from.data(), to.data(), &edge_count);
  }
  if (status != kSuccess) {
    return status;
  }
  std::ofstream file(path);
  file << "digraph graph_1 {\n";
  for (const Node node : nodes) {
    Parameters parameters{};
    gpemu_cuda_kernel_info kernel{};
    (void)gpemu_cuda_node_get(node, &parameters);
    const bool is_kernel = parameters.kind == GPEMU_CUDA_NODE_KERNEL &&
                           gpemu_cuda_kernel_get_info(parameters.kernel, &kernel) == kSuccess;
    file << "  \"" << static_cast<const void*>(node) << "\" [label=\"kind " << parameters.kind
         << (is_kernel ? " " : "") << (is_kernel ? kernel.name : "") << "\"];\n";
  }
  for (size_t index = 0; index < edge_count; ++index) {
    file << "  \"" << static_cast<const void*>(from[index]) << "\" -> \""
         << static_cast<const void*>(to[index]) << "\";\n";
  }
  file << "}\n";
  file.close();
  return file.good() ? kSuccess : static_cast<int>(GPEMU_CUDA_ERROR_OPERATING_SYSTEM);
}

}  // namespace

// ---- Capture ----

GPEMU_TWINS(cudaStreamBeginCapture, _ptsz, (Stream stream, int mode),
            return begin_capture(on(stream), mode, nullptr);)

GPEMU_TWINS(
    cudaStreamBeginCaptureToGraph, _ptsz,
    (Stream stream, Graph graph, NodePointer dependencies, const EdgeData* edges, size_t count,
     int mode),
    if (graph == nullptr || !are_plain(edges, count)) {
      return record(kInvalidValue);
    } const int status = begin_capture(on(stream), mode, graph);
    return status != kSuccess || count == 0
               ? status
               : set_dependencies(on(stream), dependencies, count, kSetDependencies);)

GPEMU_TWINS(cudaStreamEndCapture, _ptsz, (Stream stream, Graph* graph),
            return in_context([=] { return gpemu_cuda_end_capture(on(stream), graph); });)

GPEMU_TWINS(cudaStreamIsCapturing, _ptsz, (Stream stream, int* status),
            return get_capture(on(stream), status, nullptr, nullptr, nullptr, nullptr);)

GPEMU_SHIM_EXPORT int cudaThreadExchangeStreamCaptureMode(int* mode) {
  return record(mode == nullptr || *mode < 0 || *mode > kLastCaptureMode
                    ? kInvalidValue
                    : gpemu_cuda_exchange_capture_mode(mode));
}

#if GPEMU_CUDA_MAJOR < 13
GPEMU_TWINS(cudaStreamGetCaptureInfo, _ptsz, (Stream stream, int* status, uint64_t* id),
            return get_capture(on(stream), status, id, nullptr, nullptr, nullptr);)

GPEMU_TWINS(cudaStreamGetCaptureInfo_v2, _ptsz,
            (Stream stream, int* status, uint64_t* id, Graph* graph, NodePointer* dependencies,
             size_t* count),
            return get_capture(on(stream), status, id, graph, dependencies, count);)

GPEMU_TWINS(
    cudaStreamGetCaptureInfo_v3, _ptsz,
    (Stream stream, int* status, uint64_t* id, Graph* graph, NodePointer* dependencies,
     const EdgeData** edges, size_t* count),
    if (edges != nullptr) { *edges = nullptr; }  // all are plain
    return get_capture(on(stream), status, id, graph, dependencies, count);)

GPEMU_TWINS(cudaStreamUpdateCaptureDependencies, _ptsz,
            (Stream stream, NodePointer dependencies, size_t count, unsigned flags),
            return set_dependencies(on(stream), dependencies, count, flags);)

GPEMU_TWINS(cudaStreamUpdateCaptureDependencies_v2, _ptsz,
            (Stream stream, NodePointer dependencies, const EdgeData* edges, size_t count,
             unsigned flags),
            return are_plain(edges, count)
                       ? set_dependencies(on(stream), dependencies, count, flags)
                       : record(kInvalidValue);)
#else
GPEMU_TWINS(
    cudaStreamGetCaptureInfo, _ptsz,
    (Stream stream, int* status, uint64_t* id, Graph* graph, NodePointer* dependencies,
     const EdgeData** edges, size_t* count),
    if (edges != nullptr) { *edges = nullptr; }  // all are plain
    return get_capture(on(stream), status, id, graph, dependencies, count);)

GPEMU_TWINS(cudaStreamUpdateCaptureDependencies, _ptsz,
            (Stream stream, NodePointer dependencies, const EdgeData* edges, size_t count,
             unsigned flags),
            return are_plain(edges, count)
                       ? set_dependencies(on(stream), dependencies, count, flags)
                       : record(kInvalidValue);)
#endif

// ---- Graphs ----

GPEMU_SHIM_EXPORT int cudaGraphCreate(Graph* graph, unsigned flags) {
  return in_context([=] {
    return graph == nullptr || flags != 0 ? kInvalidValue : gpemu_cuda_graph_create(graph);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphClone(Graph* clone, Graph graph) {
  return in_context(
      [=] { return clone == nullptr ? kInvalidValue : gpemu_cuda_graph_clone(graph, clone); });
}

GPEMU_SHIM_EXPORT int cudaGraphDestroy(Graph graph) {
  return in_context([=] { return gpemu_cuda_graph_destroy(graph); });
}

GPEMU_SHIM_EXPORT int cudaGraphGetNodes(Graph graph, Node* nodes, size_t* count) {
  return in_context([=] {
    return count == nullptr ? kInvalidValue : gpemu_cuda_graph_nodes(graph, nodes, count);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphGetRootNodes(Graph graph, Node* roots, size_t* count) {
  return in_context(
      [=] { return count == nullptr ? kInvalidValue : get_roots(graph, roots, count); });
}

#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaGraphGetEdges(Graph graph, Node* from, Node* to, size_t* count) {
  return in_context([=] { return get_edges(graph, from, to, nullptr, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphGetEdges_v2(Graph graph, Node* from, Node* to, EdgeData* edges,
                                           size_t* count) {
  return in_context([=] { return get_edges(graph, from, to, edges, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetDependencies(Node node, Node* dependencies, size_t* count) {
  return in_context([=] { return get_dependencies(node, dependencies, nullptr, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetDependencies_v2(Node node, Node* dependencies,
                                                      EdgeData* edges, size_t* count) {
  return in_context([=] { return get_dependencies(node, dependencies, edges, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddNode(Node* node, Graph graph, NodePointer dependencies,
                                       size_t count, const NodeParameters* parameters) {
  return add_node(node, graph, dependencies, nullptr, count, parameters);
}

GPEMU_SHIM_EXPORT int cudaGraphAddNode_v2(Node* node, Graph graph, NodePointer dependencies,
                                          const EdgeData* edges, size_t count,
                                          const NodeParameters* parameters) {
  return add_node(node, graph, dependencies, edges, count, parameters);
}
#else
GPEMU_SHIM_EXPORT int cudaGraphGetEdges(Graph graph, Node* from, Node* to, EdgeData* edges,
                                        size_t* count) {
  return in_context([=] { return get_edges(graph, from, to, edges, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetDependencies(Node node, Node* dependencies, EdgeData* edges,
                                                   size_t* count) {
  return in_context([=] { return get_dependencies(node, dependencies, edges, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddNode(Node* node, Graph graph, NodePointer dependencies,
                                       const EdgeData* edges, size_t count,
                                       const NodeParameters* parameters) {
  return add_node(node, graph, dependencies, edges, count, parameters);
}
#endif

GPEMU_SHIM_EXPORT int cudaGraphAddKernelNode(Node* node, Graph graph, NodePointer dependencies,
                                             size_t count, const KernelParameters* parameters) {
  return add_described(node, graph, dependencies, count,
                       [=](Parameters* to) { return describe_kernel(parameters, to); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddMemcpyNode(Node* node, Graph graph, NodePointer dependencies,
                                             size_t count, const Copy3D* parameters) {
  return add_described(node, graph, dependencies, count,
                       [=](Parameters* to) { return describe_copy_node(parameters, to); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddMemcpyNode1D(Node* node, Graph graph, NodePointer dependencies,
                                               size_t count, void* destination, const void* source,
                                               size_t bytes, int kind) {
  return add_described(node, graph, dependencies, count, [=](Parameters* to) {
    return describe_plain_copy(destination, source, bytes, kind, to);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphAddMemsetNode(Node* node, Graph graph, NodePointer dependencies,
                                             size_t count, const SetParameters* parameters) {
  return add_described(node, graph, dependencies, count,
                       [=](Parameters* to) { return describe_set(parameters, to); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddHostNode(Node* node, Graph graph, NodePointer dependencies,
                                           size_t count, const HostParameters* parameters) {
  return add_described(node, graph, dependencies, count,
                       [=](Parameters* to) { return describe_host(parameters, to); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddChildGraphNode(Node* node, Graph graph, NodePointer dependencies,
                                                 size_t count, Graph child) {
  return add_described(node, graph, dependencies, count,
                       [=](Parameters* to) { return describe_child(child, to); });
}

GPEMU_SHIM_EXPORT int cudaGraphAddEmptyNode(Node* node, Graph graph, NodePointer dependencies,
                                            size_t count) {
  return add_described(node, graph, dependencies, count, describe_empty);
}

GPEMU_SHIM_EXPORT int cudaGraphAddEventRecordNode(Node* node, Graph graph, NodePointer dependencies,
                                                  size_t count, Event event) {
  return add_described(node, graph, dependencies, count, [=](Parameters* to) {
    return describe_event(GPEMU_CUDA_NODE_RECORD_EVENT, event, to);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphAddEventWaitNode(Node* node, Graph graph, NodePointer dependencies,
                                                size_t count, Event event) {
  return add_described(node, graph, dependencies, count, [=](Parameters* to) {
    return describe_event(GPEMU_CUDA_NODE_WAIT_EVENT, event, to);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphDestroyNode(Node node) {
  return in_context([=] { return gpemu_cuda_node_destroy(node); });
}

#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaGraphAddDependencies(Graph graph, NodePointer from, NodePointer to,
                                               size_t count) {
  return connect(graph, from, to, nullptr, count, 1);
}

GPEMU_SHIM_EXPORT int cudaGraphAddDependencies_v2(Graph graph, NodePointer from, NodePointer to,
                                                  const EdgeData* edges, size_t count) {
  return connect(graph, from, to, edges, count, 1);
}

GPEMU_SHIM_EXPORT int cudaGraphRemoveDependencies(Graph graph, NodePointer from, NodePointer to,
                                                  size_t count) {
  return connect(graph, from, to, nullptr, count, 0);
}

GPEMU_SHIM_EXPORT int cudaGraphRemoveDependencies_v2(Graph graph, NodePointer from, NodePointer to,
                                                     const EdgeData* edges, size_t count) {
  return connect(graph, from, to, edges, count, 0);
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetDependentNodes(Node node, Node* dependents, size_t* count) {
  return in_context([=] { return get_dependents(node, dependents, nullptr, count); });
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetDependentNodes_v2(Node node, Node* dependents,
                                                        EdgeData* edges, size_t* count) {
  return in_context([=] { return get_dependents(node, dependents, edges, count); });
}
#else
GPEMU_SHIM_EXPORT int cudaGraphAddDependencies(Graph graph, NodePointer from, NodePointer to,
                                               const EdgeData* edges, size_t count) {
  return connect(graph, from, to, edges, count, 1);
}

GPEMU_SHIM_EXPORT int cudaGraphRemoveDependencies(Graph graph, NodePointer from, NodePointer to,
                                                  const EdgeData* edges, size_t count) {
  return connect(graph, from, to, edges, count, 0);
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetDependentNodes(Node node, Node* dependents, EdgeData* edges,
                                                     size_t* count) {
  return in_context([=] { return get_dependents(node, dependents, edges, count); });
}
#endif

// ---- Changing nodes ----

// Sets what a node of one kind does, in its graph and in the executable graph.
#define GPEMU_SET_PARAMS(kind, type, describe)                                              \
  GPEMU_SHIM_EXPORT int cudaGraph##kind##SetParams(Node node, const type* parameters) {     \
    return change(nullptr, node, [=](Parameters* to) { return describe(parameters, to); }); \
  }                                                                                         \
  GPEMU_SHIM_EXPORT int cudaGraphExec##kind##SetParams(Exec exec, Node node,                \
                                                       const type* parameters) {            \
    return change(&exec, node, [=](Parameters* to) { return describe(parameters, to); });   \
  }

GPEMU_SET_PARAMS(KernelNode, KernelParameters, describe_kernel)
GPEMU_SET_PARAMS(MemcpyNode, Copy3D, describe_copy_node)
GPEMU_SET_PARAMS(MemsetNode, SetParameters, describe_set)
GPEMU_SET_PARAMS(HostNode, HostParameters, describe_host)
GPEMU_SET_PARAMS(Node, NodeParameters, describe)

GPEMU_SHIM_EXPORT int cudaGraphMemcpyNodeSetParams1D(Node node, void* destination,
                                                     const void* source, size_t bytes, int kind) {
  return change(nullptr, node, [=](Parameters* to) {
    return describe_plain_copy(destination, source, bytes, kind, to);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphExecMemcpyNodeSetParams1D(Exec exec, Node node, void* destination,
                                                         const void* source, size_t bytes,
                                                         int kind) {
  return change(&exec, node, [=](Parameters* to) {
    return describe_plain_copy(destination, source, bytes, kind, to);
  });
}

GPEMU_SHIM_EXPORT int cudaGraphEventRecordNodeSetEvent(Node node, Event event) {
  return change_event(nullptr, node, GPEMU_CUDA_NODE_RECORD_EVENT, event);
}

GPEMU_SHIM_EXPORT int cudaGraphExecEventRecordNodeSetEvent(Exec exec, Node node, Event event) {
  return change_event(&exec, node, GPEMU_CUDA_NODE_RECORD_EVENT, event);
}

GPEMU_SHIM_EXPORT int cudaGraphEventWaitNodeSetEvent(Node node, Event event) {
  return change_event(nullptr, node, GPEMU_CUDA_NODE_WAIT_EVENT, event);
}

GPEMU_SHIM_EXPORT int cudaGraphExecEventWaitNodeSetEvent(Exec exec, Node node, Event event) {
  return change_event(&exec, node, GPEMU_CUDA_NODE_WAIT_EVENT, event);
}

GPEMU_SHIM_EXPORT int cudaGraphNodeSetEnabled(Exec exec, Node node, unsigned enabled) {
  return in_context([=] { return gpemu_cuda_exec_set_enabled(exec, node, enabled != 0 ? 1 : 0); });
}

GPEMU_SHIM_EXPORT int cudaGraphDebugDotPrint(Graph graph, const char* path, unsigned /*flags*/) {
  return record(path == nullptr ? kInvalidValue : write_dot(graph, path));
}

GPEMU_SHIM_EXPORT int cudaGraphNodeGetType(Node node, int* kind) {
  return in_context([=] {
    Parameters parameters{};
    const int status = kind == nullptr ? kInvalidValue : gpemu_cuda_node_get(node, &parameters);
    if (status == kSuccess) {
      *kind = parameters.kind;
    }
    return status;
  });
}

GPEMU_SHIM_EXPORT int cudaGraphHostNodeGetParams(Node node, HostParameters* out) {
  return read_node(node, out, GPEMU_CUDA_NODE_HOST, [=](const Parameters& parameters) {
    *out = {parameters.host_function, parameters.host_data};
  });
}

GPEMU_SHIM_EXPORT int cudaGraphMemsetNodeGetParams(Node node, SetParameters* out) {
  return read_node(node, out, GPEMU_CUDA_NODE_SET, [=](const Parameters& parameters) {
    *out = {parameters.set_address,       parameters.set_pitch, parameters.set_value,
            parameters.set_element_bytes, parameters.set_count, parameters.set_height};
  });
}

GPEMU_SHIM_EXPORT int cudaGraphChildGraphNodeGetGraph(Node node, Graph* out) {
  return read_node(node, out, GPEMU_CUDA_NODE_GRAPH,
                   [=](const Parameters& parameters) { *out = parameters.child; });
}

GPEMU_SHIM_EXPORT int cudaGraphEventRecordNodeGetEvent(Node node, Event* out) {
  return read_node(node, out, GPEMU_CUDA_NODE_RECORD_EVENT,
                   [=](const Parameters& parameters) { *out = parameters.event; });
}

GPEMU_SHIM_EXPORT int cudaGraphEventWaitNodeGetEvent(Node node, Event* out) {
  return read_node(node, out, GPEMU_CUDA_NODE_WAIT_EVENT,
                   [=](const Parameters& parameters) { *out = parameters.event; });
}

// ---- Executable graphs ----

// The signature since CUDA 12.
#if GPEMU_CUDA_MAJOR < 12
// gpemu's errors concern no single node and leave no log.
GPEMU_SHIM_EXPORT int cudaGraphInstantiate(Exec* exec, Graph graph, Node* failed, char* log,
                                           size_t log_bytes) {
  const int status = instantiate(exec, graph, 0);
  if (status != kSuccess && failed != nullptr) {
    *failed = nullptr;
  }
  if (status != kSuccess && log != nullptr && log_bytes > 0) {
    *log = '\0';
  }
  return status;
}
#else
GPEMU_SHIM_EXPORT int cudaGraphInstantiate(Exec* exec, Graph graph, unsigned long long flags) {
  return instantiate(exec, graph, flags);
}
#endif

GPEMU_SHIM_EXPORT int cudaGraphInstantiateWithFlags(Exec* exec, Graph graph,
                                                    unsigned long long flags) {
  return instantiate(exec, graph, flags);
}

GPEMU_TWINS(
    cudaGraphInstantiateWithParams, _ptsz,
    (Exec * exec, Graph graph, InstantiateParameters* parameters),
    if (parameters == nullptr) { return record(kInvalidValue); }(void)on(parameters->upload_stream);
    const int status = instantiate(exec, graph, parameters->flags);
    parameters->error_node = nullptr;
    parameters->result = status == kSuccess ? kSuccess : kInstantiateError; return status;)

GPEMU_SHIM_EXPORT int cudaGraphExecDestroy(Exec exec) {
  return in_context([=] { return gpemu_cuda_exec_destroy(exec); });
}

#if GPEMU_CUDA_MAJOR < 12
GPEMU_SHIM_EXPORT int cudaGraphExecUpdate(Exec exec, Graph graph, Node* failed, int* result) {
  return in_context([=] {
    if (failed == nullptr || result == nullptr) {
      return kInvalidValue;
    }
    const int status = gpemu_cuda_exec_update(exec, graph);
    *failed = nullptr;
    *result = status == kSuccess ? kSuccess : kUpdateError;
    return status;
  });
}
#else
GPEMU_SHIM_EXPORT int cudaGraphExecUpdate(Exec exec, Graph graph, UpdateResult* result) {
  return in_context([=] {
    if (result == nullptr) {
      return kInvalidValue;
    }
    const int status = gpemu_cuda_exec_update(exec, graph);
    *result = {status == kSuccess ? kSuccess : kUpdateError, nullptr, nullptr};
    return status;
  });
}
#endif

GPEMU_TWINS(cudaGraphUpload, _ptsz, (Exec exec, Stream stream),
            return in_context([=] { return gpemu_cuda_graph_upload(exec, on(stream)); });)

GPEMU_TWINS(cudaGraphLaunch, _ptsz, (Exec exec, Stream stream),
            return in_context([=] { return gpemu_cuda_graph_launch(exec, on(stream)); });)

// ---- Objects that graphs own ----

GPEMU_SHIM_EXPORT int cudaUserObjectCreate(UserObject* object, void* data, void (*destroy)(void*),
                                           unsigned references, unsigned flags) {
  return record(create_user_object(object, data, destroy, references, flags));
}

GPEMU_SHIM_EXPORT int cudaUserObjectRetain(UserObject object, unsigned count) {
  return record(retain_user_object(object, count));
}

GPEMU_SHIM_EXPORT int cudaUserObjectRelease(UserObject object, unsigned count) {
  return record(release_user_object(object, count));
}

GPEMU_SHIM_EXPORT int cudaGraphRetainUserObject(Graph graph, UserObject object, unsigned count,
                                                unsigned flags) {
  return record(retain_in_graph(graph, object, count, flags));
}

GPEMU_SHIM_EXPORT int cudaGraphReleaseUserObject(Graph graph, UserObject object, unsigned count) {
  return record(release_from_graph(graph, object, count));
}

// ---- Memory of graphs ----

GPEMU_SHIM_EXPORT int cudaDeviceGetGraphMemAttribute(int device, int attribute, uint64_t* value) {
  return record(get_graph_memory(device, attribute, value));
}

GPEMU_SHIM_EXPORT int cudaDeviceSetGraphMemAttribute(int device, int attribute, uint64_t* value) {
  return record(set_graph_memory(device, attribute, value));
}

GPEMU_SHIM_EXPORT int cudaDeviceGraphMemTrim(int device) {
  return record(trim_graph_memory(device));
}
