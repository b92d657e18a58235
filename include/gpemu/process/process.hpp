// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/node.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/settings.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::process {

class MpsMember;
struct Logs;
struct Recorder;
struct Writers;

/// The state of this process's attachment to its node.
enum class Phase : int { kDetached, kAttached, kForked, kFailed };

/// What exists once per process and all of this module use. The comment above each part names the
/// files that define and use it. What a MadeOnce makes has its own locks. Never destroyed, because
/// threads of the program may call while it exits.
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
  TimePoint attached;  ///< when, on the node's clock.
  std::vector<std::unique_ptr<DeviceState>> devices;
  MpsMember* mps = nullptr;  ///< of mps.hpp; null if the process is no client of MPS.
  /// Why the process could not attach.
  std::atomic<gpemu_cuda_status> failure{GPEMU_CUDA_ERROR_NO_DEVICE};

  // Of content.cpp.
  MadeOnce<Writers> writers;

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

}  // namespace gpemu::process
