// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/status.hpp"
#include "gpemu/streams/host_calls.hpp"

#include "graph.hpp"

struct gpemu_cuda_exec {
  struct Step {
    gpemu::cuda::NodeWork work;
    std::vector<std::uint32_t> dependencies;  ///< steps before this one.
    const gpemu_cuda_node* node = nullptr;    ///< it was made from; may be dead.
    bool enabled = true;
  };
  std::vector<Step> steps;
  gpemu::cuda::UserObjects objects;
  int launching GPEMU_GUARDED_BY(gpemu::cuda::graph_mutex()) = 0;  ///< threads.
  /// Destroyed, but still being launched.
  bool dead GPEMU_GUARDED_BY(gpemu::cuda::graph_mutex()) = false;
  /// Of what follows, and of `steps`. A thread that needs graph_mutex() as well takes that first.
  gpemu::Mutex mutex;
  gpemu::device::Moment end;             ///< of the last launch: the next one waits for it.
  gpemu::streams::HostCalls host_calls;  ///< as `end`.
  /// For steps that run in parallel, by device.
  std::map<gpemu::process::DeviceState*, std::vector<std::unique_ptr<gpemu::device::Stream>>>
      streams;
};

namespace gpemu::cuda {

/// Returns an executable graph that was not destroyed, or null.
[[nodiscard]] gpemu_cuda_exec* find_exec(gpemu_cuda_exec_handle handle)
    GPEMU_REQUIRES(graph_mutex());

/// Returns an executable graph that exists until unpin_exec even if it is destroyed, or null.
[[nodiscard]] gpemu_cuda_exec* pin_exec(gpemu_cuda_exec_handle handle);
void unpin_exec(gpemu_cuda_exec& exec);

/// Yields an executable graph. Errors: INVALID_VALUE for circles, OUT_OF_MEMORY.
[[nodiscard]] process::Status instantiate(const gpemu_cuda_graph& graph, gpemu_cuda_exec** exec)
    GPEMU_REQUIRES(graph_mutex());

/// Makes it do what a graph of the same form does and keep that graph's objects. Its own objects
/// are released as by destroy_exec. Errors: GRAPH_EXEC_UPDATE_FAILURE, INVALID_VALUE.
[[nodiscard]] process::Status update_exec(gpemu_cuda_exec& exec, const gpemu_cuda_graph& graph,
                                          std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex());

/// Changes what a node does, or whether it runs. Errors: INVALID_VALUE, those of describe_node.
[[nodiscard]] process::Status set_exec_node(gpemu_cuda_exec& exec, gpemu_cuda_node_handle node,
                                            const gpemu_cuda_node_parameters& parameters)
    GPEMU_REQUIRES(graph_mutex());
[[nodiscard]] process::Status enable_exec_node(gpemu_cuda_exec& exec, gpemu_cuda_node_handle node,
                                               bool enabled) GPEMU_REQUIRES(graph_mutex());

/// Ends it, or lets the last thread that launches it end it. Puts objects without owners into
/// `released`; if a launch is not over, they are destroyed later, in another thread.
void destroy_exec(gpemu_cuda_exec& exec, std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex());

/// Launches it on a stream. Requires: the stream does not capture. Errors: those of its nodes.
[[nodiscard]] process::Status launch_exec(gpemu_cuda_exec& exec, gpemu_cuda_stream& stream)
    GPEMU_EXCLUDES(graph_mutex(), exec.mutex);

}  // namespace gpemu::cuda
