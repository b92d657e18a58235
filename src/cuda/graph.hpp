// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_state.hpp"
#include "kernels/kernel_effect.hpp"
#include "process.hpp"
#include "status.hpp"
#include "user_objects.hpp"

namespace gpemu::cuda {

/// What a node does. Kernels and operations of libraries are priced when they are added, because
/// their arguments may not exist any more when the graph is launched.
struct NodeWork {
  gpemu_cuda_node_parameters parameters{};
  cost::OperationCost cost;       ///< of kernels.
  gpemu_operation operation{};    ///< of kernels; its name is the next one.
  std::string name;               ///< of kernels.
  DeviceState* device = nullptr;  ///< where it runs.
  std::shared_ptr<const KernelWork>
      memory;  ///< the effect of a kernel or a library on it, or null.
};

/// Guards all graphs, captures and user objects, and the capture state of streams and events.
[[nodiscard]] inline std::mutex& graph_mutex() {
  return process().graph_mutex;
}

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

/// Returns a new graph, or null if there are too many.
[[nodiscard]] gpemu_cuda_graph* create_graph();

/// Returns a copy, or null if there are too many. Requires: the lock.
[[nodiscard]] gpemu_cuda_graph* clone_graph(const gpemu_cuda_graph& graph);

/// Ends a graph with its nodes and puts objects without owners into `released`. Requires: the lock.
void destroy_graph(gpemu_cuda_graph& graph, std::vector<gpemu_cuda_user_object*>& released);

/// Checks a list of nodes: alive, of this graph, none twice. Requires: the lock. Errors:
/// INVALID_VALUE.
[[nodiscard]] Status check_nodes(const gpemu_cuda_graph& graph,
                                 const gpemu_cuda_node_handle* handles, std::size_t count);

/// Yields the nodes in an order in which each comes after its dependencies. Requires: the lock.
/// Errors: INVALID_VALUE if they depend on each other in a circle.
[[nodiscard]] Status sort_nodes(const gpemu_cuda_graph& graph,
                                std::vector<gpemu_cuda_node*>* sorted);

/// Returns a live node or null.
[[nodiscard]] gpemu_cuda_node* find_node(gpemu_cuda_node_handle handle);

/// Makes nodes depend on others, each `to` on its `from`, or ends that. Requires: the lock. Errors:
/// INVALID_VALUE.
[[nodiscard]] Status connect_nodes(const gpemu_cuda_graph& graph,
                                   const gpemu_cuda_node_handle* from,
                                   const gpemu_cuda_node_handle* to, std::size_t count,
                                   bool connect);

/// Returns the nodes that depend on one. Requires: the lock.
[[nodiscard]] std::vector<gpemu_cuda_node*> dependents_of(const gpemu_cuda_node& node);

/// Removes a node from its graph and ends it, like destroy_graph. Requires: the lock.
void destroy_node(gpemu_cuda_node& node, std::vector<gpemu_cuda_user_object*>& released);

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
