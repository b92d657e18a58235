// SPDX-License-Identifier: Apache-2.0
#include "run_faults.hpp"

#include <algorithm>

namespace gpemu::train {

using profile::Fault;
using profile::FaultKind;

RunFaults::RunFaults(const StepPlan& plan, std::span<device::Device* const> devices)
    : link_(plan.link) {
  node_ = &devices.front()->node();
  for (const device::Device* const device : devices) devices_.push_back(device->index());
  const auto gpu_of = [this](int device) {
    return static_cast<int>(std::ranges::find(devices_, device) - devices_.begin());
  };
  const int count = static_cast<int>(devices_.size());
  const int in_machine = std::max(plan.gpus_per_node, 1);
  for (const Fault& fault : node_->faults().planned()) {
    Known known{.fault = fault, .gpu = gpu_of(fault.gpu)};
    if (known.gpu == count) continue;
    const bool is_of_link =
        fault.kind == FaultKind::kSlowLink || fault.kind == FaultKind::kBrokenLink;
    if (is_of_link) {
      // Any GPU beside it in its machine stands for all peers.
      const int first = known.gpu / in_machine * in_machine;
      known.peer = fault.peer ? gpu_of(*fault.peer) : known.gpu == first ? first + 1 : first;
      const bool is_inside = known.peer < count && known.peer / in_machine == first / in_machine;
      if (!is_inside || fault.link != link_) continue;
    }
    faults_.push_back(known);
  }
}

void RunFaults::count_exchange(TimePoint time) {
  // Once for each GPU that has such faults.
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Known& known = faults_[i];
    if (known.fault.at_collective == 0) continue;
    const auto is_same = [&known](const Known& other) {
      return other.fault.at_collective != 0 && other.gpu == known.gpu;
    };
    if (std::find_if(faults_.begin(), faults_.end(), is_same) - faults_.begin() !=
        static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    node_->faults().count_collective_ahead(known.fault.gpu, time);
  }
}

double RunFaults::link_share(TimePoint now) const {
  double share = 1;
  for (const Known& known : faults_) {
    if (known.fault.kind != FaultKind::kSlowLink) continue;
    share = std::min(
        share, node_->faults().link_share(
                   known.fault.gpu, devices_[static_cast<std::size_t>(known.peer)], link_, now));
  }
  return share;
}

std::optional<RunFailure> RunFaults::broken_link(TimePoint now) const {
  for (const Known& known : faults_) {
    if (known.fault.kind != FaultKind::kBrokenLink) continue;
    const int peer = devices_[static_cast<std::size_t>(known.peer)];
    if (!node_->faults().nvlink_is_broken(known.fault.gpu, peer, now)) continue;
    return RunFailure{.kind = FaultKind::kBrokenLink, .gpu = known.gpu, .time = now};
  }
  return std::nullopt;
}

std::optional<RunFailure> RunFaults::first_between(TimePoint from, TimePoint end) const {
  std::optional<RunFailure> first;
  for (const Known& known : faults_) {
    const bool is_kill = known.fault.kind == FaultKind::kKill;
    if (!is_kill && known.fault.kind != FaultKind::kLost) continue;
    // A node of the run's own was made for it; on others, what was before concerned other
    // processes.
    const TimePoint since = node_->temporary() ? TimePoint::min() : from;
    const TimePoint begin = is_kill ? node_->faults().killed_at(known.fault.gpu, since)
                                    : node_->faults().lost_from(known.fault.gpu, since);
    const TimePoint time = std::max(begin, from);
    if (time >= (first ? first->time : end)) continue;
    first = {.kind = known.fault.kind, .gpu = known.gpu, .time = time};
  }
  return first;
}

}  // namespace gpemu::train
