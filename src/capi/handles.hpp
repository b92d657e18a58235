// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <sys/types.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/device/compute_shares.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/memory_limits.hpp"
#include "gpemu/device/rendezvous.hpp"
#include "gpemu/gpemu.h"
#include "gpemu/profile/database.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/step/step_cost.hpp"

/// What the handles of the C interface stand for.

struct gpemu_node {
  std::shared_ptr<gpemu::sim::Clock> clock;
  std::shared_ptr<gpemu::device::Node> node;
  gpemu::device::MemoryLimits limits{};   ///< of this process, on a node that others share.
  gpemu::device::ComputeShares shares{};  ///< likewise.
};

struct gpemu_device {
  std::shared_ptr<gpemu::sim::Clock> clock;
  // Deleted before the clock that it refers to: members end in reverse order.
  std::shared_ptr<gpemu::device::Device> device;
};

struct gpemu_stream {
  gpemu_device device;
  std::unique_ptr<gpemu::device::Stream> owned;  ///< null for the default stream.
  gpemu::device::Stream* stream;
};

struct gpemu_event {
  gpemu::Mutex mutex;
  gpemu::device::Event event GPEMU_GUARDED_BY(mutex);
  /// Of the stream that recorded it.
  std::shared_ptr<gpemu::sim::Clock> clock GPEMU_GUARDED_BY(mutex);
  pid_t process GPEMU_GUARDED_BY(mutex) = 0;  ///< the one that recorded it.
};

struct gpemu_rendezvous {
  std::shared_ptr<gpemu::sim::Clock> clock;
  std::unique_ptr<gpemu::device::Rendezvous> party;
};

struct gpemu_cost_model {
  gpemu::step::StepCostModel model;
};

struct gpemu_database {
  gpemu::Mutex mutex;
  gpemu::profile::Database database GPEMU_GUARDED_BY(mutex);
};

namespace gpemu {

/// One for all nodes: events of two handles on a node can be compared.
inline const std::shared_ptr<sim::Clock>& real_clock() {
  static const auto* const clock =
      new std::shared_ptr<sim::Clock>(std::make_shared<sim::RealClock>());
  return *clock;
}

}  // namespace gpemu
