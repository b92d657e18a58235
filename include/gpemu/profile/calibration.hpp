// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpemu::profile {

/// A positive number of a model that a fit chooses. Fits work with its natural logarithm: expected
/// deviations, bounds and derivatives are relative.
struct Parameter {
  std::string_view name;
  double typical = 1;  ///< the value expected without any data, in the parameter's own unit.
  /// Standard deviations of logarithms: of the value shared by all GPUs from `typical`, and of one
  /// GPU's value from the shared value.
  double shared_spread = 1;
  double own_spread = 1;
  double least = 0;  ///< physical bounds, 0 < least < most.
  double most = 0;
};

/// Indices of the parameters of cost::operation_seconds() and of the host that launches operations,
/// in the order of kOperationParameters.
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
  kGroupedLastData,
  kGroupedLastFilter,
  kDepthwiseLastForward,
  kDepthwiseLastData,
  kDepthwiseLastFilter,
  kConvolutionLast,
  kDepth,
  kConvolutionBandwidth,
  kTurned,
  kConvolutionLatency,
  kMatmul,
  kMatmulUnaligned,
  kMatmulBandwidth,
  kMatmulLatency,
  kApart,
  kAttentionForward,
  kAttentionBackward,
  kNormalizationForward,
  kNormalizationBackward,
  kNormalizationBlock,
  kNormalizationRow,
  kSoftmax,
  kElementwise,
  kConcatenation,
  kPoolingForward,
  kPoolingBackward,
  kReduction,
  kReductionLatency,
  kStrided,
  kApartReads,
  kBroadcast,
  kConverted,
  kCache,
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

/// The parameters, with their expected values and physical bounds. Their units:
///
/// * convolution_*, winograd_*, matmul: share of the peak rate that full tiles reach. Bound: 1.3,
///   for clocks above the datasheet's.
/// * pointwise_* (1 x 1), square_* (3 x 3), large_* (5 x 5 and more), irregular_*, first_* and
///   first_large_* (up to four input channels, filters up to 3 x 3 and beyond), grouped_*,
///   convolution_last (16 bits, channels last in memory): factors of convolution_*.
/// * depthwise_*: arithmetic operations per clock of a multiprocessor; strided, broadcast,
///   converted and concatenation: elements that it reads or writes; apart_reads: reads of 32 bytes;
///   pooling_forward: elements that it compares.
/// * grouped_last_*, depthwise_last_*: arithmetic operations per clock of a multiprocessor, of
///   16 bits and with the channels last in memory.
/// * depth: how many multiply-adds of an output element's sum take as long as starting and ending a
///   tile.
/// * *_bandwidth, turned, normalization_forward and _backward, softmax, elementwise,
///   pooling_backward and reduction: share of the memory's bandwidth, 1 at most.
///   normalization_block: elements per clock that a block moves, which handles one channel;
///   normalization_row: clocks that a multiprocessor needs for a row beside its bytes. cache: how
///   much faster the L2 cache is than the memory. turned is expected to be 1, as convolutions' own
///   bytes are on most GPUs; only GPUs whose tensor cores were measured show it.
/// * apart: the part of the shorter of a product's times, for its arithmetic and for its bytes,
///   that adds to the longer one.
/// * matmul_unaligned: factor of matmul, for rows that are no multiples of 16 bytes apart.
/// * attention_*: share of the peak rate.
/// * *latency, in s: the least time of a kernel.
/// * host_launch, in s; the other launches are multiples of it. host_part is for an operation that
///   is launched together with its neighbour. host_forward and host_backward, in s: to start a
///   phase and to notice its end.
///
/// Source of the expected values: shares of 0.5 to 0.9 are usual in microbenchmarks; the spreads
/// are wide enough to leave the choice to the data, but for those of which steps say little: cache,
/// of which the A100 and the H200 have 1.1 to 1.2 (measured/h200), and apart_reads, of which
/// transpositions on the H100 have 0.56 (measured/h100). docs/design/operation-costs.md says how
/// they were found.
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
    Parameter{"grouped_last_data", 15, 0.7, 0.4, 0.3, 1024},
    Parameter{"grouped_last_filter", 15, 0.7, 0.4, 0.3, 1024},
    Parameter{"depthwise_last_forward", 8, 0.7, 0.4, 0.3, 128},
    Parameter{"depthwise_last_data", 3, 0.7, 0.4, 0.3, 128},
    Parameter{"depthwise_last_filter", 3, 0.7, 0.4, 0.3, 128},
    Parameter{"convolution_last", 1, 0.3, 0.2, 0.2, 5},
    Parameter{"depth", 32, 0.5, 0.2, 4, 200},
    Parameter{"convolution_bandwidth", 0.8, 0.3, 0.2, 0.15, 1},
    Parameter{"turned", 1, 0.4, 0.3, 0.05, 1},
    Parameter{"convolution_latency", 1e-05, 0.5, 0.4, 5e-07, 0.0002},
    Parameter{"matmul", 0.8, 0.3, 0.15, 0.05, 1.3},
    Parameter{"matmul_unaligned", 0.5, 0.4, 0.3, 0.05, 1},
    Parameter{"matmul_bandwidth", 0.7, 0.3, 0.3, 0.1, 1},
    Parameter{"matmul_latency", 5e-06, 0.4, 0.3, 1e-06, 5e-05},
    Parameter{"apart", 0.3, 0.4, 0.15, 0.02, 1},
    Parameter{"attention_forward", 0.45, 0.4, 0.3, 0.05, 1},
    Parameter{"attention_backward", 0.4, 0.4, 0.3, 0.05, 1},
    Parameter{"normalization_forward", 0.8, 0.4, 0.3, 0.05, 1},
    Parameter{"normalization_backward", 0.8, 0.4, 0.3, 0.05, 1},
    Parameter{"normalization_block", 4, 0.5, 0.3, 0.5, 32},
    Parameter{"normalization_row", 250, 0.5, 0.3, 10, 5000},
    Parameter{"softmax", 0.5, 0.3, 0.3, 0.03, 1},
    Parameter{"elementwise", 0.8, 0.3, 0.3, 0.03, 1},
    Parameter{"concatenation", 1.5, 0.3, 0.3, 0.05, 16},
    Parameter{"pooling_forward", 2.5, 0.3, 0.3, 0.1, 32},
    Parameter{"pooling_backward", 0.4, 0.3, 0.3, 0.03, 1},
    Parameter{"reduction", 0.7, 0.3, 0.3, 0.03, 1},
    Parameter{"reduction_latency", 8e-06, 0.4, 0.3, 1e-06, 0.0001},
    Parameter{"strided", 0.5, 0.3, 0.3, 0.05, 8},
    Parameter{"apart_reads", 0.56, 0.2, 0.15, 0.1, 2},
    Parameter{"broadcast", 1.8, 0.2, 0.15, 1, 8},
    Parameter{"converted", 2, 0.3, 0.3, 0.05, 8},
    Parameter{"cache", 1.1, 0.05, 0.05, 1, 3},
    Parameter{"latency", 3e-06, 0.4, 0.3, 1e-06, 2e-05},
    Parameter{"host_convolution", 1.5, 0.6, 0.4, 0.05, 45},
    Parameter{"host_convolution_backward", 1.5, 0.6, 0.4, 0.05, 45},
    Parameter{"host_normalization", 1.5, 0.6, 0.4, 0.05, 45},
    Parameter{"host_normalization_backward", 1, 0.6, 0.4, 0.0333333, 30},
    Parameter{"host_operation", 1, 0.6, 0.4, 0.0333333, 30},
    Parameter{"host_small", 0.2, 0.6, 0.4, 0.00666667, 6},
    Parameter{"host_part", 0.01, 0.6, 0.4, 0.0003333333333333333, 0.3},
    Parameter{"host_launch", 2.5e-05, 1.5, 1.5, 1e-06, 0.0005},
    Parameter{"host_forward", 5e-05, 1, 1.5, 1e-06, 0.05},
    Parameter{"host_backward", 5e-05, 1, 1.5, 1e-06, 0.05},
});
static_assert(kOperationParameters.size() == kOperationParameterCount);

/// Parameters in the order of kOperationParameters, not their logarithms.
using OperationParameters = std::array<double, kOperationParameterCount>;

/// The host's parameters come after the device's.
inline constexpr int kFirstHostParameter = kHostConvolution;
/// The parameters before this one belong to products, convolutions and attention, and depend on
/// their arithmetic.
inline constexpr int kFirstCommonParameter = kNormalizationForward;

/// Bars of a step's time, cost::Estimate::relative_error, found by `gpemu cost eval` on steps that
/// the parameters were not fitted to.
struct CalibrationBars {
  double unseen_model = 0;  ///< of a model that was not measured on this GPU.
  double known_batch = 0;   ///< of a model that was, corrected by another batch.
  double other_gpu = 0;     ///< of another GPU that uses these parameters.
  /// As `unseen_model`, where all kinds of arithmetic were measured and that is for 16 bits: for
  /// convolutions, products and attention in TF32 and in FP32. Absent if too few steps tell.
  std::optional<double> tf32, fp32;
};

/// What measured training steps show about a GPU and its host: parameters, and how they were
/// obtained.
struct Calibration {
  std::string gpu;      ///< that was measured, GpuSpec::name.
  std::string command;  ///< that fitted the parameters.
  std::string pack;     ///< of the measurements.
  int models = 0;
  int steps = 0;
  double error = 0;  ///< mean absolute error of a step among those, as a share.
  /// Whether convolutions and products ran on tensor cores.
  bool tensor_cores = false;
  bool half = false;  ///< whether their numbers had 16 bits.
  /// What the tensor cores of the measured GPU do in 16 bits, in operations per clock of a
  /// multiprocessor; 0 without tensor cores.
  double tensor_rate = 0;
  /// Of the measured GPU, as compute_capability() and bytes_per_clock() tell them.
  int compute_capability = 0;
  double bytes_per_clock = 0;
  std::optional<CalibrationBars> bars;  ///< absent if the parameters were not evaluated.
  OperationParameters parameters{};
  /// The same for products, convolutions and attention in TF32 and in FP32, on a GPU on which all
  /// kinds of arithmetic were measured; `parameters` are for 16 bits then. Others are not read.
  /// GPUs without TF32 have none for it.
  std::optional<OperationParameters> tf32, fp32;
  /// The host's time for each tensor in an optimizer's lists, in s. Absent if the programs in that
  /// host have no such lists and update one tensor after the other.
  std::optional<double> listed_tensor;
  bool other_host = false;  ///< whether the host's parameters are those of another GPU's host.

  [[nodiscard]] bool has_all_arithmetic() const { return half && fp32; }
};

/// Gives a calibration the host of another one.
inline void take_host(const Calibration& from, Calibration& to) {
  std::copy(from.parameters.begin() + kFirstHostParameter, from.parameters.end(),
            to.parameters.begin() + kFirstHostParameter);
  to.listed_tensor = from.listed_tensor;
  to.other_host = from.gpu != to.gpu;
}

}  // namespace gpemu::profile
