// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {

/// How many elements a launch writes at a pointer, by its other arguments and its grid: a product
/// such as "gx*2+6*3", in which "+" binds before "*" and "/":
///
///     3    the kernel's argument 3, an integer
///     gx   the grid's size in x; also gy and gz
///     by   the block's size in y
///     #2   the number 2
///     t0   the kernel's template argument 0, a number
class ElementCount {
 public:
  /// Reads a formula. Returns nothing if it is malformed or names an argument that is no integer of
  /// 4 or 8 bytes.
  [[nodiscard]] static std::optional<ElementCount> read(std::string_view formula,
                                                        const KernelName& kernel);

  /// Returns the number in a launch: 0 if a factor is negative, and at most 2^40.
  [[nodiscard]] Bytes of(const gpemu_cuda_launch& launch) const;

 private:
  struct Term {
    enum class Kind : std::uint8_t { kArgument, kGrid, kBlock, kNumber };
    Kind kind = Kind::kNumber;
    std::uint8_t bytes = 0;  ///< of an argument.
    std::uint32_t value = 0;
  };
  struct Factor {
    std::vector<Term> sum;
    bool divides = false;
  };

  [[nodiscard]] static std::optional<Term> read_term(std::string_view text,
                                                     const KernelName& kernel);
  [[nodiscard]] static std::int64_t value_of(const Term& term, const gpemu_cuda_launch& launch);

  std::vector<Factor> factors_;
};

/// Returns the size of an integer by its type, or 0 for other types.
[[nodiscard]] std::uint8_t integer_bytes(std::string_view type);

}  // namespace gpemu::kernels
