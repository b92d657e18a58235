// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/device/node_view.hpp"

namespace gpemu::containers {

/// What a container has had of a GPU that several share.
struct TenantUse {
  Duration busy{};     ///< for so long, the multiprocessors worked for it.
  double compute = 0;  ///< the part of the time between the last two looks for which they did.
  Bytes memory_held = 0;
};

/// A GPU of a pool's machine. Sums are of all its containers since the monitor began.
struct GpuUse {
  device::DeviceSnapshot now;    ///< of its container's node; of the machine's if it has none.
  device::DeviceLoad load;       ///< between the last two looks.
  int xid = 0;                   ///< the last one that a driver would have reported; 0: none.
  Duration busy{};               ///< for so long, the multiprocessors worked.
  double energy_j = 0;           ///< since the host started.
  Bytes received = 0, sent = 0;  ///< over PCIe.
  Bytes over_nvlinks = 0;        ///< in both directions.
  /// MIG divides it for containers; what these do is not summed.
  bool is_divided = false;
  std::map<int, TenantUse> tenants;  ///< by number (device::ComputeShare).
};

/// Watches the GPUs of a GpuPool, from another process if need be. What containers write is not
/// trusted: it can make their own numbers wrong, and no others.
///
/// Thread safety: none.
class PoolMonitor {
 public:
  /// `folder`: of the pool (GpuPoolOptions). Errors: kNotFound if no pool has it; those of
  /// NodeView::open.
  [[nodiscard]] static Result<PoolMonitor> open(std::filesystem::path folder);

  /// Returns all GPUs of the machine, by number. What a container does that gets its GPUs and loses
  /// them to another between two looks is missed. Errors: as open().
  [[nodiscard]] Result<std::vector<GpuUse>> look();

 private:
  /// A node of one or more containers, or of the machine.
  struct Watched {
    std::shared_ptr<device::NodeView> view;
    TimePoint looked;
    std::vector<device::DeviceSnapshot> before;
  };
  /// What has been summed for a GPU.
  struct Sums {
    Duration busy{};
    double work_j = 0;  ///< the energy beyond that of an idle board.
    Bytes received = 0, sent = 0, over_nvlinks = 0;
    std::map<int, Duration> tenants;
  };
  using Uses = std::map<std::string, GpuUse>;  ///< by UUID.

  explicit PoolMonitor(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// Begins to watch nodes that are new: they have done nothing before `since`.
  void find_nodes(TimePoint since);
  /// Adds up what a node's devices have done since the last look.
  void look_at(Watched& watched, Uses& uses);
  void add(const device::DeviceSnapshot& before, const device::DeviceSnapshot& now, Duration period,
           GpuUse& use);

  std::filesystem::path folder_;
  TimePoint looked_;                      ///< the last time.
  std::map<std::string, Watched> nodes_;  ///< by folder and inode.
  std::map<std::string, Sums> sums_;      ///< by UUID.
};

}  // namespace gpemu::containers
