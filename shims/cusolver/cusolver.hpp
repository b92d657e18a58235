// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "handle_table.hpp"
#include "shim.hpp"

/// The state of a handle.
struct Solver {
  gpemu_cuda_stream_handle stream;
};
