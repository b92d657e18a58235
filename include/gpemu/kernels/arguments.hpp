// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

namespace gpemu::kernels {

/// Reads a value at an offset of an argument, which may be aligned in any way.
template <typename T>
[[nodiscard]] T read(const void* from, Bytes offset = 0) {
  T value{};
  std::memcpy(&value, static_cast<const std::byte*>(from) + offset, sizeof(value));
  return value;
}

/// Returns where a member of 8 bytes comes in a struct after others that end at an offset.
[[nodiscard]] constexpr Bytes align(Bytes offset) {
  return (offset + 7) / 8 * 8;
}

[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[nodiscard]] inline Bytes threads_of(const gpemu_cuda_launch& launch) {
  Bytes threads = 1;
  for (int i = 0; i < 3; ++i) threads *= Bytes{launch.grid[i]} * launch.block[i];
  return threads;
}

}  // namespace gpemu::kernels
