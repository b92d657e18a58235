// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/ptx.hpp"

namespace gpemu::kernels {

/// Finds out what a launch of a kernel with known text writes, as with kernels of Triton and
/// torch.compile.
void describe_text(const PtxFacts& facts, const gpemu_cuda_launch& launch, KernelWork* work);

}  // namespace gpemu::kernels
