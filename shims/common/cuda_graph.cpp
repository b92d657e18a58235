// SPDX-License-Identifier: Apache-2.0
#include "cuda_graph.hpp"

#include <algorithm>
#include <cstring>

namespace {

void fill_plain(EdgeData* edges, size_t count) {
  if (edges != nullptr) {
    std::fill_n(edges, count, EdgeData{});
  }
}

}  // namespace

bool are_plain(const EdgeData* edges, size_t count) {
  static constexpr EdgeData kPlain{};
  return edges == nullptr || std::all_of(edges, edges + count, [](const EdgeData& edge) {
           return std::memcmp(&edge, &kPlain, sizeof(edge)) == 0;
         });
}

int describe_set(const SetParameters* from, NodeDescription* to) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  to->kind = GPEMU_CUDA_NODE_SET;
  to->set_address = from->destination;
  to->set_pitch = from->pitch;
  to->set_count = from->width;
  to->set_height = from->height;
  to->set_value = from->value;
  to->set_element_bytes = from->element_bytes;
  return kSuccess;
}

int describe_host(const HostParameters* from, NodeDescription* to) {
  if (from == nullptr || from->function == nullptr) {
    return kInvalidValue;
  }
  to->kind = GPEMU_CUDA_NODE_HOST;
  to->host_function = from->function;
  to->host_data = from->data;
  return kSuccess;
}

int describe_child(Graph child, NodeDescription* to) {
  to->kind = GPEMU_CUDA_NODE_GRAPH;
  to->child = child;
  return kSuccess;
}

int describe_empty(NodeDescription* to) {
  to->kind = GPEMU_CUDA_NODE_EMPTY;
  return kSuccess;
}

int describe_event(gpemu_cuda_node_kind kind, Event event, NodeDescription* to) {
  to->kind = kind;
  to->event = event;
  return kSuccess;
}

int set_node(const Exec* exec, Node node, const NodeDescription& description) {
  return exec == nullptr ? gpemu_cuda_node_set(node, &description)
                         : gpemu_cuda_exec_set(*exec, node, &description);
}

int get_edges(Graph graph, Node* from, Node* to, EdgeData* edges, size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) {
    return kInvalidValue;
  }
  const size_t capacity = *count;
  const int status = gpemu_cuda_graph_edges(graph, from, to, count);
  if (status == kSuccess) {
    fill_plain(edges, std::min(capacity, *count));
  }
  return status;
}

int get_dependencies(Node node, Node* dependencies, EdgeData* edges, size_t* count) {
  if (count == nullptr) {
    return kInvalidValue;
  }
  const size_t capacity = *count;
  const int status = gpemu_cuda_node_dependencies(node, dependencies, count);
  if (status == kSuccess) {
    fill_plain(edges, std::min(capacity, *count));
  }
  return status;
}

int get_dependents(Node node, Node* dependents, EdgeData* edges, size_t* count) {
  if (count == nullptr) {
    return kInvalidValue;
  }
  const int status = gpemu_cuda_node_dependents(node, dependents, count);
  if (status == kSuccess && dependents != nullptr) {
    fill_plain(edges, *count);
  }
  return status;
}

int instantiate_graph(Exec* exec, Graph graph, uint64_t flags) {
  if (exec == nullptr || (flags & ~kAllInstantiateFlags) != 0) {
    return kInvalidValue;
  }
  if ((flags & kInstantiateForDevice) != 0) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "graphs launched from the device");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  return gpemu_cuda_graph_instantiate(graph, exec);
}

int begin_stream_capture(Stream stream, int mode, Graph graph) {
  return mode < 0 || mode > kLastCaptureMode ? kInvalidValue
                                             : gpemu_cuda_begin_capture(stream, mode, graph);
}

int get_capture_info(Stream stream, int* status, uint64_t* id, Graph* graph,
                     const Node** dependencies, size_t* count) {
  if (status == nullptr) {
    return kInvalidValue;
  }
  gpemu_cuda_capture_info info{};
  if (const int got = gpemu_cuda_capture_get_info(stream, &info); got != kSuccess) {
    return got;
  }
  *status = info.status;
  const bool active = info.status == kCapturing;
  if (active && id != nullptr) {
    *id = info.id;
  }
  if (active && graph != nullptr) {
    *graph = info.graph;
  }
  if (active && dependencies != nullptr) {
    *dependencies = info.dependencies;
  }
  if (active && count != nullptr) {
    *count = info.dependency_count;
  }
  return kSuccess;
}

int set_capture_dependencies(Stream stream, const Node* dependencies, size_t count,
                             unsigned flags) {
  return flags > kSetDependencies || (dependencies == nullptr && count > 0)
             ? kInvalidValue
             : gpemu_cuda_capture_set_dependencies(stream, dependencies, count,
                                                   flags == kAddDependencies);
}

int create_user_object(UserObject* object, void* data, void (*destroy)(void*), unsigned references,
                       unsigned flags) {
  return object == nullptr || destroy == nullptr || references == 0 || flags != kNoDestructorSync
             ? kInvalidValue
             : gpemu_cuda_user_object_create(data, destroy, references, object);
}

int retain_user_object(UserObject object, unsigned count) {
  return count == 0 ? kInvalidValue : gpemu_cuda_user_object_retain(object, count);
}

int release_user_object(UserObject object, unsigned count) {
  return count == 0 ? kInvalidValue : gpemu_cuda_user_object_release(object, count);
}

int retain_in_graph(Graph graph, UserObject object, unsigned count, unsigned flags) {
  return count == 0 || (flags & ~kMoveReferences) != 0
             ? kInvalidValue
             : gpemu_cuda_graph_retain_user_object(graph, object, count, flags == kMoveReferences);
}

int release_from_graph(Graph graph, UserObject object, unsigned count) {
  return count == 0 ? kInvalidValue : gpemu_cuda_graph_release_user_object(graph, object, count);
}

int get_graph_memory(int device, int attribute, uint64_t* value) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(device, &info);
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  if (attribute < kUsedNow || attribute > kReservedPeak || value == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  *value = 0;
  return GPEMU_CUDA_SUCCESS;
}

int set_graph_memory(int device, int attribute, const uint64_t* value) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(device, &info);
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  const bool is_high = attribute == kUsedPeak || attribute == kReservedPeak;
  return is_high && value != nullptr && *value == 0 ? GPEMU_CUDA_SUCCESS
                                                    : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

int trim_graph_memory(int device) {
  const gpemu_cuda_device* info = nullptr;
  return gpemu_cuda_get_device(device, &info);
}
