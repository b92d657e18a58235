// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpemu/cuda.h"

/// Declares a function that a stand-in exports: as C and visible. functions.def must list it.
#define GPEMU_SHIM_EXPORT extern "C" __attribute__((visibility("default")))
