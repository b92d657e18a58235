// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/number.hpp"

namespace gpemu::kernels {

/// The kinds of kernels that find the tensors they write in a struct.
enum class HeldBy : std::uint8_t {
  kRandom,            ///< fills a tensor with random numbers.
  kLambda,            ///< a lambda holds a calculator of offsets, then the addresses.
  kPivots,            ///< such a lambda; each element is a row of places.
  kCross,             ///< cross products: each element is three of the result.
  kGatedBackward,     ///< both halves of a gradient.
  kConjugate,         ///< the other half of a real transform.
  kIndexed,           ///< rows of the target that indices choose.
  kAssert,            ///< no result: asserts that a number is not zero.
  kNorms,             ///< one number for each tensor of a list.
  kUniqueBool,        ///< the values of a tensor of bool, and how often each occurs.
  kThrust,            ///< the output iterator of a functor of thrust's.
  kSetPointers,       ///< MAGMA's arrays of addresses, from one matrix.
  kDisplacePointers,  ///< the same from another array.
  kEfficient,         ///< memory-efficient attention, forward.
  kEfficientBackward,
  kFlash,  ///< flash attention, forward.
  kFlashBackward,
};

/// A kernel of PyTorch that finds the tensors it writes in a lambda, a struct or a calculator of
/// offsets among its arguments.
struct HeldEffect {
  HeldBy kind = HeldBy::kLambda;
  std::uint32_t element_bytes = 4;
  NumberType index_type = NumberType::kInt64;
  Bytes tensors = 0;             ///< of a lambda's calculator.
  Bytes address_at = 0;          ///< of a functor of thrust's.
  bool strided = false;          ///< whether a lambda has a calculator.
  std::uint8_t count_bytes = 8;  ///< of the number of random elements, or of a size.
};

/// Recognises one. Returns nothing for other kernels.
[[nodiscard]] std::optional<HeldEffect> held_effect(const KernelName& name);

/// Returns false if the arguments are not as expected.
[[nodiscard]] bool describe_held(const HeldEffect& effect, const Launch& launch, KernelWork* work);

}  // namespace gpemu::kernels
