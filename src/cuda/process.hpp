// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

#include "device_state.hpp"
#include "made_once.hpp"
#include "settings.hpp"

struct gpemu_cuda_comm;
struct gpemu_cuda_exec;
struct gpemu_cuda_graph;
struct gpemu_cuda_node;
struct gpemu_cuda_user_object;

namespace gpemu::cuda {

class Carrier;
template <typename Object>
class HandleTable;
class HostFunctions;
class Mover;
class MpsMember;
struct Captures;
struct Imports;
struct KernelRegistry;
struct Logs;
struct Memory;
struct PhysicalMemory;
struct Pools;
struct Recorder;
struct Writers;

/// The state of this process's attachment to its node.
enum class Phase : int { kDetached, kAttached, kForked, kFailed };

/// Everything that exists once per process. The comment above each part names the files that define
/// and use it. What a MadeOnce makes has its own locks, unless the comment names another. Never
/// destroyed, because threads of the program may call while it exits.
struct Process {
  // Of attach.hpp and context.hpp. `mutex` guards changes of `phase`, and the making and the end of
  // contexts. What follows `phase` is written under `mutex` before `phase` becomes kAttached and is
  // constant afterwards, so it is read without a lock, but only once the process has attached. For
  // what guards a device, see DeviceState.
  Mutex mutex;
  std::atomic<Phase> phase{Phase::kDetached};
  /// Read when the process attaches and never again: the program may change its environment, which
  /// races with every later getenv.
  std::optional<Settings> settings;
  std::unique_ptr<sim::Clock> clock;
  bool time_is_real = false;  ///< virtual time stands still while no thread waits.
  std::shared_ptr<device::Node> node;
  std::vector<std::unique_ptr<DeviceState>> devices;
  MpsMember* mps = nullptr;  ///< of mps.hpp; null if the process is no client of MPS.
  /// Why the process could not attach.
  std::atomic<gpemu_cuda_status> failure{GPEMU_CUDA_ERROR_NO_DEVICE};

  // Of stream_state.hpp and event_state.hpp.
  MadeOnce<HandleTable<gpemu_cuda_stream>> streams;
  std::atomic<std::uint64_t> next_stream_id{1};
  MadeOnce<HandleTable<gpemu_cuda_event>> events;

  // Of memory_state.hpp and, guarded by the mutex of `memory`, of vmm.cpp.
  MadeOnce<Memory> memory;
  MadeOnce<PhysicalMemory> physical_memory;

  // Of pool.cpp, ipc.cpp, mover.hpp and content.cpp.
  MadeOnce<Pools> pools;
  MadeOnce<Imports> imports;
  MadeOnce<Mover> mover;
  MadeOnce<Writers> writers;

  // Of communicator.hpp and carrier.hpp.
  MadeOnce<HandleTable<gpemu_cuda_comm>> communicators;
  MadeOnce<Carrier> carrier;

  // Of host_calls.hpp and host_functions.cpp.
  /// How many host functions have been queued and have not returned. Written under the lock of
  /// `host_functions`.
  std::atomic<std::uint64_t> open_host_calls{0};
  MadeOnce<HostFunctions> host_functions;

  // Of kernel_state.hpp.
  MadeOnce<HandleTable<gpemu_cuda_kernel>> kernels;
  MadeOnce<HandleTable<gpemu_cuda_module>> modules;
  MadeOnce<KernelRegistry> registry;

  // Of graph.hpp, user_objects.hpp, exec.hpp and capture.cpp. For what `graph_mutex` guards, see
  // graph_mutex().
  Mutex graph_mutex;
  MadeOnce<HandleTable<gpemu_cuda_graph>> graphs;
  MadeOnce<HandleTable<gpemu_cuda_node>> nodes;
  MadeOnce<HandleTable<gpemu_cuda_user_object>> user_objects;
  MadeOnce<HandleTable<gpemu_cuda_exec>> execs;
  MadeOnce<Captures> captures;
  std::atomic<int> capture_count{0};  ///< written under `graph_mutex`.

  // Of recorder.cpp. A child after fork makes its own recorder.
  Mutex recorder_mutex;
  std::atomic<Recorder*> recorder{nullptr};  ///< written under `recorder_mutex`.

  // Of log.cpp.
  MadeOnce<Logs> logs;
};

namespace detail {

/// A variable with constant initialisation, so that it can be used without checking whether it was
/// made.
union ProcessStorage {
  constexpr ProcessStorage() : process{} {}
  ProcessStorage(const ProcessStorage&) = delete;
  ProcessStorage& operator=(const ProcessStorage&) = delete;
  ~ProcessStorage() {}  // NOLINT(modernize-use-equals-default): that would be deleted.

  Process process;
};
inline constinit ProcessStorage process_storage;

}  // namespace detail

/// Returns the state of this process.
[[nodiscard]] inline Process& process() {
  return detail::process_storage.process;
}

/// Guards all graphs, captures and user objects, and the capture state of streams and events.
[[nodiscard]] inline Mutex& graph_mutex() {
  return process().graph_mutex;
}

}  // namespace gpemu::cuda
