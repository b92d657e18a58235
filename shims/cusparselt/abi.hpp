// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUSPARSELT_VERSION. Source: cusparseLt.h of 0.8.1.
constexpr int kVersion = 801;

// Source: cusparse.h.

/// cusparseStatus_t.
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 3,
  kNotSupported = 10,
};
