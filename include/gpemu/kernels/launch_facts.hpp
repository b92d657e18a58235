// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace gpemu::kernels {

/// What a launch shows about a kernel that is not recognised by its name: its arguments and its
/// code.
struct LaunchFacts {
  static constexpr int kMostPointers = 12;
  static constexpr int kMostIntegers = 12;

  /// The arithmetic of a kernel's instructions.
  enum class Arithmetic : std::uint8_t {
    kUnknown,  ///< the code cannot be read.
    kOther,
    kMultiplies,   ///< FP32 multiply-adds are a large part of the code.
    kTensorCores,  ///< some are for tensor cores.
  };

  /// Bytes from a pointer to the end of the memory that was allocated there; one for each pointer
  /// that differs from those before it.
  std::array<double, kMostPointers> extents{};
  int pointers = 0;
  std::array<double, kMostIntegers> integers{};  ///< those greater than 1, in order.
  int integer_count = 0;
  Arithmetic arithmetic = Arithmetic::kUnknown;
};

/// A guess of what a launch does.
struct GuessedWork {
  double bytes = 0;
  double flops = 0;
};

/// Guesses what a kernel moves and calculates, rather too much than too little, so that it is not
/// faster than a GPU can be. docs/design/kernels.md has the rules.
///
/// Units: `threads` of the grid. Complexity: the cube of the number of integers, no allocation.
[[nodiscard]] GuessedWork guess_work(const LaunchFacts& facts, double threads);

}  // namespace gpemu::kernels
