// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel_effect.hpp"
#include "machine.hpp"

namespace gpemu::cuda {

/// What a node does. Kernels and operations of libraries are priced when they are added, for their
/// arguments may be gone when the graph is launched.
struct NodeWork {
  gpemu_cuda_node_parameters parameters{};
  cost::OperationCost cost;                  ///< of kernels.
  gpemu_operation operation{};               ///< of kernels; its name is the next one.
  std::string name;                          ///< of kernels.
  DeviceState* device = nullptr;             ///< where it runs.
  std::shared_ptr<const KernelWork> memory;  ///< what a kernel or a library does to it, or null.
};

/// Objects of the program with the references that a graph holds to each.
using UserObjects = std::map<gpemu_cuda_user_object*, std::uint32_t>;

/// Guards all graphs, captures and user objects, and what streams and events know of captures.
[[nodiscard]] std::mutex& graph_mutex();

/// Describes a node that runs on `device`. Copies child graphs. Requires: the lock. Errors:
/// INVALID_VALUE, NOT_SUPPORTED, those of launches.
[[nodiscard]] Status describe_node(const gpemu_cuda_node_parameters& parameters,
                                   DeviceState& device, NodeWork* work);

/// Adds a node. Requires: the lock; the dependencies are alive, in the graph and none twice.
/// Errors: OUT_OF_MEMORY.
[[nodiscard]] Status add_node(gpemu_cuda_graph& graph, NodeWork work,
                              std::vector<gpemu_cuda_node*> dependencies, gpemu_cuda_node** node);

/// Returns a live graph or null.
[[nodiscard]] gpemu_cuda_graph* find_graph(gpemu_cuda_graph_handle handle);

/// Returns a new graph, or null when there are too many.
[[nodiscard]] gpemu_cuda_graph* create_graph();

/// Returns a copy, or null when there are too many. Requires: the lock.
[[nodiscard]] gpemu_cuda_graph* clone_graph(const gpemu_cuda_graph& graph);

/// Ends a graph with its nodes and puts the objects that nobody holds any more into `released`.
/// Requires: the lock.
void destroy_graph(gpemu_cuda_graph& graph, std::vector<gpemu_cuda_user_object*>& released);

/// Checks a list of nodes: alive, of this graph, none twice. Requires: the lock. Errors:
/// INVALID_VALUE.
[[nodiscard]] Status check_nodes(const gpemu_cuda_graph& graph,
                                 const gpemu_cuda_node_handle* handles, std::size_t count);

/// Yields the nodes so that each comes behind what it depends on. Requires: the lock. Errors:
/// INVALID_VALUE when they depend on each other in a circle.
[[nodiscard]] Status sort_nodes(const gpemu_cuda_graph& graph,
                                std::vector<gpemu_cuda_node*>* sorted);

/// Returns a live node or null.
[[nodiscard]] gpemu_cuda_node* find_node(gpemu_cuda_node_handle handle);

/// Takes references to the objects. Requires: the lock.
void retain_objects(const UserObjects& objects);

/// Gives references back and puts the objects that nobody holds any more into `released`. Requires:
/// the lock.
void release_objects(const UserObjects& objects, std::vector<gpemu_cuda_user_object*>& released);

/// Calls the destructors of the program. Requires: not the lock, for they may call back.
void destroy_objects(const std::vector<gpemu_cuda_user_object*>& released);

/// Does work to memory on a stream: at once, in the order of calls, or where the stream captures
/// each time that its graph is launched. Errors: those of capture.
[[nodiscard]] Status perform_on(gpemu_cuda_stream& stream, KernelWork work);

/// Launches an executable graph on a stream that captures, which makes it a node of its own.
/// Requires: the lock.
[[nodiscard]] Status capture_work(gpemu_cuda_stream& stream, NodeWork work);

}  // namespace gpemu::cuda

struct gpemu_cuda_node {
  gpemu_cuda_graph* graph = nullptr;
  std::vector<gpemu_cuda_node*> dependencies;
  gpemu::cuda::NodeWork work;
};

struct gpemu_cuda_graph {
  std::vector<gpemu_cuda_node*> nodes;  ///< in the order in which they were added.
  gpemu::cuda::UserObjects objects;
  bool is_child = false;          ///< of a node, which owns it.
  bool is_captured_into = false;  ///< must stay until the capture ends.
};
