// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::memory {

using kernels::PlainMove;

/// Performs moves. Returns false if nothing is known of their sources.
[[nodiscard]] bool perform_moves(const std::vector<PlainMove>& moves, kernels::WriterId writer);

}  // namespace gpemu::memory
