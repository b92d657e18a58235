// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::kernels {

/// Describe the results of PyTorch's attention kernels, whose only argument is a struct of
/// addresses, sizes and strides. Return false if it does not look as expected.
[[nodiscard]] bool describe_efficient(const Launch& launch, Bytes element_bytes, KernelWork* work);
[[nodiscard]] bool describe_efficient_backward(const Launch& launch, Bytes element_bytes,
                                               KernelWork* work);
[[nodiscard]] bool describe_flash(const Launch& launch, Bytes element_bytes, KernelWork* work);
[[nodiscard]] bool describe_flash_backward(const Launch& launch, Bytes element_bytes,
                                           KernelWork* work);

}  // namespace gpemu::kernels
