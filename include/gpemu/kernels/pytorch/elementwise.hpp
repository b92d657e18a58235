// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/code_facts.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/number.hpp"
#include "gpemu/kernels/pytorch/formula.hpp"

namespace gpemu::kernels {

/// PyTorch's fill over a contiguous tensor: every element takes the functor's value.
struct FillEffect {
  std::uint32_t element_bytes = 4;
};

/// An element-wise kernel of PyTorch over contiguous tensors.
struct ElementsEffect {
  std::array<std::uint32_t, 3> results_bytes = {4, 4, 4};  ///< of an element of each result.
  int tensors = 1;
  int outputs = 1;       ///< how many of these are written, from the first on.
  int addresses_at = 2;  ///< the argument with the addresses.
  /// The arguments with the calculator of the results' offsets, and with the types of the results
  /// if the kernel converts them; 0: there is none.
  std::size_t places_at = 0, storer_at = 0;
  bool casts = false;     ///< tensors are of types given at the launch.
  bool unscales = false;  ///< multiplies gradients and says whether all are finite.
  NumberType gradient_type = NumberType::kUnknown;
  std::optional<Formula> formula;  ///< how to compute the result.

  [[nodiscard]] Bytes result_bytes(int output) const {
    return results_bytes[static_cast<std::size_t>(std::min(output, 2))];
  }
};

/// One over tensors of any strides.
struct StridedEffect {
  std::uint32_t element_bytes = 4;  ///< of the result.
  int tensors = 0;                  ///< 0: not known.
  bool casts = false;               ///< as ElementsEffect.
  bool unscales = false;            ///< as ElementsEffect.
  std::optional<Formula> formula;   ///< as ElementsEffect.
};

/// Kernels over contiguous tensors take the number of elements, the functor and an array of the
/// tensors' addresses. Source: CUDALoops.cuh, JitLoops.cuh.
[[nodiscard]] std::variant<std::monostate, FillEffect, ElementsEffect> elements_effect(
    const KernelName& name);

/// PyTorch compiles some element-wise kernels at run time: the number of elements, then an array of
/// the tensors' addresses, the result first. Source: jit_vectorized_code_template in jit_utils.cpp.
[[nodiscard]] std::optional<ElementsEffect> jitted_effect(std::string_view name,
                                                          const FindCode& find_code);

[[nodiscard]] StridedEffect strided_effect(std::string_view function);

void describe_fill(const FillEffect& effect, const Launch& launch, KernelWork* work);
void describe_elements(const ElementsEffect& effect, const Launch& launch, KernelWork* work);
/// Returns false if the arguments are not as expected.
[[nodiscard]] bool describe_strided(const StridedEffect& effect, const Launch& launch,
                                    KernelWork* work);

/// What a kernel leaves that computes nothing.
struct LeftElements {
  std::array<KernelWork::Range, 8> ranges;
  int count = 0;
};

/// Returns the results of the commonest kernels if all that they do is to leave them uncomputed.
/// It does the work of describe_elements in a tenth of the time.
[[nodiscard]] std::optional<LeftElements> left_elements(const ElementsEffect& effect,
                                                        const Launch& launch);

}  // namespace gpemu::kernels
