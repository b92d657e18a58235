// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs: the state of a graph at its instantiation, in the order of its launches.
#include "exec.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/waits.hpp"

#include "capture.hpp"
#include "copy.hpp"
#include "event.hpp"
#include "graph.hpp"
#include "stream.hpp"

namespace gpemu::cuda {
namespace {

using Step = gpemu_cuda_exec::Step;

constexpr std::size_t kMaxExecs = 1 << 16;

/// Returns the time that a kernel saves in a graph, compared with a launch after others in a
/// stream.
Duration saved_per_kernel(const process::DeviceState& device) {
  return std::chrono::nanoseconds(device.spec.generation.graph_kernel_saving_ns);
}

/// Appends the steps of a graph, with child graphs in place of their nodes, and the objects that
/// they keep. Steps without dependencies wait for `before`. Errors: INVALID_VALUE for circles.
process::Status flatten(const gpemu_cuda_graph& graph, const std::vector<std::uint32_t>& before,
                        std::vector<Step>& steps, UserObjects& objects)
    GPEMU_REQUIRES(graph_mutex()) {
  std::vector<gpemu_cuda_node*> sorted;
  GPEMU_CUDA_TRY(sort_nodes(graph, &sorted));
  for (const auto& [object, count] : graph.objects) objects[object] += count;
  std::unordered_map<const gpemu_cuda_node*, std::uint32_t> indices;
  for (const gpemu_cuda_node* const node : sorted) {
    Step step{.work = node->work, .dependencies = before, .node = node};
    if (!node->dependencies.empty()) step.dependencies.clear();
    for (const gpemu_cuda_node* const dependency : node->dependencies) {
      step.dependencies.push_back(indices[dependency]);
    }
    if (node->work.parameters.kind == GPEMU_CUDA_NODE_GRAPH) {
      const auto first = static_cast<std::uint32_t>(steps.size());
      GPEMU_CUDA_TRY(flatten(*node->work.parameters.child, step.dependencies, steps, objects));
      // The node itself stays, as the join of its graph.
      for (auto i = first; i < steps.size(); ++i) step.dependencies.push_back(i);
      step.work.parameters = {.kind = GPEMU_CUDA_NODE_EMPTY};
    }
    indices[node] = static_cast<std::uint32_t>(steps.size());
    steps.push_back(std::move(step));
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Runs one node on a stream whose work starts when the node may start; the stream knows the end.
process::Status run_step(Step& step, gpemu_cuda_stream& stream) {
  const gpemu_cuda_node_parameters& node = step.work.parameters;
  if (step.work.queue) return step.work.queue(stream);
  switch (node.kind) {
    case GPEMU_CUDA_NODE_KERNEL: {
      cost::OperationCost cost = step.work.cost;
      cost.estimate.time =
          std::max(cost.estimate.time - saved_per_kernel(*step.work.device), Duration::zero());
      gpemu_operation operation = step.work.operation;
      operation.name = step.work.name.c_str();
      queue_operation(cost, operation, stream);
      if (step.work.memory != nullptr) launch::perform(*step.work.memory, &stream);
      return GPEMU_CUDA_SUCCESS;
    }
    case GPEMU_CUDA_NODE_COPY:
      return run_copy(node.copy, stream, false);
    case GPEMU_CUDA_NODE_SET:
      return run_set(node, stream);
    case GPEMU_CUDA_NODE_HOST:
      return run_host_function(node.host_function, node.host_data, stream);
    case GPEMU_CUDA_NODE_WAIT_EVENT:
      return wait_in_graph(node.event, stream);
    case GPEMU_CUDA_NODE_RECORD_EVENT:
      return record_in_graph(node.event, stream);
    case GPEMU_CUDA_NODE_EMPTY:
      if (step.work.memory != nullptr) launch::perform(*step.work.memory, &stream);
      return GPEMU_CUDA_SUCCESS;
    default:
      return GPEMU_CUDA_SUCCESS;
  }
}

/// The streams in which a launch runs its steps. A step follows the last step of a stream if it
/// depends on that; the first such stream is the launch's own.
class Branches {
 public:
  Branches(gpemu_cuda_exec& exec, gpemu_cuda_stream& stream)
      : exec_(exec), stream_(stream), start_(stream.stream->tail()), places_(exec.steps.size()) {
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      const Step& step = exec.steps[i];
      const auto found = std::ranges::find_if(branches_, [&step](const Branch& branch) {
        return branch.device == step.work.device &&
               std::ranges::find(step.dependencies, branch.last) != step.dependencies.end();
      });
      const bool is_new = found == branches_.end();
      if (is_new) branches_.push_back({.device = step.work.device});
      Branch& branch = is_new ? branches_.back() : *found;
      places_[i] = {.branch = static_cast<std::size_t>(&branch - branches_.data()),
                    .before = branch.last};
      branch.last = i;
      for (const std::uint32_t dependency : step.dependencies) {
        if (dependency != places_[i].before) places_[dependency].is_joined = true;
      }
    }
  }

  /// Returns the stream of a step, after making it wait for the step's dependencies.
  device::Stream& stream_of(std::uint32_t step) {
    const Place& place = places_[step];
    Branch& branch = branches_[place.branch];
    if (branch.stream == nullptr) branch.stream = &begin(*branch.device, place.branch);
    for (const std::uint32_t dependency : exec_.steps[step].dependencies) {
      if (dependency != place.before) branch.stream->wait(places_[dependency].end);
    }
    return *branch.stream;
  }

  /// Notes that a step's stream has its work.
  void finish(std::uint32_t step) {
    Place& place = places_[step];
    if (place.is_joined) place.end = branches_[place.branch].stream->last_end();
  }

  /// Makes the launch's stream wait for all branches that have begun.
  void join() {
    for (const Branch& branch : branches_) {
      const bool is_other = branch.stream != nullptr && branch.stream != stream_.stream;
      if (is_other) stream_.stream->wait(branch.stream->last_end());
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Branch {
    process::DeviceState* device = nullptr;
    device::Stream* stream = nullptr;  ///< null until it is begun.
    std::uint32_t last = kNone;        ///< its last step.
  };
  struct Place {
    std::size_t branch = 0;
    std::uint32_t before = kNone;  ///< the step before it in its branch.
    bool is_joined = false;        ///< whether steps of other branches wait for it.
    device::Moment end = {};
  };

  device::Stream& begin(process::DeviceState& device, std::size_t branch) {
    if (branch == 0 && &device == stream_.device) return *stream_.stream;
    auto& streams = exec_.streams[&device];
    std::size_t& used = used_[&device];
    if (used == streams.size()) {
      streams.push_back(device.device->create_stream(device::StreamKind::kNonBlocking));
    }
    device::Stream& begun = *streams[used++];
    begun.wait(start_);
    return begun;
  }

  gpemu_cuda_exec& exec_;
  gpemu_cuda_stream& stream_;
  device::Moment start_;
  std::vector<Branch> branches_;
  std::vector<Place> places_;  ///< by step.
  std::map<process::DeviceState*, std::size_t> used_;
};

/// Finds the step of a node.
Step* find_step(gpemu_cuda_exec& exec, gpemu_cuda_node_handle node)
    GPEMU_REQUIRES(graph_mutex(), exec.mutex) {
  if (find_node(node) == nullptr) return nullptr;
  const auto found = std::find_if(exec.steps.begin(), exec.steps.end(),
                                  [node](const Step& step) { return step.node == node; });
  return found == exec.steps.end() ? nullptr : &*found;
}

bool has_same_form(const std::vector<Step>& steps, const std::vector<Step>& others) {
  return std::equal(steps.begin(), steps.end(), others.begin(), others.end(),
                    [](const Step& a, const Step& b) {
                      return a.work.parameters.kind == b.work.parameters.kind &&
                             a.work.device == b.work.device && a.dependencies == b.dependencies;
                    });
}

/// Releases references once no launch uses the objects. Source: CUDA C++ Programming Guide, "CUDA
/// User Objects": a launch keeps them until it is over.
void release_after_launches(const gpemu_cuda_exec& exec, UserObjects objects,
                            std::vector<gpemu_cuda_user_object*>& released)
    GPEMU_REQUIRES(graph_mutex()) {
  if (objects.empty()) return;
  if (streams::is_over(exec.end) && streams::have_returned(exec.host_calls)) {
    return release_objects(objects, released);
  }
  const auto release = [](void* data) {
    const std::unique_ptr<UserObjects> held(static_cast<UserObjects*>(data));
    std::vector<gpemu_cuda_user_object*> unheld;
    {
      const Lock lock(graph_mutex());
      release_objects(*held, unheld);
    }
    destroy_objects(unheld);
  };
  auto held = std::make_unique<UserObjects>(std::move(objects));
  // Without a thread to release them, the objects live until the process ends.
  static_cast<void>(streams::call_at(exec.end, release, held.get()));
  static_cast<void>(held.release());
}

/// Runs the steps on a stream, and adds the events that they record to `recorded`.
process::Status run_steps(gpemu_cuda_exec& exec, gpemu_cuda_stream& stream,
                          std::vector<gpemu_cuda_event_handle>& recorded)
    GPEMU_REQUIRES(exec.mutex) {
  stream.stream->wait(exec.end);
  Branches branches(exec, stream);
  streams::follow(stream, &exec.host_calls);
  streams::HostCalls before;
  streams::copy_host_calls(stream, before);
  std::vector<streams::HostCalls> calls(
      exec.steps.size());  // that later steps must respect, by step.
  process::Status status = GPEMU_CUDA_SUCCESS;
  for (std::size_t i = 0; i < exec.steps.size() && status == GPEMU_CUDA_SUCCESS; ++i) {
    Step& step = exec.steps[i];
    gpemu_cuda_stream node_stream{.device = step.work.device,
                                  .stream = &branches.stream_of(static_cast<std::uint32_t>(i)),
                                  .id = stream.id,
                                  .runs_graph = true,
                                  .host_calls = before};
    for (const std::uint32_t dependency : step.dependencies) {
      streams::follow(node_stream, &calls[dependency]);
    }
    if (step.enabled) status = run_step(step, node_stream);
    const gpemu_cuda_node_parameters& node = step.work.parameters;
    if (node.kind == GPEMU_CUDA_NODE_RECORD_EVENT) recorded.push_back(node.event);
    calls[i] = std::move(node_stream.host_calls);
    branches.finish(static_cast<std::uint32_t>(i));
  }
  branches.join();
  exec.end = stream.stream->last_end();
  for (const streams::HostCalls& of_step : calls) streams::follow(stream, &of_step);
  streams::copy_host_calls(stream, exec.host_calls);
  return status;
}

process::HandleTable<gpemu_cuda_exec>& execs() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_exec>> table;
  return table.get(kMaxExecs);
}

}  // namespace

gpemu_cuda_exec* find_exec(gpemu_cuda_exec_handle handle) {
  gpemu_cuda_exec* const found = execs().find(handle);
  return found == nullptr || found->dead ? nullptr : found;
}

gpemu_cuda_exec* pin_exec(gpemu_cuda_exec_handle handle) {
  const Lock lock(graph_mutex());
  gpemu_cuda_exec* const found = find_exec(handle);
  if (found != nullptr) ++found->launching;
  return found;
}

void unpin_exec(gpemu_cuda_exec& exec) {
  std::vector<gpemu_cuda_user_object*> released;
  {
    const Lock lock(graph_mutex());
    --exec.launching;
    if (exec.dead) destroy_exec(exec, released);
  }
  destroy_objects(released);
}

process::Status instantiate(const gpemu_cuda_graph& graph, gpemu_cuda_exec** exec) {
  std::vector<Step> steps;
  UserObjects objects;
  GPEMU_CUDA_TRY(flatten(graph, {}, steps, objects));
  gpemu_cuda_exec* const created = execs().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  created->steps = std::move(steps);
  created->objects = std::move(objects);
  retain_objects(created->objects);
  *exec = created;
  return GPEMU_CUDA_SUCCESS;
}

process::Status update_exec(gpemu_cuda_exec& exec, const gpemu_cuda_graph& graph,
                            std::vector<gpemu_cuda_user_object*>& released) {
  std::vector<Step> steps;
  UserObjects objects;
  GPEMU_CUDA_TRY(flatten(graph, {}, steps, objects));
  const Lock exec_lock(exec.mutex);
  if (!has_same_form(exec.steps, steps)) {
    return GPEMU_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    exec.steps[i].work = std::move(steps[i].work);
  }
  retain_objects(objects);
  release_after_launches(exec, std::exchange(exec.objects, std::move(objects)), released);
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_exec_node(gpemu_cuda_exec& exec, gpemu_cuda_node_handle node,
                              const gpemu_cuda_node_parameters& parameters) {
  const Lock exec_lock(exec.mutex);
  Step* const step = find_step(exec, node);
  if (step == nullptr || step->work.parameters.kind != parameters.kind) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  NodeWork work;
  GPEMU_CUDA_TRY(describe_node(parameters, *step->work.device, &work));
  step->work = std::move(work);
  return GPEMU_CUDA_SUCCESS;
}

process::Status enable_exec_node(gpemu_cuda_exec& exec, gpemu_cuda_node_handle node, bool enabled) {
  const Lock exec_lock(exec.mutex);
  Step* const step = find_step(exec, node);
  // Source: cudaGraphNodeSetEnabled: only kernels, memsets and memcpys.
  if (step == nullptr || step->work.parameters.kind > GPEMU_CUDA_NODE_SET) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  step->enabled = enabled;
  return GPEMU_CUDA_SUCCESS;
}

void destroy_exec(gpemu_cuda_exec& exec, std::vector<gpemu_cuda_user_object*>& released) {
  exec.dead = true;
  if (exec.launching > 0) return;
  release_after_launches(exec, std::move(exec.objects), released);
  execs().destroy(&exec);
}

process::Status launch_exec(gpemu_cuda_exec& exec, gpemu_cuda_stream& stream) {
  std::vector<gpemu_cuda_event_handle> recorded;
  process::Status status = GPEMU_CUDA_SUCCESS;
  {
    const Lock lock(exec.mutex);
    status = run_steps(exec, stream, recorded);
  }
  // Takes the lock of graphs, which those who change an executable graph take before its own.
  for (gpemu_cuda_event_handle event : recorded) {
    if (gpemu_cuda_event* const found = streams::find_event(event)) forget_capture(*found);
  }
  return status;
}

}  // namespace gpemu::cuda
