// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "cuda_graph.hpp"
#include "kernel_attribute.hpp"

namespace {

using Parameters = NodeDescription;
using NodePointer = const Node*;

int describe_kernel(const KernelParameters* from, Kernel kernel, Parameters* to) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  to->kind = GPEMU_CUDA_NODE_KERNEL;
  to->kernel = kernel;
  to->launch = {.grid = {from->grid[0], from->grid[1], from->grid[2]},
                .block = {from->block[0], from->block[1], from->block[2]},
                .dynamic_shared_bytes = from->shared_bytes,
                .cooperative = 0,
                .arguments = from->arguments};
  return read_packed_arguments(to->launch, from->extra);
}

int describe_kernel_v1(const KernelParameters* from, Parameters* to) {
  return describe_kernel(from, from == nullptr ? nullptr : from->function, to);
}

int describe_kernel_v2(const KernelParametersV2* from, Parameters* to) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  const Kernel function = from->first.function;
  return describe_kernel(&from->first, function != nullptr ? function : from->kernel, to);
}

int describe_copy_node(const Copy3D* from, Parameters* to) {
  to->kind = GPEMU_CUDA_NODE_COPY;
  return describe_copy(from, &to->copy);
}

/// Adds a node that `fill` describes.
template <typename Fill>
int add(Node* node, Graph graph, NodePointer dependencies, size_t count, Fill&& fill) {
  Parameters parameters{};
  const int status =
      node == nullptr || (dependencies == nullptr && count > 0) ? kInvalidValue : fill(&parameters);
  return status == kSuccess
             ? driver_status(gpemu_cuda_graph_add(graph, dependencies, count, &parameters, node))
             : status;
}

/// Changes a node that `fill` describes; without `exec`, in its graph.
template <typename Fill>
int change(const Exec* exec, Node node, Fill&& fill) {
  Parameters parameters{};
  const int status = fill(&parameters);
  return status == kSuccess ? driver_status(set_node(exec, node, parameters)) : status;
}

int change_event(const Exec* exec, Node node, gpemu_cuda_node_kind kind, Event event) {
  return change(exec, node, [=](Parameters* to) { return describe_event(kind, event, to); });
}

int connect(Graph graph, NodePointer from, NodePointer to, const EdgeData* edges, size_t count,
            int connect) {
  return are_plain(edges, count) ? gpemu_cuda_graph_connect(graph, from, to, count, connect)
                                 : not_supported("programmatic dependencies of graph nodes");
}

// The form of instantiation until CUDA 11, which reports errors as text.
int instantiate_with_log(Exec* exec, Graph graph, Node* error_node, char* log, size_t log_bytes) {
  if (error_node != nullptr) {
    *error_node = nullptr;
  }
  if (log != nullptr && log_bytes > 0) {
    *log = '\0';
  }
  return instantiate_graph(exec, graph, 0);
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

}  // namespace

// ---- Capture ----

GPEMU_TWINS(cuStreamBeginCapture, _ptsz, (Stream stream),
            return begin_capture(on(stream), 0, nullptr);)

GPEMU_TWINS(cuStreamBeginCapture_v2, _ptsz, (Stream stream, int mode),
            return begin_capture(on(stream), mode, nullptr);)

GPEMU_TWINS(
    cuStreamBeginCaptureToGraph, _ptsz,
    (Stream stream, Graph graph, NodePointer dependencies, const EdgeData* edges, size_t count,
     int mode),
    if (graph == nullptr || !are_plain(edges, count)) {
      return kInvalidValue;
    } const int status = begin_capture(on(stream), mode, graph);
    return status != kSuccess || count == 0
               ? status
               : set_dependencies(on(stream), dependencies, count, kSetDependencies);)

GPEMU_TWINS(cuStreamEndCapture, _ptsz, (Stream stream, Graph* graph),
            return in_context([=] { return gpemu_cuda_end_capture(on(stream), graph); });)

GPEMU_TWINS(cuStreamIsCapturing, _ptsz, (Stream stream, int* status),
            return get_capture(on(stream), status, nullptr, nullptr, nullptr, nullptr);)

GPEMU_TWINS(cuStreamGetCaptureInfo, _ptsz, (Stream stream, int* status, uint64_t* id),
            return get_capture(on(stream), status, id, nullptr, nullptr, nullptr);)

GPEMU_TWINS(cuStreamGetCaptureInfo_v2, _ptsz,
            (Stream stream, int* status, uint64_t* id, Graph* graph, NodePointer* dependencies,
             size_t* count),
            return get_capture(on(stream), status, id, graph, dependencies, count);)

GPEMU_TWINS(
    cuStreamGetCaptureInfo_v3, _ptsz,
    (Stream stream, int* status, uint64_t* id, Graph* graph, NodePointer* dependencies,
     const EdgeData** edges, size_t* count),
    if (edges != nullptr) { *edges = nullptr; }  // all are plain
    return get_capture(on(stream), status, id, graph, dependencies, count);)

GPEMU_TWINS(cuStreamUpdateCaptureDependencies, _ptsz,
            (Stream stream, NodePointer dependencies, size_t count, unsigned flags),
            return set_dependencies(on(stream), dependencies, count, flags);)

GPEMU_TWINS(cuStreamUpdateCaptureDependencies_v2, _ptsz,
            (Stream stream, NodePointer dependencies, const EdgeData* edges, size_t count,
             unsigned flags),
            return are_plain(edges, count)
                       ? set_dependencies(on(stream), dependencies, count, flags)
                       : kInvalidValue;)

GPEMU_SHIM_EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  return mode == nullptr || *mode < 0 || *mode > kLastCaptureMode
             ? kInvalidValue
             : gpemu_cuda_exchange_capture_mode(mode);
}

// ---- Graphs ----

GPEMU_SHIM_EXPORT int cuGraphCreate(Graph* graph, unsigned flags) {
  return graph == nullptr || flags != 0 ? kInvalidValue : gpemu_cuda_graph_create(graph);
}

GPEMU_SHIM_EXPORT int cuGraphClone(Graph* clone, Graph graph) {
  return clone == nullptr ? kInvalidValue : gpemu_cuda_graph_clone(graph, clone);
}

GPEMU_SHIM_EXPORT int cuGraphDestroy(Graph graph) {
  return gpemu_cuda_graph_destroy(graph);
}

GPEMU_SHIM_EXPORT int cuGraphGetNodes(Graph graph, Node* nodes, size_t* count) {
  return count == nullptr ? kInvalidValue : gpemu_cuda_graph_nodes(graph, nodes, count);
}

GPEMU_SHIM_EXPORT int cuGraphGetEdges(Graph graph, Node* from, Node* to, size_t* count) {
  return get_edges(graph, from, to, nullptr, count);
}

GPEMU_SHIM_EXPORT int cuGraphGetEdges_v2(Graph graph, Node* from, Node* to, EdgeData* edges,
                                         size_t* count) {
  return get_edges(graph, from, to, edges, count);
}

GPEMU_SHIM_EXPORT int cuGraphNodeGetDependencies(Node node, Node* dependencies, size_t* count) {
  return get_dependencies(node, dependencies, nullptr, count);
}

GPEMU_SHIM_EXPORT int cuGraphNodeGetDependencies_v2(Node node, Node* dependencies, EdgeData* edges,
                                                    size_t* count) {
  return get_dependencies(node, dependencies, edges, count);
}

GPEMU_SHIM_EXPORT int cuGraphNodeGetType(Node node, int* kind) {
  Parameters parameters{};
  const int status = kind == nullptr ? kInvalidValue : gpemu_cuda_node_get(node, &parameters);
  return put_result(status, kind, parameters.kind);
}

GPEMU_SHIM_EXPORT int cuGraphAddKernelNode(Node* node, Graph graph, NodePointer dependencies,
                                           size_t count, const KernelParameters* parameters) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_kernel_v1(parameters, to); });
}

GPEMU_SHIM_EXPORT int cuGraphAddKernelNode_v2(Node* node, Graph graph, NodePointer dependencies,
                                              size_t count, const KernelParametersV2* parameters) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_kernel_v2(parameters, to); });
}

GPEMU_SHIM_EXPORT int cuGraphAddMemcpyNode(Node* node, Graph graph, NodePointer dependencies,
                                           size_t count, const Copy3D* parameters,
                                           Context /*context*/) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_copy_node(parameters, to); });
}

GPEMU_SHIM_EXPORT int cuGraphAddMemsetNode(Node* node, Graph graph, NodePointer dependencies,
                                           size_t count, const SetParameters* parameters,
                                           Context /*context*/) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_set(parameters, to); });
}

GPEMU_SHIM_EXPORT int cuGraphAddHostNode(Node* node, Graph graph, NodePointer dependencies,
                                         size_t count, const HostParameters* parameters) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_host(parameters, to); });
}

GPEMU_SHIM_EXPORT int cuGraphAddChildGraphNode(Node* node, Graph graph, NodePointer dependencies,
                                               size_t count, Graph child) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_child(child, to); });
}

GPEMU_SHIM_EXPORT int cuGraphAddEmptyNode(Node* node, Graph graph, NodePointer dependencies,
                                          size_t count) {
  return add(node, graph, dependencies, count, describe_empty);
}

GPEMU_SHIM_EXPORT int cuGraphAddEventRecordNode(Node* node, Graph graph, NodePointer dependencies,
                                                size_t count, Event event) {
  return add(node, graph, dependencies, count, [=](Parameters* to) {
    return describe_event(GPEMU_CUDA_NODE_RECORD_EVENT, event, to);
  });
}

GPEMU_SHIM_EXPORT int cuGraphAddEventWaitNode(Node* node, Graph graph, NodePointer dependencies,
                                              size_t count, Event event) {
  return add(node, graph, dependencies, count,
             [=](Parameters* to) { return describe_event(GPEMU_CUDA_NODE_WAIT_EVENT, event, to); });
}

// ---- Changing graphs ----

GPEMU_SHIM_EXPORT int cuGraphDestroyNode(Node node) {
  return gpemu_cuda_node_destroy(node);
}

GPEMU_SHIM_EXPORT int cuGraphAddDependencies(Graph graph, NodePointer from, NodePointer to,
                                             size_t count) {
  return connect(graph, from, to, nullptr, count, 1);
}

GPEMU_SHIM_EXPORT int cuGraphAddDependencies_v2(Graph graph, NodePointer from, NodePointer to,
                                                const EdgeData* edges, size_t count) {
  return connect(graph, from, to, edges, count, 1);
}

GPEMU_SHIM_EXPORT int cuGraphRemoveDependencies(Graph graph, NodePointer from, NodePointer to,
                                                size_t count) {
  return connect(graph, from, to, nullptr, count, 0);
}

GPEMU_SHIM_EXPORT int cuGraphRemoveDependencies_v2(Graph graph, NodePointer from, NodePointer to,
                                                   const EdgeData* edges, size_t count) {
  return connect(graph, from, to, edges, count, 0);
}

GPEMU_SHIM_EXPORT int cuGraphNodeGetDependentNodes(Node node, Node* dependents, size_t* count) {
  return get_dependents(node, dependents, nullptr, count);
}

GPEMU_SHIM_EXPORT int cuGraphNodeGetDependentNodes_v2(Node node, Node* dependents, EdgeData* edges,
                                                      size_t* count) {
  return get_dependents(node, dependents, edges, count);
}

// Sets what a node of one kind does, in its graph and in the executable graph; `...` are parameters
// of the latter that have no effect here.
#define GPEMU_SET_PARAMS(kind, suffix, type, describe, ...)                                   \
  GPEMU_SHIM_EXPORT int cuGraph##kind##SetParams##suffix(Node node, const type* parameters) { \
    return change(nullptr, node, [=](Parameters* to) { return describe(parameters, to); });   \
  }                                                                                           \
  GPEMU_SHIM_EXPORT int cuGraphExec##kind##SetParams##suffix(                                 \
      Exec exec, Node node, const type* parameters __VA_OPT__(, ) __VA_ARGS__) {              \
    return change(&exec, node, [=](Parameters* to) { return describe(parameters, to); });     \
  }

GPEMU_SET_PARAMS(KernelNode, , KernelParameters, describe_kernel_v1)
GPEMU_SET_PARAMS(KernelNode, _v2, KernelParametersV2, describe_kernel_v2)
GPEMU_SET_PARAMS(MemcpyNode, , Copy3D, describe_copy_node, Context /*context*/)
GPEMU_SET_PARAMS(MemsetNode, , SetParameters, describe_set, Context /*context*/)
GPEMU_SET_PARAMS(HostNode, , HostParameters, describe_host)

GPEMU_SHIM_EXPORT int cuGraphEventRecordNodeSetEvent(Node node, Event event) {
  return change_event(nullptr, node, GPEMU_CUDA_NODE_RECORD_EVENT, event);
}

GPEMU_SHIM_EXPORT int cuGraphExecEventRecordNodeSetEvent(Exec exec, Node node, Event event) {
  return change_event(&exec, node, GPEMU_CUDA_NODE_RECORD_EVENT, event);
}

GPEMU_SHIM_EXPORT int cuGraphEventWaitNodeSetEvent(Node node, Event event) {
  return change_event(nullptr, node, GPEMU_CUDA_NODE_WAIT_EVENT, event);
}

GPEMU_SHIM_EXPORT int cuGraphExecEventWaitNodeSetEvent(Exec exec, Node node, Event event) {
  return change_event(&exec, node, GPEMU_CUDA_NODE_WAIT_EVENT, event);
}

GPEMU_SHIM_EXPORT int cuGraphNodeSetEnabled(Exec exec, Node node, unsigned enabled) {
  return gpemu_cuda_exec_set_enabled(exec, node, enabled != 0 ? 1 : 0);
}

// ---- Executable graphs ----

GPEMU_SHIM_EXPORT int cuGraphInstantiate(Exec* exec, Graph graph, Node* error_node, char* log,
                                         size_t log_bytes) {
  return instantiate_with_log(exec, graph, error_node, log, log_bytes);
}

GPEMU_SHIM_EXPORT int cuGraphInstantiate_v2(Exec* exec, Graph graph, Node* error_node, char* log,
                                            size_t log_bytes) {
  return instantiate_with_log(exec, graph, error_node, log, log_bytes);
}

GPEMU_SHIM_EXPORT int cuGraphInstantiateWithFlags(Exec* exec, Graph graph, uint64_t flags) {
  return instantiate_graph(exec, graph, flags);
}

GPEMU_TWINS(
    cuGraphInstantiateWithParams, _ptsz,
    (Exec * exec, Graph graph, InstantiateParameters* parameters),
    if (parameters == nullptr) { return kInvalidValue; }(void)on(parameters->upload_stream);
    const int status = instantiate_graph(exec, graph, parameters->flags);
    parameters->error_node = nullptr;
    parameters->result = status == kSuccess ? kSuccess : kInstantiateError; return status;)

GPEMU_SHIM_EXPORT int cuGraphExecDestroy(Exec exec) {
  return gpemu_cuda_exec_destroy(exec);
}

GPEMU_SHIM_EXPORT int cuGraphExecUpdate(Exec exec, Graph graph, Node* error_node, int* result) {
  const int status = result == nullptr ? kInvalidValue : gpemu_cuda_exec_update(exec, graph);
  if (error_node != nullptr) {
    *error_node = nullptr;
  }
  if (result != nullptr) {
    *result = status == kSuccess ? kSuccess : kUpdateError;
  }
  return status;
}

GPEMU_SHIM_EXPORT int cuGraphExecUpdate_v2(Exec exec, Graph graph, UpdateResult* result) {
  const int status = result == nullptr ? kInvalidValue : gpemu_cuda_exec_update(exec, graph);
  if (result != nullptr) {
    *result = {status == kSuccess ? kSuccess : kUpdateError, nullptr, nullptr};
  }
  return status;
}

GPEMU_TWINS(cuGraphUpload, _ptsz, (Exec exec, Stream stream),
            return in_context([=] { return gpemu_cuda_graph_upload(exec, on(stream)); });)

GPEMU_TWINS(cuGraphLaunch, _ptsz, (Exec exec, Stream stream),
            return in_context([=] { return gpemu_cuda_graph_launch(exec, on(stream)); });)

// ---- Objects that graphs own ----

GPEMU_SHIM_EXPORT int cuUserObjectCreate(UserObject* object, void* data, void (*destroy)(void*),
                                         unsigned references, unsigned flags) {
  return create_user_object(object, data, destroy, references, flags);
}

GPEMU_SHIM_EXPORT int cuUserObjectRetain(UserObject object, unsigned count) {
  return retain_user_object(object, count);
}

GPEMU_SHIM_EXPORT int cuUserObjectRelease(UserObject object, unsigned count) {
  return release_user_object(object, count);
}

GPEMU_SHIM_EXPORT int cuGraphRetainUserObject(Graph graph, UserObject object, unsigned count,
                                              unsigned flags) {
  return retain_in_graph(graph, object, count, flags);
}

GPEMU_SHIM_EXPORT int cuGraphReleaseUserObject(Graph graph, UserObject object, unsigned count) {
  return release_from_graph(graph, object, count);
}

// ---- Memory of graphs ----

GPEMU_SHIM_EXPORT int cuDeviceGetGraphMemAttribute(int device, int attribute, uint64_t* value) {
  return get_graph_memory(device, attribute, value);
}

GPEMU_SHIM_EXPORT int cuDeviceSetGraphMemAttribute(int device, int attribute, uint64_t* value) {
  return set_graph_memory(device, attribute, value);
}

GPEMU_SHIM_EXPORT int cuDeviceGraphMemTrim(int device) {
  return trim_graph_memory(device);
}
