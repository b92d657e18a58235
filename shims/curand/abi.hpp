// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Source: curand.h, curandStatus_t.
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 101;
constexpr int kTypeError = 103;
constexpr int kOutOfRange = 104;
constexpr int kLengthNotMultiple = 105;
constexpr int kLaunchFailure = 201;
constexpr int kInitializationFailed = 203;
