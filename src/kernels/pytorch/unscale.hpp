// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/number.hpp"

namespace gpemu::kernels {

/// Part of the names of kernels that multiply gradients in place. Their lambda contains the address
/// of the flag for non-finite gradients, then the factor's address. Source: AmpKernels.cu.
inline constexpr std::string_view kUnscale = "non_finite_check_and_unscale_cuda_";

/// Adds the multiplication of gradients: those in the ranges written so far.
void describe_unscale(const void* lambda, NumberType type, const Memory& memory, KernelWork* work);

}  // namespace gpemu::kernels
