// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: nccl.h.

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};
