// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: cupti_result.h.

/// CUptiResult.
enum Status : int {
  kSuccess = 0,
  kInvalidParameter = 1,
  kNotInitialized = 15,
  kNotSupported = 27,
  kUnknown = 999,
};
