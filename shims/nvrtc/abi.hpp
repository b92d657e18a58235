// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Source: nvrtc.h, nvrtcResult.
constexpr int kSuccess = 0;
constexpr int kInvalidInput = 3;
constexpr int kInvalidProgram = 4;
constexpr int kCompilation = 6;
