// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/arguments.hpp"

namespace gpemu::kernels {

/// Sizes and strides of a tensor that PyTorch's concatenation reads or writes, in elements. Source:
/// struct TensorSizeStride in aten/src/ATen/native/cuda/Shape.cu.
struct ConcatenatedShape {
  static constexpr int kMostDimensions = 4;
  std::array<std::uint32_t, kMostDimensions> sizes{}, strides{};
};

/// The inputs in the argument of PyTorch's concatenation: of each the address, the offset along the
/// dimension, the size there, the number of elements, whether it is contiguous, and the shape.
/// Requires: the argument lives as long, and input < most_inputs. Source: struct
/// CatArrInputTensorMetadata in Shape.cu.
class ConcatenatedInputs {
 public:
  ConcatenatedInputs(const void* argument, int most_inputs)
      : argument_(argument), most_(static_cast<Bytes>(most_inputs)) {}

  [[nodiscard]] std::uint64_t address(Bytes input) const {
    return read<std::uint64_t>(argument_, input * sizeof(std::uint64_t));
  }
  [[nodiscard]] Bytes offset(Bytes input) const { return number(0, input); }
  [[nodiscard]] Bytes size(Bytes input) const { return number(1, input); }
  [[nodiscard]] Bytes elements(Bytes input) const { return number(2, input); }
  [[nodiscard]] ConcatenatedShape shape(Bytes input) const {
    const Bytes flags = number_at(3, 0), shapes = flags + (most_ + 3) / 4 * 4;
    return read<ConcatenatedShape>(argument_, shapes + input * sizeof(ConcatenatedShape));
  }

 private:
  [[nodiscard]] Bytes number_at(Bytes list, Bytes input) const {
    return most_ * sizeof(std::uint64_t) + (list * most_ + input) * sizeof(std::uint32_t);
  }
  [[nodiscard]] Bytes number(Bytes list, Bytes input) const {
    return read<std::uint32_t>(argument_, number_at(list, input));
  }

  const void* argument_;
  Bytes most_;
};

}  // namespace gpemu::kernels
