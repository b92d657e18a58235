// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_abi.hpp"

/// The meaning of NULL as a stream: the legacy default stream, or the thread's own.
inline Stream legacy(Stream stream) {
  return stream;
}
inline Stream per_thread(Stream stream) {
  return stream == nullptr ? reinterpret_cast<Stream>(kPerThreadStream) : stream;
}

/// Defines a function and its twin for programs compiled with per-thread default streams. `on` in
/// the body turns the caller's stream into the intended one.
#define GPEMU_TWINS(name, suffix, parameters, ...) \
  GPEMU_SHIM_EXPORT int name parameters {          \
    constexpr auto on = legacy;                    \
    __VA_ARGS__                                    \
  }                                                \
  GPEMU_SHIM_EXPORT int name##suffix parameters {  \
    constexpr auto on = per_thread;                \
    __VA_ARGS__                                    \
  }
