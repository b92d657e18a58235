// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/code_facts.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/pytorch/tensor_work.hpp"

namespace gpemu::kernels {

/// The configuration in the argument of PyTorch's reduce_kernel.
struct ReductionConfig {
  Bytes at = 0;      ///< where it begins.
  Bytes inputs = 0;  ///< of one output.
  Bytes outputs = 0;
};

/// Finds the configuration by the size of its blocks, from a place on: two small members come
/// before it, whose sizes depend on the operation. Returns nothing if no place fits. Source:
/// structs ReduceOp and ReduceConfig in aten/src/ATen/native/cuda/Reduce.cuh.
[[nodiscard]] std::optional<ReductionConfig> find_reduction(const void* argument,
                                                            std::uint32_t block_width,
                                                            std::uint32_t block_height,
                                                            Bytes from = 0);

/// PyTorch's reduce_kernel: its one or two results.
struct ReductionEffect {
  std::uint32_t element_bytes = 4;  ///< of the first result.
  std::uint32_t second_bytes = 4;   ///< of the second one, if there is one.
  Reduction reduction = Reduction::kUnknown;
  NumberType input_type = NumberType::kUnknown;
  NumberType output_type = NumberType::kUnknown;
};

[[nodiscard]] ReductionEffect reduction_effect(const KernelName& name);

/// PyTorch compiles some reductions at run time, with the same members in the argument. Source:
/// ReduceJitOp in PyTorch's Reduce.cuh.
[[nodiscard]] std::optional<ReductionEffect> jitted_reduction_effect(std::string_view name,
                                                                     const FindCode& find_code);

/// Returns false if the argument is not as expected.
[[nodiscard]] bool describe_reduction(const ReductionEffect& effect, const Launch& launch,
                                      KernelWork* work);

}  // namespace gpemu::kernels
