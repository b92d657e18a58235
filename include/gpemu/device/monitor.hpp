// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// The driver that tools report, and its CUDA, which is kCudaDriverVersion of the shims. The
/// driver's number is from branch 595, which belongs to that version. Tools only print it: nothing
/// depends on it.
inline constexpr char kDriverVersion[] = "595.45.04";
inline constexpr char kCudaVersion[] = "13.2";

/// One process's part in a DeviceLoad.
struct ProcessLoad {
  pid_t pid = 0;
  std::uint64_t foreign_namespace = 0;  ///< as in ProcessSnapshot.
  double compute = 0;                   ///< as DeviceLoad::compute.
  double power_w = 0;                   ///< its part of the power that work adds to the idle power.
};

/// The load of a device over a period.
struct DeviceLoad {
  TimePoint start{};
  TimePoint end{};
  /// Shares of the period, 0 to 1, for which each engine worked.
  double compute = 0;
  double copy_h2d = 0;
  double copy_d2h = 0;
  double h2d_bytes_per_s = 0;  ///< over the PCIe link, to the device, from the host or another one.
  double d2h_bytes_per_s = 0;  ///< likewise, from the device.
  double power_w = 0;
  double temperature_c = 0;
  double sm_clock_mhz = 0;    ///< 0 if it is not known.
  double clock_share = 1;     ///< the part of the clock that faults leave.
  int performance_state = 0;  ///< 0 (in use) or 8.
  std::vector<ProcessLoad> processes;
};

/// Watches a node's devices. It turns the engines' counters into the load over the last period, as
/// NVML does.
///
/// Nothing runs in the background: a period ends with the first reading at least `min_period` after
/// the end of the previous period. Only load() blocks, and only for its first period: snapshots are
/// read from the node's file, which waits for nobody. Thread safety: any thread.
class Monitor {
 public:
  /// Source: NVML's documentation of nvmlUtilization_t: the sample period is between 1/6 s and 1 s,
  /// depending on the product.
  static constexpr Duration kMinPeriod = std::chrono::nanoseconds(1'000'000'000 / 6);

  /// Begins the first period of all devices. Must not outlive `clock`.
  /// Errors: here and below, those of NodeView::device_snapshot.
  [[nodiscard]] static Result<std::unique_ptr<Monitor>> create(std::shared_ptr<NodeView> node,
                                                               sim::Clock& clock,
                                                               Duration min_period = kMinPeriod);

  [[nodiscard]] const NodeView& node() const { return *node_; }

  /// Returns the load over the last period that ended. A device's first reading blocks until its
  /// first period ends: `min_period` of the clock's time after create().
  /// Requires: 0 <= index < node().device_count().
  [[nodiscard]] Result<DeviceLoad> load(int index) GPEMU_EXCLUDES(mutex_);

  /// Returns the state of a device now. Requires: 0 <= index < node().device_count().
  [[nodiscard]] Result<DeviceSnapshot> snapshot(int index) const;

  /// Returns the energy that a device has used since the host started, as NVML counts it since the
  /// driver was loaded. Units: joules.
  [[nodiscard]] Result<double> energy_j(int index) const;

  /// For fork handlers: otherwise a child could inherit a lock that is held by a thread that does
  /// not exist in the child. No thread waits for a lock or a period while it holds this one, so
  /// lock_for_fork() blocks only briefly.
  void lock_for_fork() GPEMU_NOT_ANALYSED { mutex_.lock(); }
  void unlock_after_fork() GPEMU_NOT_ANALYSED { mutex_.unlock(); }

 private:
  struct Watched {
    TimePoint start;
    DeviceSnapshot before;  ///< at the start of the current period.
    DeviceLoad last;        ///< of the previous period; ends at TimePoint() if there was none.
  };
  Monitor(std::shared_ptr<NodeView> node, sim::Clock& clock, Duration min_period,
          std::vector<Watched> devices);

  std::shared_ptr<NodeView> node_;
  sim::Clock& clock_;
  const Duration min_period_;
  Mutex mutex_;
  std::vector<Watched> devices_ GPEMU_GUARDED_BY(mutex_);
};

/// Returns the load of a device between two of its snapshots. Requires: start < end.
[[nodiscard]] DeviceLoad load_between(const DeviceSnapshot& before, const DeviceSnapshot& after,
                                      TimePoint start, TimePoint end);

/// Returns the temperature that a device reaches at that power: linear between
/// kAmbientTemperatureC at zero power and kFullTemperatureC at the board's limit.
[[nodiscard]] double temperature_c(const DeviceSnapshot& device, double power);

/// Returns the clock of a device that computes for the share `compute` of the time: the clock at
/// which kernels run if it computed at all, else the base clock, if that is lower. Units: MHz; 0 if
/// it is not known.
[[nodiscard]] double sm_clock_mhz(const DeviceSnapshot& device, double compute);

/// A data-centre board in 30 degC air is at about 80 degC under full load, below the slowdown at
/// 87 degC. Source: thresholds that nvidia-smi -q prints for a Tesla V100-PCIE.
inline constexpr double kAmbientTemperatureC = 30;
inline constexpr double kFullTemperatureC = 80;

}  // namespace gpemu::device
