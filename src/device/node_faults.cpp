// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node_faults.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "layout.hpp"
#include "schedule.hpp"
#include "segment.hpp"

namespace gpemu::device {

using profile::Fault;
using profile::FaultKind;

NodeFaults::NodeFaults(Segment& segment, Schedule& schedule)
    : FaultTable(segment.faults()), segment_(segment), schedule_(schedule) {}

NodeFaults::Begun NodeFaults::begin_with_collective(int device, TimePoint time) const {
  Begun begun;
  for (std::size_t i = 0; i < planned().size(); ++i) {
    const Fault& fault = planned()[i];
    if (fault.gpu != device || fault.at_collective == 0) continue;
    layout::FaultRecord& record = segment_.fault_records()[i];
    if (++record.count != fault.at_collective) continue;
    record.begun_ns = std::max(to_ns(time), std::int64_t{1});
    begun.any = true;
    begun.kill = begun.kill || fault.kind == FaultKind::kKill;
  }
  return begun;
}

bool NodeFaults::count_collective(int device, TimePoint now) const {
  const Begun begun = begin_with_collective(device, now);
  if (!begun.any) return false;
  const Lock lock(schedule_.mutex);
  schedule_.place_again(now);
  schedule_.news.tell();
  return begun.kill;
}

void NodeFaults::count_collective_ahead(int device, TimePoint time) const {
  begin_with_collective(device, time);
}

bool NodeFaults::count_kernel(int device, TimePoint now) const {
  bool has_begun = false;
  for (std::size_t i = 0; i < planned().size(); ++i) {
    const Fault& fault = planned()[i];
    if (fault.gpu != device || fault.kind != FaultKind::kIllegalAddress) continue;
    layout::FaultRecord& record = segment_.fault_records()[i];
    if (record.begun_ns != 0) continue;
    // Of several processes, one has the fault.
    const bool is_due = fault.at_kernel != 0
                            ? ++record.count == fault.at_kernel
                            : now - segment_.facts().made >= fault.at && ++record.count == 1;
    if (!is_due) continue;
    record.begun_ns = std::max(to_ns(now), std::int64_t{1});
    has_begun = true;
  }
  return has_begun;
}

}  // namespace gpemu::device
