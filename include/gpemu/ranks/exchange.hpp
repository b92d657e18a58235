// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpemu/process/status.hpp"
#include "gpemu/ranks/communicator.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::ranks {

/// A collective of one rank that is being queued.
struct Exchange {
  std::shared_ptr<Communicator> communicator;
  CollectiveCall call;
  gpemu_cuda_stream* stream = nullptr;  ///< of the program; its host functions come first.
  std::uint64_t number = 0;
};

/// Returns whether a call's source and destination are memory of this process.
[[nodiscard]] bool is_in_memory(const CollectiveCall& call, Place place);

/// Posts the rank's source for the others: at once, or by the mover if it is large or not there
/// yet. Returns the processes that waited for it, which the caller wakes after the rank has
/// arrived, because the arrival may wake them, too. Requires: the call was
/// announced, and the rank has not arrived yet.
[[nodiscard]] std::vector<Communicator::Awaiting> post_source(const Exchange& exchange);

/// Fills the rank's destination with what others have posted, before `end`, or says that it is not
/// computed. Requires: post_source() was called.
void take_result(const Exchange& exchange, const device::Moment& end);

}  // namespace gpemu::ranks
