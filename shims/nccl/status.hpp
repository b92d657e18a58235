// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "shim.hpp"

/// Returns NCCL's status for one of gpemu's; notes a warning if there is more to say.
int nccl_status(gpemu_cuda_status status);

/// The calling thread's last warning; empty without one. A good call does not clear it.
const char*& last_warning();

/// Exports a function a second time, with the prefix "p", as NCCL does for profilers.
#define GPEMU_PROFILING_NAME(name) \
  extern "C" __attribute__((visibility("default"), nothrow, alias(#name))) decltype(name) p##name;
