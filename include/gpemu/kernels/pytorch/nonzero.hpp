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

/// Two kernels of CUB as PyTorch's nonzero launches them.
struct NonzeroEffect {
  bool finds = false;          ///< selects the places of non-zero elements; else counts them.
  bool address_first = false;  ///< of what the iterator holds.
  std::uint8_t count_bytes = 4;
  NumberType input_type = NumberType::kUnknown;
};

/// Recognises them. Source: Nonzero.cu; the kernels' parameters in CUB's dispatch_reduce.cuh and
/// dispatch_select_if.cuh.
[[nodiscard]] std::optional<NonzeroEffect> nonzero_effect(const KernelName& name);

void describe_nonzero(const NonzeroEffect& effect, const Launch& launch, KernelWork* work);

}  // namespace gpemu::kernels
