// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Source: cufft.h, cufftResult.
constexpr int kSuccess = 0;
constexpr int kInvalidPlan = 1;
constexpr int kInvalidType = 3;
constexpr int kInvalidValue = 4;
constexpr int kExecFailed = 6;
constexpr int kInvalidSize = 8;
