// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "formula.hpp"

namespace gpemu::cuda {

/// The most dimensions of PyTorch's element-wise kernels. Source: MAX_DIMS in OffsetCalculator.cuh.
inline constexpr int kMostDimensions = 25;

/// Positions of elements in memory: those of a linear index in dimensions, the first fastest.
struct Places {
  int dimensions = 1;
  std::array<Bytes, kMostDimensions> sizes{};
  std::array<Bytes, kMostDimensions> strides{};  ///< in bytes.

  [[nodiscard]] Bytes count() const;
  /// Bytes from the first element's start to the last one's.
  [[nodiscard]] Bytes extent() const;
  [[nodiscard]] Bytes offset(Bytes index) const;
};

/// Elements side by side.
[[nodiscard]] Places in_a_row(Bytes count, Bytes element_bytes);

struct TensorView {
  std::uint64_t address = 0;
  NumberType type = NumberType::kUnknown;  ///< in memory.
  Places places;
};

/// An element-wise kernel: tensor 0 is the result.
struct ElementWork {
  Formula formula;
  FunctorState state;
  std::array<TensorView, 4> tensors;
};

/// Computes it where all inputs are known and the tensors are small. Returns whether it did.
[[nodiscard]] bool compute_elements(const ElementWork& work);

enum class Reduction : std::uint8_t {
  kSum,
  kMean,  ///< times the factor.
  kProduct,
  kMaximum,
  kMinimum,
  kAll,
  kAny,
  kArgMaximum,
  kArgMinimum,
  kMaximumWithPlace,  ///< a second result takes the place.
  kMinimumWithPlace,
  kUnknown,
};

/// Reads what ReduceOp does from its operations' demangled name.
[[nodiscard]] Reduction read_reduction(std::string_view operations);

struct ReductionWork {
  Reduction reduction = Reduction::kUnknown;
  double factor = 1;
  std::uint64_t input = 0;
  std::array<std::uint64_t, 2> outputs{};
  NumberType input_type = NumberType::kUnknown;
  NumberType output_type = NumberType::kUnknown;
  Places within;        ///< inputs of one output.
  Places input_places;  ///< of each output's first input.
  Places output_places;
};

/// As compute_elements.
[[nodiscard]] bool compute_reduction(const ReductionWork& work);

}  // namespace gpemu::cuda
