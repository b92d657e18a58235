// SPDX-License-Identifier: Apache-2.0
//
// Capture: work for streams becomes nodes of a graph instead of work of the device.
#include "capture.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <unordered_set>

#include "gpemu/base/mutex.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/streams/event_state.hpp"
#include "gpemu/streams/stream_state.hpp"

#include "graph.hpp"

namespace gpemu::cuda {

/// As kRelaxedCapture.
constexpr std::int32_t kGlobal = 0;

struct Capture {
  gpemu_cuda_graph* graph = nullptr;
  bool into_given = false;  ///< the graph is the program's.
  std::int32_t mode = kGlobal;
  std::thread::id thread;
  gpemu_cuda_stream* origin = nullptr;
  std::vector<gpemu_cuda_stream*> streams;
  bool invalidated = false;
};

/// The captures that have begun and not ended. Guarded by the lock of graphs.
struct Captures {
  std::map<std::uint64_t, Capture> open;  ///< by number.
  std::uint64_t next = 1;
};

namespace {

/// cudaEventRecordExternal and cudaEventWaitExternal.
constexpr std::uint32_t kExternal = 1;

thread_local std::int32_t capture_mode = kGlobal;

Captures& all_captures() GPEMU_REQUIRES(graph_mutex()) {
  static constinit process::MadeOnce<Captures> made;
  return made.get();
}

std::map<std::uint64_t, Capture>& captures() GPEMU_REQUIRES(graph_mutex()) {
  return all_captures().open;
}

/// How many there are. Written under the lock of graphs.
constinit std::atomic<int> capture_count{0};

Capture* capture_of(std::uint64_t id) GPEMU_REQUIRES(graph_mutex()) {
  const auto found = captures().find(id);
  return found == captures().end() ? nullptr : &found->second;
}

/// Takes all streams out of a capture and forgets it.
void finish(std::uint64_t id, std::vector<gpemu_cuda_user_object*>& released, bool keep_graph)
    GPEMU_REQUIRES(graph_mutex()) {
  Capture& capture = captures().at(id);
  for (gpemu_cuda_stream* const stream : capture.streams) {
    stream->capture_id = 0;
    stream->frontier.clear();
  }
  capture.graph->is_captured_into = false;
  if (!keep_graph && !capture.into_given) destroy_graph(*capture.graph, released);
  captures().erase(id);
  --capture_count;
}

/// Returns whether all work of the capture's other streams comes before the next work of its first
/// stream.
bool is_joined(const Capture& capture) GPEMU_REQUIRES(graph_mutex()) {
  std::unordered_set<const gpemu_cuda_node*> before;
  std::vector<const gpemu_cuda_node*> open(capture.origin->frontier.begin(),
                                           capture.origin->frontier.end());
  while (!open.empty()) {
    const gpemu_cuda_node* const node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return std::all_of(
      capture.streams.begin(), capture.streams.end(), [&before](const gpemu_cuda_stream* stream) {
        return std::all_of(
            stream->frontier.begin(), stream->frontier.end(),
            [&before](const gpemu_cuda_node* node) { return before.contains(node); });
      });
}

/// Adds nodes to the dependencies of the stream's next work.
void join(gpemu_cuda_stream& stream, const std::vector<gpemu_cuda_node*>& nodes)
    GPEMU_REQUIRES(graph_mutex()) {
  for (gpemu_cuda_node* const node : nodes) {
    auto& frontier = stream.frontier;
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) {
      frontier.push_back(node);
    }
  }
}

/// Invalidates the captures whose rules were broken.
process::Status refuse(process::Status status, std::initializer_list<Capture*> broken)
    GPEMU_REQUIRES(graph_mutex()) {
  for (Capture* const capture : broken) {
    if (capture != nullptr) capture->invalidated = true;
  }
  return status;
}

/// Refuses a call because of the captures for which `is_broken` holds.
template <typename IsBroken>
process::Status refuse_if(IsBroken is_broken) {
  if (capture_count == 0) return GPEMU_CUDA_SUCCESS;
  const Lock lock(graph_mutex());
  process::Status status = GPEMU_CUDA_SUCCESS;
  for (auto& [id, capture] : captures()) {
    if (is_broken(capture)) {
      status = refuse(GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {&capture});
    }
  }
  return status;
}

/// Returns whether a capture forbids this thread unsafe calls. Source:
/// cudaThreadExchangeStreamCaptureMode.
bool forbids_unsafe_calls(const Capture& capture) {
  if (capture_mode == kRelaxedCapture) return false;
  const bool own = capture.thread == std::this_thread::get_id() && capture.mode != kRelaxedCapture;
  return own || (capture_mode == kGlobal && capture.mode == kGlobal);
}

bool is_on(const Capture& capture, const process::DeviceState& device) {
  return std::ranges::any_of(capture.streams, [&device](const gpemu_cuda_stream* stream) {
    return stream->device == &device;
  });
}

/// Adds a node to the graph that a stream captures.
process::Status capture_work(gpemu_cuda_stream& stream, NodeWork work)
    GPEMU_REQUIRES(graph_mutex()) {
  Capture* const capture = capture_of(stream.capture_id);
  if (capture == nullptr || capture->invalidated)
    return GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  gpemu_cuda_node* node = nullptr;
  GPEMU_CUDA_TRY(add_node(*capture->graph, std::move(work), stream.frontier, &node));
  stream.frontier = {node};
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

process::Status check_legacy_stream(const gpemu_cuda_stream& stream, bool invalidate) {
  if (capture_count == 0 || stream.device->default_stream != &stream) return GPEMU_CUDA_SUCCESS;
  const Lock lock(graph_mutex());
  process::Status status = GPEMU_CUDA_SUCCESS;
  for (auto& [id, capture] : captures()) {
    const bool depends = std::any_of(capture.streams.begin(), capture.streams.end(),
                                     [&stream](const gpemu_cuda_stream* other) {
                                       return other->device == stream.device &&
                                              (other->flags & streams::kNonBlockingStream) == 0;
                                     });
    if (!depends) continue;
    status = GPEMU_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (invalidate) capture.invalidated = true;
  }
  return status;
}

process::Status capture(gpemu_cuda_stream& stream, const gpemu_cuda_node_parameters& node) {
  const process::TellLater later;
  const Lock lock(graph_mutex());
  NodeWork work;
  GPEMU_CUDA_TRY(describe_node(node, *stream.device, &work));
  return capture_work(stream, std::move(work));
}

process::Status capture_operation(gpemu_cuda_stream& stream, const cost::OperationCost& cost,
                                  const gpemu_operation& operation) {
  const Lock lock(graph_mutex());
  NodeWork work{
      .cost = cost, .operation = operation, .name = operation.name, .device = stream.device};
  work.parameters.kind = GPEMU_CUDA_NODE_KERNEL;
  work.operation.arguments = nullptr;  // They end with the call.
  return capture_work(stream, std::move(work));
}

process::Status perform_on(gpemu_cuda_stream& stream, kernels::KernelWork work) {
  if (!capturing(stream)) {
    launch::perform(work, &stream);
    return GPEMU_CUDA_SUCCESS;
  }
  const Lock lock(graph_mutex());
  NodeWork node{.device = stream.device};
  node.parameters.kind = GPEMU_CUDA_NODE_EMPTY;
  node.memory = std::make_shared<const kernels::KernelWork>(std::move(work));
  return capture_work(stream, std::move(node));
}

process::Status capture_call(gpemu_cuda_stream& stream,
                             std::function<process::Status(gpemu_cuda_stream&)> queue) {
  const Lock lock(graph_mutex());
  NodeWork node{.device = stream.device, .queue = std::move(queue)};
  node.parameters.kind = GPEMU_CUDA_NODE_KERNEL;
  return capture_work(stream, std::move(node));
}

process::Status check_unsafe_call() {
  return refuse_if(forbids_unsafe_calls);
}

process::Status check_wait(const process::DeviceState& device) {
  return refuse_if([&device](const Capture& capture) {
    return forbids_unsafe_calls(capture) && is_on(capture, device);
  });
}

process::Status refuse_captures_on(const process::DeviceState& device) {
  return refuse_if([&device](const Capture& capture) { return is_on(capture, device); });
}

process::Status refuse_captured(gpemu_cuda_stream& stream) {
  if (!capturing(stream)) return GPEMU_CUDA_SUCCESS;
  const Lock lock(graph_mutex());
  return refuse(GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {capture_of(stream.capture_id)});
}

process::Status refuse_captured(const gpemu_cuda_event& event) {
  if (event.capture_id == 0) return GPEMU_CUDA_SUCCESS;
  const Lock lock(graph_mutex());
  return refuse(GPEMU_CUDA_ERROR_CAPTURED_EVENT, {capture_of(event.capture_id)});
}

process::Status capture_record(gpemu_cuda_event& event, gpemu_cuda_stream& stream,
                               std::uint32_t flags) {
  const Lock lock(graph_mutex());
  Capture* const capture = capture_of(stream.capture_id);
  if (capture == nullptr || capture->invalidated)
    return GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if ((flags & kExternal) != 0) {
    NodeWork work{.device = stream.device};
    work.parameters.kind = GPEMU_CUDA_NODE_RECORD_EVENT;
    work.parameters.event = &event;
    return capture_work(stream, std::move(work));
  }
  event.capture_id = stream.capture_id.load();
  event.captured = stream.frontier;
  return GPEMU_CUDA_SUCCESS;
}

void forget_capture(gpemu_cuda_event& event) {
  if (event.capture_id == 0) return;
  const Lock lock(graph_mutex());
  event.capture_id = 0;
  event.captured.clear();
}

process::Status capture_wait(gpemu_cuda_stream& stream, gpemu_cuda_event& event,
                             std::uint32_t flags) {
  const Lock lock(graph_mutex());
  Capture* const own = capture_of(stream.capture_id);
  Capture* const other = capture_of(event.capture_id);
  if (own != nullptr && own->invalidated) return GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own != nullptr && (flags & kExternal) != 0) {
    NodeWork work{.device = stream.device};
    work.parameters.kind = GPEMU_CUDA_NODE_WAIT_EVENT;
    work.parameters.event = &event;
    return capture_work(stream, std::move(work));
  }
  if (other == nullptr) {
    if (event.capture_id != 0) return refuse(GPEMU_CUDA_ERROR_CAPTURED_EVENT, {own});
    return event.event.recorded() ? refuse(GPEMU_CUDA_ERROR_STREAM_CAPTURE_ISOLATION, {own})
                                  : GPEMU_CUDA_SUCCESS;
  }
  if (other->invalidated) return GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own != nullptr && own != other) {
    return refuse(GPEMU_CUDA_ERROR_STREAM_CAPTURE_MERGE, {own, other});
  }
  if (own == nullptr) {
    if (stream.device->default_stream == &stream) {
      return refuse(GPEMU_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, {other});
    }
    stream.capture_id = event.capture_id.load();
    other->streams.push_back(&stream);
  }
  join(stream, event.captured);
  return GPEMU_CUDA_SUCCESS;
}

void leave_capture(gpemu_cuda_stream& stream) {
  if (!capturing(stream)) return;
  std::vector<gpemu_cuda_user_object*> released;
  {
    const Lock lock(graph_mutex());
    Capture* const capture = capture_of(stream.capture_id);
    if (capture == nullptr) return;
    if (capture->origin == &stream) {
      finish(stream.capture_id, released, false);
    } else {
      capture->invalidated = true;
      std::erase(capture->streams, &stream);
    }
  }
  destroy_objects(released);
}

process::Status begin_capture(gpemu_cuda_stream& stream, std::int32_t mode,
                              gpemu_cuda_graph_handle graph) {
  if (stream.device->default_stream == &stream) return GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const Lock lock(graph_mutex());
  if (stream.capture_id != 0) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
  gpemu_cuda_graph* const into = graph == nullptr ? create_graph() : find_graph(graph);
  if (into == nullptr) {
    return graph == nullptr ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  if (into->is_captured_into || into->is_child) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  into->is_captured_into = true;
  const std::uint64_t id = all_captures().next++;
  captures()[id] = {.graph = into,
                    .into_given = graph != nullptr,
                    .mode = mode,
                    .thread = std::this_thread::get_id(),
                    .origin = &stream,
                    .streams = {&stream}};
  ++capture_count;
  stream.frontier.clear();
  stream.capture_id = id;
  return GPEMU_CUDA_SUCCESS;
}

process::Status end_capture(gpemu_cuda_stream& stream, gpemu_cuda_graph** graph) {
  process::Status status = GPEMU_CUDA_SUCCESS;
  std::vector<gpemu_cuda_user_object*> released;
  {
    const Lock lock(graph_mutex());
    const Capture* const capture = capture_of(stream.capture_id);
    if (capture == nullptr) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != &stream) return GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != kRelaxedCapture && capture->thread != std::this_thread::get_id()) {
      return GPEMU_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    if (capture->invalidated) {
      status = GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!is_joined(*capture)) {
      status = GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    *graph = status == GPEMU_CUDA_SUCCESS ? capture->graph : nullptr;
    finish(stream.capture_id, released, status == GPEMU_CUDA_SUCCESS);
  }
  destroy_objects(released);
  return status;
}

process::Status describe_capture(gpemu_cuda_stream& stream, gpemu_cuda_capture_info* info) {
  GPEMU_CUDA_TRY(check_legacy_stream(stream, false));
  *info = {};
  if (!capturing(stream)) return GPEMU_CUDA_SUCCESS;
  const Lock lock(graph_mutex());
  const Capture* const capture = capture_of(stream.capture_id);
  if (capture == nullptr) return GPEMU_CUDA_SUCCESS;
  *info = {.status = capture->invalidated ? 2 : 1,
           .id = stream.capture_id,
           .graph = capture->graph,
           .dependencies = stream.frontier.data(),
           .dependency_count = stream.frontier.size()};
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_capture_dependencies(gpemu_cuda_stream& stream,
                                         const gpemu_cuda_node_handle* dependencies,
                                         std::size_t count, bool add) {
  const Lock lock(graph_mutex());
  const Capture* const capture = capture_of(stream.capture_id);
  if (capture == nullptr) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalidated) return GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GPEMU_CUDA_TRY(check_nodes(*capture->graph, dependencies, count));
  if (!add) stream.frontier.clear();
  join(stream, {dependencies, dependencies + count});
  return GPEMU_CUDA_SUCCESS;
}

void exchange_capture_mode(std::int32_t* mode) {
  std::swap(*mode, capture_mode);
}

}  // namespace gpemu::cuda
