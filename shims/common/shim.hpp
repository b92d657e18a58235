// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpemu/cuda.h"

/// Declares a function that a shim exports: as C and visible. functions.def must list it.
#define GPEMU_SHIM_EXPORT extern "C" __attribute__((visibility("default")))

/// Returns a pointer as the number that gpemu/cuda.h takes for an address.
inline uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

/// Returns an address as a pointer; device addresses must not be dereferenced.
inline void* pointer_to(uint64_t address) {
  return reinterpret_cast<void*>(address);
}
