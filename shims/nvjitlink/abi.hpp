// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: nvJitLink.h.

/// nvJitLinkResult.
enum Status : int {
  kSuccess = 0,
  kInternalError = 6,
  kNullInput = 10,
};
