// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/operation.h"

namespace gpemu::kernels {

/// How reports group operations.
enum class OperationClass : std::uint8_t {
  kMatmul,
  kConvolution,
  kAttention,
  kRecurrent,
  kNormalization,
  kPooling,
  kElementwise,
  kReduction,
  kOptimizer,
  kIndexing,
  kSorting,
  kFft,
  kCopy,
  kSet,
  kOther,
};
inline constexpr int kOperationClassCount = 15;

inline constexpr std::array<std::string_view, kOperationClassCount> kOperationClassNames = {
    "matmul",  "convolution", "attention", "recurrent", "normalization",
    "pooling", "elementwise", "reduction", "optimizer", "indexing",
    "sorting", "fft",         "copy",      "set",       "other"};

/// Names of gpemu_operation_kind and gpemu_data_type, as written in records.
inline constexpr std::array<std::string_view, GPEMU_OPERATION_WAIT + 1> kOperationKindNames = {
    "kernel",
    "matmul",
    "convolution_forward",
    "convolution_backward_data",
    "convolution_backward_filter",
    "attention_forward",
    "attention_backward",
    "rnn_forward",
    "rnn_backward",
    "normalization_forward",
    "normalization_backward",
    "pooling",
    "elementwise",
    "reduction",
    "fft",
    "other",
    "copy_on_device",
    "set",
    "pooling_backward",
    "wait"};
inline constexpr std::array<std::string_view, GPEMU_TYPE_COMPLEX128 + 1> kDataTypeNames = {
    "unknown", "fp64",  "fp32",  "tf32",  "fp16",      "bf16",      "fp8",
    "int8",    "int16", "int32", "int64", "complex64", "complex128"};

[[nodiscard]] constexpr std::string_view operation_class_name(OperationClass operation_class) {
  return kOperationClassNames[static_cast<std::size_t>(operation_class)];
}

/// Returns whether operations of a class are layers of a network with weights or states.
[[nodiscard]] constexpr bool is_layer(OperationClass operation_class) {
  return operation_class == OperationClass::kMatmul ||
         operation_class == OperationClass::kConvolution ||
         operation_class == OperationClass::kAttention ||
         operation_class == OperationClass::kRecurrent;
}

/// The entry of an element-wise operation's shape with the tensors that a kernel over lists of
/// tensors finishes.
inline constexpr int kListedTensors = 3;
/// Where that of an element-wise operation has the reads of operands whose elements lie apart.
inline constexpr int kReadsApart = 4;
/// Where an unknown kernel's shape has the bytes that it is assumed to move.
inline constexpr int kKernelBytes = 7;
/// And where the arithmetic operations.
inline constexpr int kKernelFlops = 8;

/// What a launch of a kernel does. If that is not known, the kind is GPEMU_OPERATION_KERNEL, and
/// the class follows from the name.
struct DescribedOperation {
  gpemu_operation operation;
  OperationClass operation_class = OperationClass::kOther;
};

}  // namespace gpemu::kernels
