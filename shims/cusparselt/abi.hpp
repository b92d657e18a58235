// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: cusparse.h.

/// cusparseStatus_t.
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 3,
};
