// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cost/operation_work.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/operation.h"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

// Each function returns the work of the operations that it is named after, on a GPU.

[[nodiscard]] OperationWork convolution_work(const gpemu_operation& operation,
                                             const profile::GpuSpec& spec);
[[nodiscard]] OperationWork matmul_work(const gpemu_operation& operation,
                                        const profile::GpuSpec& spec);
/// Two products forward; backward recomputes one and has four. Source: Dao, "FlashAttention-2".
[[nodiscard]] OperationWork attention_work(const gpemu_operation& operation,
                                           const profile::GpuSpec& spec);
/// The inputs' products of all time steps at once, then the hidden state's one after the other,
/// each with a kernel for its gates.
[[nodiscard]] OperationWork recurrent_work(const gpemu_operation& operation,
                                           const profile::GpuSpec& spec);
[[nodiscard]] OperationWork normalization_work(const gpemu_operation& operation,
                                               const profile::GpuSpec& spec);
[[nodiscard]] OperationWork pooling_work(const gpemu_operation& operation,
                                         const profile::GpuSpec& spec);
[[nodiscard]] OperationWork elementwise_work(const gpemu_operation& operation,
                                             kernels::OperationClass operation_class,
                                             const profile::GpuSpec& spec);
[[nodiscard]] OperationWork reduction_work(const gpemu_operation& operation,
                                           const profile::GpuSpec& spec);
/// What moves so many bytes, and calculates nothing.
[[nodiscard]] OperationWork moving_work(double bytes, const profile::GpuSpec& spec);
/// A kernel of which only the bytes are known.
[[nodiscard]] OperationWork kernel_work(const gpemu_operation& operation,
                                        kernels::OperationClass operation_class,
                                        const profile::GpuSpec& spec);

}  // namespace gpemu::cost
