// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: nvrtc.h.

/// nvrtcResult.
enum Status : int {
  kSuccess = 0,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kCompilation = 6,
  kInternalError = 11,
};
