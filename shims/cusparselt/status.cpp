// SPDX-License-Identifier: Apache-2.0
#include "shim.hpp"

namespace {

// Source: cusparse.h, cusparseStatus_t.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 3;

}  // namespace

GPEMU_SHIM_EXPORT int cusparseLtGetVersion(const void*, int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = 801;  // Source: cusparseLt.h of 0.8.1, CUSPARSELT_VERSION
  return kSuccess;
}
