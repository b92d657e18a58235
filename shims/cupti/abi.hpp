// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// CUPTI_API_VERSION. Source: cupti_version.h of CUDA 12.8 and 13.2.
#if GPEMU_CUDA_MAJOR == 12
constexpr uint32_t kVersion = 26;
#else
constexpr uint32_t kVersion = 130202;
#endif

// Source: cupti_result.h.

/// CUptiResult.
enum Status : int {
  kSuccess = 0,
  kInvalidParameter = 1,
  kNotInitialized = 15,
  kNotSupported = 27,
  kUnknown = 999,
};
