// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_abi.hpp"

// The common code of the driver and the runtime for graphs. These functions need no current context
// and do not set the last error; their callers do. Statuses are those of gpemu/cuda.h.

using NodeDescription = gpemu_cuda_node_parameters;

/// Returns whether all edges are full dependencies; also true without edges.
bool are_plain(const EdgeData* edges, size_t count);

/// Describes a node. Errors: INVALID_VALUE.
int describe_set(const SetParameters* from, NodeDescription* to);
int describe_host(const HostParameters* from, NodeDescription* to);
int describe_child(Graph child, NodeDescription* to);
int describe_empty(NodeDescription* to);

/// `kind` is that of a node that records an event, or that waits for one.
int describe_event(gpemu_cuda_node_kind kind, Event event, NodeDescription* to);

/// Changes a node in an executable graph; without `exec`, in the graph itself.
int set_node(const Exec* exec, Node node, const NodeDescription& description);

/// Yield edges, and the nodes before and after one: at most `*count`, which becomes how many there
/// are. `edges` may be null. Errors: INVALID_VALUE.
int get_edges(Graph graph, Node* from, Node* to, EdgeData* edges, size_t* count);
int get_dependencies(Node node, Node* dependencies, EdgeData* edges, size_t* count);
int get_dependents(Node node, Node* dependents, EdgeData* edges, size_t* count);

/// Makes a graph executable. Options that change how it runs are not emulated; freeing on launch
/// (1) concerns only the program, priorities of nodes (8) only the scheduler.
///
/// Errors: INVALID_VALUE; NOT_SUPPORTED for graphs that are launched from the device.
int instantiate_graph(Exec* exec, Graph graph, uint64_t flags);

/// Captures, into `graph` if there is one. Errors: INVALID_VALUE.
int begin_stream_capture(Stream stream, int mode, Graph graph);

/// Yields the state of a stream's capture; all pointers but `status` may be null. Errors:
/// INVALID_VALUE.
int get_capture_info(Stream stream, int* status, uint64_t* id, Graph* graph,
                     const Node** dependencies, size_t* count);

/// Sets the dependencies of the next captured work: `flags` 0 adds, 1 replaces. Errors:
/// INVALID_VALUE.
int set_capture_dependencies(Stream stream, const Node* dependencies, size_t count, unsigned flags);

/// Objects that graphs own. Errors: INVALID_VALUE.
int create_user_object(UserObject* object, void* data, void (*destroy)(void*), unsigned references,
                       unsigned flags);
int retain_user_object(UserObject object, unsigned count);
int release_user_object(UserObject object, unsigned count);
int retain_in_graph(Graph graph, UserObject object, unsigned count, unsigned flags);
int release_from_graph(Graph graph, UserObject object, unsigned count);

/// cudaGraphMemAttributeType and CUgraphMem_attribute: used and reserved memory, now and at most.
/// Graphs take none, because nodes that allocate are refused.
int get_graph_memory(int device, int attribute, uint64_t* value);

/// Peaks can be set to zero, which they already are.
int set_graph_memory(int device, int attribute, const uint64_t* value);

int trim_graph_memory(int device);
