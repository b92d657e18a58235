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

struct gpemu_cuda_exec;
struct gpemu_cuda_graph;
struct gpemu_cuda_node;
struct gpemu_cuda_user_object;

namespace gpemu::cuda {

template <typename Object>
class HandleTable;
class HostFunctions;
class Mover;
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

/// Everything that exists once per process. Each part is defined and used in the file named above
/// it. Never destroyed, because threads of the program may call while it exits.
struct Process {
  // Of attach.hpp and context.hpp.
  Mutex mutex;
  std::atomic<Phase> phase{Phase::kDetached};
  /// Read when the process attaches and never again: the program may change its environment, which
  /// races with every later getenv.
  std::optional<Settings> settings;
  std::unique_ptr<sim::Clock> clock;
  bool time_is_real =
      false;  ///< virtual time stands still while no thread waits; valid as the clock.
  std::shared_ptr<device::Node> node;
  std::vector<std::unique_ptr<DeviceState>> devices;

  // Of stream_state.hpp.
  MadeOnce<HandleTable<gpemu_cuda_stream>> streams;
  MadeOnce<HandleTable<gpemu_cuda_event>> events;
  std::atomic<std::uint64_t> next_stream_id{1};

  MadeOnce<Memory> memory;
  MadeOnce<PhysicalMemory> physical_memory;
  MadeOnce<Pools> pools;
  MadeOnce<Imports> imports;
  MadeOnce<Mover> mover;
  MadeOnce<Writers> writers;

  /// How many host functions have been queued and have not returned.
  std::atomic<std::uint64_t> open_host_calls{0};
  MadeOnce<HostFunctions> host_functions;

  // Of kernel_state.hpp.
  MadeOnce<HandleTable<gpemu_cuda_kernel>> kernels;
  MadeOnce<HandleTable<gpemu_cuda_module>> modules;
  MadeOnce<KernelRegistry> registry;

  // Of graph.hpp.
  Mutex graph_mutex;
  MadeOnce<HandleTable<gpemu_cuda_graph>> graphs;
  MadeOnce<HandleTable<gpemu_cuda_node>> nodes;
  MadeOnce<HandleTable<gpemu_cuda_user_object>> user_objects;
  MadeOnce<HandleTable<gpemu_cuda_exec>> execs;
  MadeOnce<Captures> captures;
  std::atomic<int> capture_count{0};

  // A child after fork makes its own recorder.
  Mutex recorder_mutex;
  std::atomic<Recorder*> recorder{nullptr};

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
