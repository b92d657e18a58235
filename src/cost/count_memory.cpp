// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "count_work.hpp"
#include "hardware.hpp"

namespace gpemu::cost {
namespace {

/// What a row of a layer normalization takes beside its bytes in the forward pass, as a share of
/// that in the backward pass. Source: with 1, 0.5 and 0.25, timm's inference in
/// evidence/published/operations is off by 9, 8 and 7 % after a fit; training there, and the H200,
/// do not tell them apart.
constexpr double kForwardRow = 0.5;

/// Memory is read and written in pieces of so many bytes: what an element takes that has no
/// neighbours. Source: "CUDA C++ Best Practices Guide", Coalesced Access to Global Memory.
constexpr double kSectorBytes = 32;

/// PyTorch's own batch normalization, which it uses if images and weights both have 16 bits, has a
/// block of threads for each channel, which handles so many elements for each clock, and which two
/// blocks of a multiprocessor handle as fast as one. Source: evidence/ours/h200/raw.csv, bfloat16,
/// 64 to 512 channels. On three other GPUs, the steps of VGG in FP16 with batch normalization take
/// as much longer than those without as follows from this (evidence/published/steps.csv).
constexpr double kOwnNormalizationForward = 0.6;
constexpr double kOwnNormalizationBackward = 0.35;
constexpr double kOwnNormalizationBlocks = 2;
/// How often it reads or writes an element in the backward pass (kernel_traits.cpp); in the forward
/// pass once for the statistics. Libraries do not tell.
constexpr double kOwnNormalizationBackwardPasses = 5;

OperationWork stream(const StreamWork& kind, double bytes, const profile::GpuSpec& spec) {
  return {{.bytes = bytes, .cached = cached_part(bytes, spec)}, kind};
}

/// Whether some of an operation's inputs have fewer elements than its output, such as a factor for
/// each channel: they are read again and again. Others are read in another order, which takes
/// longer.
bool is_broadcast(const gpemu_operation& operation) {
  const std::int64_t reads = operation.shape[0], writes = operation.shape[1];
  return writes > 0 && reads % writes != 0;
}

}  // namespace

OperationWork normalization_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const bool backward = operation.kind == GPEMU_OPERATION_NORMALIZATION_BACKWARD;
  const double passes = entry(operation, 2) > 0 ? entry(operation, 2) : backward ? 5 : 3;
  const double bytes = entry(operation, 0) * gpemu_data_type_bytes(operation.type);
  const double touched = std::min(passes, backward ? 3.0 : 2.0) * bytes;
  OperationWork work{{.direction = static_cast<std::uint8_t>(backward ? 1 : 0),
                      .bytes = passes * bytes,
                      .cached = cached_part(touched, spec)},
                     {}};
  NormalizationWork normalization{
      .elements = passes * entry(operation, 0),
      .rows = entry(operation, 3) * (backward ? 1 : kForwardRow),
      // With the channels last, blocks share them.
      .channels = operation.channels_last != 0 ? 0 : entry(operation, 1)};
  if (operation.access == GPEMU_ACCESS_STRIDED) {
    work.bytes = passes * entry(operation, 0) * kSectorBytes;
    work.cached = 0;
  }
  const double own_passes = backward ? kOwnNormalizationBackwardPasses : 1;
  if (normalization.channels > 0 && entry(operation, 2) == own_passes) {
    const double blocks =
        std::min(normalization.channels, kOwnNormalizationBlocks * spec.multiprocessors);
    normalization.clocks = entry(operation, 0) / blocks /
                           (backward ? kOwnNormalizationBackward : kOwnNormalizationForward);
    normalization.channels = 0;
  }
  work.kind = normalization;
  return work;
}

OperationWork elementwise_work(const gpemu_operation& operation,
                               kernels::OperationClass operation_class,
                               const profile::GpuSpec& spec) {
  OperationParameter share = kElementwise;
  if (operation.access == GPEMU_ACCESS_STRIDED) {
    share = is_broadcast(operation) ? kBroadcast : kStrided;
  }
  if (operation.access == GPEMU_ACCESS_CONVERTED) share = kConverted;
  if (operation_class == kernels::OperationClass::kCopy) share = kConcatenation;
  const double elements = entry(operation, 0) + entry(operation, 1);
  const bool apart = share == kStrided || share == kBroadcast;
  return stream({.share = share,
                 .elements = elements,
                 .reads_apart = apart ? entry(operation, kernels::kReadsApart) : 0},
                elements * gpemu_data_type_bytes(operation.type), spec);
}

OperationWork reduction_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const double inputs = entry(operation, 0), outputs = entry(operation, 1);
  // Softmax writes as much as it reads, or half as much.
  constexpr double kFew = 0.25;
  const bool softmax = outputs > 1 && outputs >= kFew * inputs;
  // The reductions of measured steps are sums per channel, which read in strides. A sum of
  // everything reads in order: 73 % of the bandwidth in M. Harris, "Optimizing Parallel
  // Reduction in CUDA", NVIDIA, 2007.
  const OperationParameter share = softmax ? kSoftmax : outputs > 1 ? kReduction : kElementwise;
  return stream({.share = share, .late = !softmax},
                (inputs + outputs) * gpemu_data_type_bytes(operation.type), spec);
}

OperationWork pooling_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const double bytes =
      (entry(operation, 0) + entry(operation, 1)) * gpemu_data_type_bytes(operation.type) +
      entry(operation, 1) * entry(operation, 3);
  if (operation.kind == GPEMU_OPERATION_POOLING_BACKWARD) {
    return stream({.share = kPoolingBackward}, bytes, spec);
  }
  return stream({.share = kPoolingForward,
                 .elements = entry(operation, 1) * std::max(entry(operation, 2), 1.0)},
                bytes, spec);
}

OperationWork moving_work(double bytes, const profile::GpuSpec& spec) {
  return stream({}, bytes, spec);
}

OperationWork kernel_work(const gpemu_operation& operation, kernels::OperationClass operation_class,
                          const profile::GpuSpec& spec) {
  const bool reduction = operation_class == kernels::OperationClass::kReduction;
  return stream({.share = reduction ? kReduction : kElementwise, .late = reduction},
                entry(operation, kernels::kKernelBytes), spec);
}

}  // namespace gpemu::cost
