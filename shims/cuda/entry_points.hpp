// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

/// The answer of cuGetProcAddress for a name, from a version of CUDA on.
struct EntryPoint {
  using Function = int (*)();

  std::string_view name;
  int version;
  Function function;
  Function per_thread;  ///< for programs with per-thread default streams
};

/// Returns all of them, sorted by name, then version.
std::span<const EntryPoint> entry_points();
