// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/ranks/collective.hpp"
#include "gpemu/ranks/communicator.hpp"

namespace gpemu::ranks {

/// Counts, for those who watch, a copy between two devices on the links that it crosses.
void count_peer_copy(const process::DeviceState& target, const process::DeviceState& source,
                     Bytes bytes);

/// The same for what a rank sends and receives in a collective, as NCCL's rings move it. `place`:
/// its own.
void count_collective(const Communicator& communicator, const CollectiveCall& call, Place place);

/// Returns what a rank sends to other ranks and receives from them. Over all ranks, as much is sent
/// as is received. Requires: call_fits().
[[nodiscard]] device::LinkTraffic traffic_of(const CollectiveCall& call, Place place);

}  // namespace gpemu::ranks
