// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/operation.h"
#include "gpemu/profile/calibration.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

using profile::kOperationParameterCount;
using profile::kOperationParameters;
using profile::OperationParameter;
using profile::Parameter;
using enum profile::OperationParameter;

/// The GPU rates that the cost model uses.
struct GpuRates {
  double fp32_flops = 0;  ///< per second, without tensor cores.
  double bandwidth = 0;   ///< bytes per second.
  double clock_hz = 0;    ///< of the multiprocessors, boosted.
  double multiprocessors = 0;
};

/// The work of an operation on a GPU, with tiles and waves counted: everything that its time
/// depends on apart from the parameters. Arithmetic operations are counted as the hardware does
/// them, including the empty parts of tiles; bytes count each time they are read or written.
struct OperationWork {
  enum class Kind : std::uint8_t {
    kNothing,
    kConvolution,
    kGroupedConvolution,
    kDepthwiseConvolution,
    kMatmul,
    kAttention,
    kNormalization,
    kStream,
    kOther,
  };
  Kind kind = Kind::kNothing;
  std::uint8_t direction = 0;  ///< 0: forward, 1: to the data, 2: to the filter, or backward.
  std::int8_t factor = -1;     ///< parameter that multiplies a convolution's share; -1: none.
  OperationParameter stream = kElementwise;  ///< the share of kStream.
  bool tensor_cores = false;
  bool half = false;       ///< products and convolutions: of 16 bits or less on tensor cores.
  bool last = false;       ///< a convolution of 16 bits, with the channels last in memory.
  bool direct = false;     ///< one with groups that does not run on tensor cores.
  bool late = false;       ///< of kStream: a reduction.
  bool unaligned = false;  ///< a product whose rows are no multiples of 16 bytes apart.
  double peak_flops = 0;   ///< of the arithmetic's type, per second, as long as it lasts.
  double flops = 0;
  double least_flops = 0;  ///< without empty parts of tiles; 0 if an algorithm may need less.
  double kernels = 1;      ///< one after the other, of a product.
  double depth = 1;        ///< terms of an output element's sum.
  double bytes = 0;
  double cached = 0;    ///< part of them that the L2 cache serves.
  double elements = 0;  ///< read or written, of a stream or a normalization; of pooling: compared.
  double reads_apart = 0;       ///< of 32 bytes, of a stream.
  double rows = 0;              ///< of a normalization, each with its block of threads.
  double clocks = 0;            ///< of a normalization: what its slowest multiprocessor needs.
  double activation_bytes = 0;  ///< of a convolution's input and output.
  double turned_bytes = 0;      ///< moved to put the channels of a convolution's operands last.
  double channels = 0;          ///< of a normalization; 0: not known.
  /// With Winograd's algorithm; 0 if it cannot be used. With tiles of 2 x 2, in one kernel; with
  /// tiles of 4 x 4, transformed in memory, which multiplies the bytes by `transform`.
  double winograd_small_flops = 0;
  double winograd_large_flops = 0;
  double winograd_depth = 1;
  double transform = 0;
};

[[nodiscard]] inline GpuRates gpu_rates(const profile::GpuSpec& spec) {
  return {.fp32_flops = spec.fp32_flops,
          .bandwidth = spec.memory_bandwidth_bytes_per_s,
          .clock_hz = spec.boost_clock_mhz * 1e6,
          .multiprocessors = static_cast<double>(spec.multiprocessors)};
}

/// Returns the work of an operation on a GPU. Complexity: constant, no allocation.
[[nodiscard]] OperationWork operation_work(const gpemu_operation& operation,
                                           kernels::OperationClass operation_class,
                                           const profile::GpuSpec& spec);

[[nodiscard]] inline OperationWork operation_work(const kernels::DescribedOperation& described,
                                                  const profile::GpuSpec& spec) {
  return operation_work(described.operation, described.operation_class, spec);
}

/// Returns the time that no parameters make shorter: nothing is faster than the datasheet. Shares
/// of the peak above 1 compensate for tiles of small products whose price is too high, but large
/// products have none of these; and work limited by multiprocessors on one GPU may be limited by
/// memory on another.
[[nodiscard]] inline double least_seconds(const OperationWork& work, const GpuRates& gpu) {
  const double cached = work.cached / kOperationParameters[kCache].most;
  return std::max(work.least_flops > 0 ? work.least_flops / work.peak_flops : 0,
                  work.bytes * (1 - work.cached + cached) / gpu.bandwidth);
}

/// Bytes that a multiprocessor moves per clock where each row of a normalization has its block.
/// Source: layer normalization of rows of 4096 in evidence/ours/h200/operations, 2.5 to 2.9 TB/s,
/// where element-wise kernels reach 4.2.
inline constexpr double kRowBytes = 11;

/// The most parameters that an operation's time depends on.
inline constexpr int kMostParameters = 10;

struct ParameterList {
  std::array<std::uint8_t, kMostParameters> indices{};
  int count = 0;
};

/// Returns the parameters that operation_seconds() reads for some work.
[[nodiscard]] ParameterList parameters_of(const OperationWork& work);

/// The equations of operation_seconds(), one for each kind of work.
template <typename T>
struct OperationEquations {
  const OperationWork& work;
  const GpuRates& gpu;
  const T* parameters;

  [[nodiscard]] const T& by_direction(OperationParameter first) const {
    return parameters[first + work.direction];
  }
  /// What is in the L2 cache takes less time.
  [[nodiscard]] T moved(const T& share) const {
    T seconds = work.bytes / (share * gpu.bandwidth);
    if (work.cached > 0) seconds *= 1 - work.cached + work.cached / parameters[kCache];
    return seconds;
  }
  [[nodiscard]] T together(const T& arithmetic, const T& memory) const {
    return std::max(arithmetic, memory) + parameters[kApart] * std::min(arithmetic, memory);
  }

  /// One without groups.
  [[nodiscard]] T convolution() const {
    T share = by_direction(kConvolutionForward);
    if (work.factor >= 0) share = share * parameters[work.factor];
    if (work.last) share = share * parameters[kConvolutionLast];
    T seconds = work.flops / (share * work.peak_flops) * (1.0 + parameters[kDepth] / work.depth);
    if (work.winograd_large_flops > 0) {
      const T overhead = 1.0 + parameters[kDepth] / work.winograd_depth;
      const T rate = by_direction(kWinogradForward) * gpu.fp32_flops;
      const T transforms = work.transform * work.activation_bytes /
                           (parameters[kConvolutionBandwidth] * gpu.bandwidth);
      seconds = std::min(seconds, T(work.winograd_large_flops / rate * overhead + transforms));
      if (work.winograd_small_flops > 0) {
        seconds = std::min(seconds, T(work.winograd_small_flops / rate * overhead));
      }
    }
    seconds += parameters[kConvolutionLatency] + moved(parameters[kConvolutionBandwidth]);
    if (work.turned_bytes > 0) {
      seconds += work.turned_bytes / (parameters[kTurned] * gpu.bandwidth);
    }
    return seconds;
  }

  /// One with groups.
  [[nodiscard]] T grouped_convolution() const {
    if (work.direct) {
      return parameters[kConvolutionLatency] +
             work.flops / (parameters[kGroupedLastData + work.direction - 1] * gpu.multiprocessors *
                           gpu.clock_hz) +
             moved(parameters[kConvolutionBandwidth]);
    }
    T share = by_direction(kConvolutionForward) * by_direction(kGroupedForward);
    if (work.last) share = share * parameters[kConvolutionLast];
    return parameters[kConvolutionLatency] +
           work.flops / (share * work.peak_flops) * (1.0 + parameters[kDepth] / work.depth) +
           moved(parameters[kConvolutionBandwidth]);
  }

  /// One with a group for each channel.
  [[nodiscard]] T depthwise_convolution() const {
    return parameters[kLatency] +
           work.flops / (by_direction(work.direct ? kDepthwiseLastForward : kDepthwiseForward) *
                         gpu.multiprocessors * gpu.clock_hz) +
           moved(parameters[kConvolutionBandwidth]);
  }

  /// Products of matrices.
  [[nodiscard]] T matmul() const {
    T share = parameters[kMatmul];
    if (work.unaligned) share = share * parameters[kMatmulUnaligned];
    const T latency =
        work.kernels > 1 ? T(parameters[kLatency] * work.kernels) : T(parameters[kMatmulLatency]);
    return latency +
           together(work.flops / (share * work.peak_flops), moved(parameters[kMatmulBandwidth]));
  }

  /// Both products of attention, and the softmax between them.
  [[nodiscard]] T attention() const {
    return parameters[kMatmulLatency] +
           together(work.flops / (by_direction(kAttentionForward) * work.peak_flops),
                    moved(parameters[kMatmulBandwidth]));
  }

  /// Each row may have a block.
  [[nodiscard]] T normalization() const {
    const T& latency = parameters[kLatency];
    if (work.rows > 0) {
      // Each row has a block: multiprocessors are the limit where they have much bandwidth.
      const T clocks = work.bytes / kRowBytes + work.rows * parameters[kNormalizationRow];
      return latency + std::max(moved(parameters[kElementwise]),
                                T(clocks / (gpu.multiprocessors * gpu.clock_hz)));
    }
    T seconds = latency + moved(by_direction(kNormalizationForward));
    if (work.channels > 0) {
      seconds += work.elements / work.channels / (parameters[kNormalizationBlock] * gpu.clock_hz);
    }
    if (work.clocks > 0) seconds += work.clocks / gpu.clock_hz;
    return seconds;
  }

  /// What moves elements, and calculates little.
  [[nodiscard]] T stream() const {
    const T& latency = parameters[work.late ? kReductionLatency : kLatency];
    const double clocks_per_second = gpu.multiprocessors * gpu.clock_hz;
    // Caches serve a warp's elements one after the other where they lie apart.
    if (work.reads_apart > 0) {
      return latency +
             std::max(T(work.elements / (parameters[work.stream] * clocks_per_second)),
                      T(work.reads_apart / (parameters[kApartReads] * clocks_per_second)));
    }
    if (work.stream == kStrided || work.stream == kConverted) {
      return latency + work.elements / (parameters[work.stream] * clocks_per_second);
    }
    // Each element takes instructions, whatever its size, or its bytes take longer.
    if (work.stream == kBroadcast || work.stream == kConcatenation ||
        work.stream == kPoolingForward) {
      return latency + std::max(T(work.elements / (parameters[work.stream] * clocks_per_second)),
                                moved(parameters[kElementwise]));
    }
    return latency + moved(parameters[work.stream]);
  }

  /// What is known by its bytes and its arithmetic alone.
  [[nodiscard]] T other() const {
    return parameters[kLatency] +
           std::max(T(work.flops / work.peak_flops), moved(parameters[kElementwise]));
  }
};

/// Returns how long an operation takes, in seconds. `parameters` has kOperationParameterCount
/// entries, not their logarithms. T is double, or a number that carries derivatives.
/// docs/design/operation-costs.md has the equations.
template <typename T>
[[nodiscard]] T operation_seconds(const OperationWork& work, const GpuRates& gpu,
                                  const T* parameters) {
  using Kind = OperationWork::Kind;
  const OperationEquations<T> equations{work, gpu, parameters};
  switch (work.kind) {
    case Kind::kNothing:
      break;
    case Kind::kConvolution:
      return equations.convolution();
    case Kind::kGroupedConvolution:
      return equations.grouped_convolution();
    case Kind::kDepthwiseConvolution:
      return equations.depthwise_convolution();
    case Kind::kMatmul:
      return equations.matmul();
    case Kind::kAttention:
      return equations.attention();
    case Kind::kNormalization:
      return equations.normalization();
    case Kind::kStream:
      return equations.stream();
    case Kind::kOther:
      return equations.other();
  }
  return T(0);
}

}  // namespace gpemu::cost
