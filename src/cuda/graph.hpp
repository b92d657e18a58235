// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/process/status.hpp"

#include "user_objects.hpp"

namespace gpemu::cuda {

/// What a node does. Kernels and operations of libraries are priced when they are added, because
/// their arguments may not exist any more when the graph is launched.
struct NodeWork {
  gpemu_cuda_node_parameters parameters{};
  cost::OperationCost cost;                ///< of kernels.
  gpemu_operation operation{};             ///< of kernels; its name is the next one.
  std::string name;                        ///< of kernels.
  process::DeviceState* device = nullptr;  ///< where it runs.
  std::shared_ptr<const kernels::KernelWork>
      memory;  ///< the effect of a kernel or a library on it, or null.
  /// If given, queues all work of the node at each launch, in the stream that it gets.
  std::function<process::Status(gpemu_cuda_stream&)> queue;
};

/// Describes a node that runs on `device`. Copies child graphs. Errors:
/// INVALID_VALUE, NOT_SUPPORTED, those of launches.
[[nodiscard]] process::Status describe_node(const gpemu_cuda_node_parameters& parameters,
                                            process::DeviceState& device, NodeWork* work)
    GPEMU_REQUIRES(graph_mutex());

/// Adds a node. Requires: the dependencies are alive, in the graph and none twice.
/// Errors: OUT_OF_MEMORY.
[[nodiscard]] process::Status add_node(gpemu_cuda_graph& graph, NodeWork work,
                                       std::vector<gpemu_cuda_node*> dependencies,
                                       gpemu_cuda_node** node) GPEMU_REQUIRES(graph_mutex());

/// Returns a live graph or null.
[[nodiscard]] gpemu_cuda_graph* find_graph(gpemu_cuda_graph_handle handle);

/// Returns a new graph, or null if there are too many.
[[nodiscard]] gpemu_cuda_graph* create_graph();

/// Returns a copy, or null if there are too many.
[[nodiscard]] gpemu_cuda_graph* clone_graph(const gpemu_cuda_graph& graph)
    GPEMU_REQUIRES(graph_mutex());

/// Ends a graph with its nodes and puts objects without owners into `released`.
void destroy_graph(gpemu_cuda_graph& graph, std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex());

/// Checks a list of nodes: alive, of this graph, none twice. Errors: INVALID_VALUE.
[[nodiscard]] process::Status check_nodes(const gpemu_cuda_graph& graph,
                                          const gpemu_cuda_node_handle* handles, std::size_t count)
    GPEMU_REQUIRES(graph_mutex());

/// Yields the nodes in an order in which each comes after its dependencies.
/// Errors: INVALID_VALUE if they depend on each other in a circle.
[[nodiscard]] process::Status sort_nodes(const gpemu_cuda_graph& graph,
                                         std::vector<gpemu_cuda_node*>* sorted)
    GPEMU_REQUIRES(graph_mutex());

/// Returns a live node or null.
[[nodiscard]] gpemu_cuda_node* find_node(gpemu_cuda_node_handle handle);

/// Makes nodes depend on others, each `to` on its `from`, or ends that. Errors: INVALID_VALUE.
[[nodiscard]] process::Status connect_nodes(const gpemu_cuda_graph& graph,
                                            const gpemu_cuda_node_handle* from,
                                            const gpemu_cuda_node_handle* to, std::size_t count,
                                            bool connect) GPEMU_REQUIRES(graph_mutex());

/// Returns the nodes that depend on one.
[[nodiscard]] std::vector<gpemu_cuda_node*> dependents_of(const gpemu_cuda_node& node)
    GPEMU_REQUIRES(graph_mutex());

/// Removes a node from its graph and ends it, like destroy_graph.
void destroy_node(gpemu_cuda_node& node, std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex());

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
