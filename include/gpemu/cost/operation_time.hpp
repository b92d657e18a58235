// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cost/parameter.hpp"
#include "gpemu/operation.h"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

/// Indices of the parameters of operation_seconds() and of the host that launches operations, in
/// the order of kOperationParameters.
enum OperationParameter : std::uint8_t {
  kConvolutionForward,
  kConvolutionData,
  kConvolutionFilter,
  kPointwiseForward,
  kPointwiseData,
  kPointwiseFilter,
  kSquareForward,
  kSquareData,
  kSquareFilter,
  kLargeForward,
  kLargeData,
  kLargeFilter,
  kIrregularForward,
  kIrregularData,
  kIrregularFilter,
  kFirstForward,
  kFirstFilter,
  kFirstLargeForward,
  kFirstLargeFilter,
  kWinogradForward,
  kWinogradData,
  kWinogradFilter,
  kGroupedForward,
  kGroupedData,
  kGroupedFilter,
  kDepthwiseForward,
  kDepthwiseData,
  kDepthwiseFilter,
  kDepth,
  kConvolutionBandwidth,
  kConvolutionLatency,
  kMatmul,
  kMatmulBandwidth,
  kNormalizationForward,
  kNormalizationBackward,
  kNormalizationBlock,
  kElementwise,
  kConcatenation,
  kPoolingForward,
  kPoolingBackward,
  kReduction,
  kStrided,
  kLatency,
  kHostConvolution,
  kHostConvolutionBackward,
  kHostNormalization,
  kHostNormalizationBackward,
  kHostOperation,
  kHostSmall,
  kHostPart,
  kHostScale,
  kHostForward,
  kHostBackward
};

inline constexpr int kOperationParameterCount = kHostBackward + 1;

/// The parameters, with what is expected of them and their physical bounds. Their units:
///
/// * convolution_*, winograd_*, matmul: share of the peak rate that full tiles reach. Bound: 1.3,
///   for clocks above the datasheet's.
/// * pointwise_* (1 x 1), square_* (3 x 3), large_* (5 x 5 and more), irregular_*, first_* and
///   first_large_* (up to four input channels, filters up to 3 x 3 and beyond), grouped_*: factors
///   of convolution_*.
/// * depthwise_*: arithmetic operations per clock of a multiprocessor; strided: bytes.
/// * depth: multiply-adds of an output element's sum that take as long as to begin and end a tile.
/// * *_bandwidth, normalization_forward and _backward, elementwise, concatenation, pooling_* and
///   reduction: share of the memory's bandwidth. normalization_block: bytes per clock that a block
///   moves, which handles one channel.
/// * *latency, in s: what a kernel takes at least.
/// * host_launch, in s, and how many of that the launch of an operation takes; host_part is that of
///   an operation which its neighbour's launch brings along. host_forward and host_backward, in s:
///   to begin a phase, and to notice its end.
///
/// Source of what is expected: shares of 0.5 to 0.9 are usual in microbenchmarks; the spreads are
/// wide enough to leave the choice to the data. docs/design/operation-costs.md tells how they were
/// found.
inline constexpr auto kOperationParameters = std::to_array<Parameter>({
    Parameter{"convolution_forward", 0.7, 0.4, 0.5, 0.02, 1.3},
    Parameter{"convolution_data", 0.7, 0.4, 0.5, 0.02, 1.3},
    Parameter{"convolution_filter", 0.7, 0.4, 0.5, 0.02, 1.3},
    Parameter{"pointwise_forward", 1, 0.25, 0.4, 0.2, 5},
    Parameter{"pointwise_data", 1, 0.25, 0.4, 0.2, 5},
    Parameter{"pointwise_filter", 1, 0.25, 0.4, 0.2, 5},
    Parameter{"square_forward", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"square_data", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"square_filter", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"large_forward", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"large_data", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"large_filter", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"irregular_forward", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"irregular_data", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"irregular_filter", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"first_forward", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"first_filter", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"first_large_forward", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"first_large_filter", 0.8, 0.25, 0.4, 0.2, 5},
    Parameter{"winograd_forward", 0.6, 0.4, 0.5, 0.1, 1.3},
    Parameter{"winograd_data", 0.6, 0.4, 0.5, 0.1, 1.3},
    Parameter{"winograd_filter", 0.6, 0.4, 0.5, 0.1, 1.3},
    Parameter{"grouped_forward", 0.7, 0.5, 0.4, 0.02, 5},
    Parameter{"grouped_data", 0.7, 0.5, 0.4, 0.02, 5},
    Parameter{"grouped_filter", 0.7, 0.5, 0.4, 0.02, 5},
    Parameter{"depthwise_forward", 8, 0.7, 0.4, 0.3, 128},
    Parameter{"depthwise_data", 3, 0.7, 0.4, 0.3, 128},
    Parameter{"depthwise_filter", 3, 0.7, 0.4, 0.3, 128},
    Parameter{"depth", 32, 0.5, 0.2, 4, 200},
    Parameter{"convolution_bandwidth", 0.8, 0.3, 0.2, 0.15, 1.3},
    Parameter{"convolution_latency", 1e-05, 0.5, 0.4, 5e-07, 0.0002},
    Parameter{"matmul", 0.7, 0.4, 0.3, 0.05, 1.3},
    Parameter{"matmul_bandwidth", 0.7, 0.3, 0.3, 0.1, 1.3},
    Parameter{"normalization_forward", 0.8, 0.4, 0.3, 0.05, 1.3},
    Parameter{"normalization_backward", 0.8, 0.4, 0.3, 0.05, 1.3},
    Parameter{"normalization_block", 15, 0.5, 0.3, 2, 128},
    Parameter{"elementwise", 0.8, 0.3, 0.3, 0.03, 1.3},
    Parameter{"concatenation", 0.6, 0.3, 0.3, 0.03, 1.3},
    Parameter{"pooling_forward", 0.75, 0.3, 0.3, 0.03, 1.3},
    Parameter{"pooling_backward", 0.4, 0.3, 0.3, 0.03, 1.3},
    Parameter{"reduction", 0.7, 0.3, 0.3, 0.03, 1.3},
    Parameter{"strided", 2, 0.3, 0.3, 0.2, 30},
    Parameter{"latency", 3e-06, 0.4, 0.3, 1e-06, 2e-05},
    Parameter{"host_convolution", 1.5, 0.6, 0.4, 0.05, 45},
    Parameter{"host_convolution_backward", 1.5, 0.6, 0.4, 0.05, 45},
    Parameter{"host_normalization", 1.5, 0.6, 0.4, 0.05, 45},
    Parameter{"host_normalization_backward", 1, 0.6, 0.4, 0.0333333, 30},
    Parameter{"host_operation", 1, 0.6, 0.4, 0.0333333, 30},
    Parameter{"host_small", 0.2, 0.6, 0.4, 0.00666667, 6},
    Parameter{"host_part", 0.01, 0.6, 0.4, 0.0003333333333333333, 0.3},
    Parameter{"host_launch", 2.5e-05, 1.5, 1.5, 1e-06, 0.0005},
    Parameter{"host_forward", 5e-05, 1, 1.5, 1e-06, 0.005},
    Parameter{"host_backward", 5e-05, 1, 1.5, 1e-06, 0.005},
});
static_assert(kOperationParameters.size() == kOperationParameterCount);

/// What of a GPU's specification prices operations.
struct GpuRates {
  double fp32_flops = 0;  ///< per second, without tensor cores.
  double bandwidth = 0;   ///< bytes per second.
  double clock_hz = 0;    ///< of the multiprocessors, boosted.
  double multiprocessors = 0;
};

/// What an operation asks of a GPU, with tiles and waves counted: all that its time depends on
/// besides parameters. Arithmetic operations are counted as the hardware does them, with the parts
/// of tiles that are empty; bytes as often as they are read or written.
struct OperationWork {
  enum class Kind : std::uint8_t {
    kNothing,
    kConvolution,
    kGroupedConvolution,
    kDepthwiseConvolution,
    kMatmul,
    kNormalization,
    kStream,
  };
  Kind kind = Kind::kNothing;
  std::uint8_t direction = 0;  ///< 0: forward, 1: to the data, 2: to the filter, or backward.
  std::int8_t factor = -1;     ///< parameter that multiplies a convolution's share; -1: none.
  OperationParameter stream = kElementwise;  ///< the share of kStream.
  bool tensor_cores = false;
  double peak_flops = 0;  ///< of the arithmetic's type, per second.
  double flops = 0;
  double depth = 1;  ///< terms of an output element's sum.
  double bytes = 0;
  double activation_bytes = 0;  ///< of a convolution's input and output.
  double channels = 0;          ///< of a normalization; 0: not known.
  /// By Winograd's algorithm, 0 where it does not serve: with tiles of 2 x 2, in one kernel; with
  /// tiles of 4 x 4, transformed in memory, where the bytes become `transform` times as many.
  double winograd_small_flops = 0;
  double winograd_large_flops = 0;
  double winograd_depth = 1;
  double transform = 0;
};

[[nodiscard]] GpuRates gpu_rates(const profile::GpuSpec& spec);

/// Finds what an operation asks of a GPU. Complexity: constant, no allocation.
[[nodiscard]] OperationWork operation_work(const DescribedOperation& described,
                                           const profile::GpuSpec& spec);

/// The most parameters that an operation's time depends on.
inline constexpr int kMostParameters = 6;

struct ParameterList {
  std::array<std::uint8_t, kMostParameters> indices{};
  int count = 0;
};

/// Returns the parameters that operation_seconds() reads for some work.
[[nodiscard]] ParameterList parameters_of(const OperationWork& work);

/// Returns how long an operation takes, in seconds. `parameters` has kOperationParameterCount
/// entries, themselves and not their logarithms. T is double, or a number that carries derivatives.
/// docs/design/operation-costs.md has the equations.
template <typename T>
[[nodiscard]] T operation_seconds(const OperationWork& work, const GpuRates& gpu,
                                  const T* parameters) {
  using Kind = OperationWork::Kind;
  const auto by_direction = [&](OperationParameter first) -> const T& {
    return parameters[first + work.direction];
  };
  const T& conv_bandwidth = parameters[kConvolutionBandwidth];
  switch (work.kind) {
    case Kind::kNothing:
      break;
    case Kind::kConvolution: {
      T share = by_direction(kConvolutionForward);
      if (work.factor >= 0) share = share * parameters[work.factor];
      T seconds = work.flops / (share * work.peak_flops) * (1.0 + parameters[kDepth] / work.depth);
      if (work.winograd_large_flops > 0) {
        const T overhead = 1.0 + parameters[kDepth] / work.winograd_depth;
        const T rate = by_direction(kWinogradForward) * gpu.fp32_flops;
        const T transforms =
            work.transform * work.activation_bytes / (conv_bandwidth * gpu.bandwidth);
        seconds = std::min(seconds, T(work.winograd_large_flops / rate * overhead + transforms));
        if (work.winograd_small_flops > 0) {
          seconds = std::min(seconds, T(work.winograd_small_flops / rate * overhead));
        }
      }
      // Tensor cores want the channels last: what lies otherwise is turned over and back.
      const double moved = work.bytes + (work.tensor_cores ? 2 * work.activation_bytes : 0);
      return parameters[kConvolutionLatency] + seconds + moved / (conv_bandwidth * gpu.bandwidth);
    }
    case Kind::kGroupedConvolution: {
      const T share = by_direction(kConvolutionForward) * by_direction(kGroupedForward);
      return parameters[kConvolutionLatency] +
             work.flops / (share * work.peak_flops) * (1.0 + parameters[kDepth] / work.depth) +
             work.bytes / (conv_bandwidth * gpu.bandwidth);
    }
    case Kind::kDepthwiseConvolution:
      return parameters[kLatency] +
             work.flops / (by_direction(kDepthwiseForward) * gpu.multiprocessors * gpu.clock_hz) +
             work.bytes / (conv_bandwidth * gpu.bandwidth);
    case Kind::kMatmul:
      return parameters[kLatency] + work.flops / (parameters[kMatmul] * work.peak_flops) +
             work.bytes / (parameters[kMatmulBandwidth] * gpu.bandwidth);
    case Kind::kNormalization: {
      const T& share =
          parameters[work.direction == 0 ? kNormalizationForward : kNormalizationBackward];
      T seconds = parameters[kLatency] + work.bytes / (share * gpu.bandwidth);
      if (work.channels > 0) {
        seconds += work.bytes / work.channels / (parameters[kNormalizationBlock] * gpu.clock_hz);
      }
      return seconds;
    }
    case Kind::kStream: {
      const double rate =
          work.stream == kStrided ? gpu.multiprocessors * gpu.clock_hz : gpu.bandwidth;
      return parameters[kLatency] + work.bytes / (parameters[work.stream] * rate);
    }
  }
  return T(0);
}

}  // namespace gpemu::cost
