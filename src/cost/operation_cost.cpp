// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/operation_cost.hpp"

#include <algorithm>
#include <cmath>

#include "kernel_shape.hpp"

namespace gpemu::cost {
namespace {

/// What every kernel takes at least on the device. Source: 2 to 3 us for an empty kernel on P100 to
/// A100, as microbenchmarks of kernel launch latency report it.
constexpr double kKernelLatencySeconds = 2.5e-6;

/// Share of the memory's bandwidth that streaming kernels reach. Source: STREAM-like benchmarks
/// reach 80 to 90 % on these GPUs.
constexpr double kBandwidthShare = 0.8;

/// Shares of the peak rate that full waves of tiles reach. Source: fits to the step times that
/// GPEmu (VLDB 2025) measured on six GPUs give 0.6 to 1.0 by class.
constexpr double kMatmulShare = 0.75;
constexpr double kConvolutionShare = 0.7;
constexpr double kTensorConvolutionShare = 0.55;
constexpr double kGroupedShare = 0.25;
/// Convolutions with one channel a group have no reuse for tiles to live from, and the gradient of
/// their filters is a reduction over all pixels. Source: chosen by hand so that MobileNetV2 comes
/// near its steps in GPEmu's measurements (VLDB 2025).
constexpr double kDepthwiseShare = 0.08;
constexpr double kDepthwiseFilterShare = 0.03;
/// Source: Dao, "FlashAttention-2", 2023, about half of the peak.
constexpr double kAttentionShare = 0.5;
/// 3 x 3 filters with stride 1 in FP32 are done by Winograd's algorithm, which saves 20 of 36
/// multiplications. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
/// CVPR 2016, F(2x2, 3x3). VGG-16 in GPEmu's measurements (VLDB 2025) agrees.
constexpr double kWinogradGain = 2.25;
/// 5 x 5 filters as well: 25 x 4 multiplications become 36. Source: as above, F(2x2, 5x5); NVIDIA's
/// cuDNN documentation, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED takes filters of 3 and of 5.
constexpr double kLargeWinogradGain = 100.0 / 36;

/// Half-widths of the bars by class: what the analytic model was found off by, twice. Later
/// calibration narrows them.
constexpr double kKnownWorkError = 0.6;
constexpr double kUnknownWorkError = 1.0;

constexpr int kTile = 128;
constexpr int kSmallTile = 64;
constexpr double kThinTile = 16;

/// A complex product takes four real ones.
double arithmetic_factor(gpemu_data_type type) {
  return type == GPEMU_TYPE_COMPLEX64 || type == GPEMU_TYPE_COMPLEX128 ? 4 : 1;
}

gpemu_data_type arithmetic_type(const gpemu_operation& operation) {
  return operation.compute_type == GPEMU_TYPE_UNKNOWN ? operation.type : operation.compute_type;
}

/// The type that the ordinary arithmetic units compute in, when tensor cores are of no use.
gpemu_data_type plain_type(gpemu_data_type type) {
  const bool wide = type == GPEMU_TYPE_FP64 || type == GPEMU_TYPE_COMPLEX128;
  return wide ? type : GPEMU_TYPE_FP32;
}

double shape(const gpemu_operation& operation, int index) {
  return static_cast<double>(std::max<std::int64_t>(operation.shape[index], 0));
}

/// Returns what Winograd's algorithm saves of a convolution's multiplications; 1 where it does not
/// serve the filter.
double winograd_gain(const gpemu_operation& operation) {
  const std::int64_t height = operation.shape[8], width = operation.shape[9];
  const bool square = height == width && operation.shape[10] == 1;
  if (square && width == 3) return kWinogradGain;
  if (square && width == 5) return kLargeWinogradGain;
  return 1;
}

}  // namespace

/// What there is to do, before it is priced.
struct OperationCostModel::Work {
  OperationClass operation_class = OperationClass::kOther;
  double flops = 0;
  double flops_per_s = 1;
  double bytes = 0;
  double extra_bytes = 0;  ///< moved by kernels of their own, before or after.
  int kernels = 1;
  double error = kKnownWorkError;
};

OperationCostModel::OperationCostModel(const profile::GpuSpec& spec)
    : fp32_(spec.fp32_flops),
      // GeForce and older boards do FP64 at 1/32. Source: CUDA C++ Programming Guide, throughput of
      // native arithmetic instructions.
      fp64_(spec.fp64_flops.value_or(spec.fp32_flops / 32)),
      tf32_(spec.tf32_tensor_flops.value_or(spec.fp32_flops)),
      fp16_(spec.fp16_tensor_flops.value_or(spec.fp32_flops)),
      bf16_(spec.bf16_tensor_flops.value_or(spec.fp32_flops)),
      fp8_(spec.fp8_tensor_flops.value_or(fp16_)),
      bandwidth_(spec.memory_bandwidth_bytes_per_s),
      clock_hz_(spec.boost_clock_mhz * 1e6),
      multiprocessors_(std::max(spec.multiprocessors, 1)) {}

double OperationCostModel::flops_per_s(gpemu_data_type type) const {
  switch (type) {
    case GPEMU_TYPE_FP64:
    case GPEMU_TYPE_COMPLEX128:
      return fp64_;
    case GPEMU_TYPE_TF32:
      return tf32_;
    case GPEMU_TYPE_FP16:
      return fp16_;
    case GPEMU_TYPE_BF16:
      return bf16_;
    case GPEMU_TYPE_FP8:
    case GPEMU_TYPE_INT8:
      return fp8_;
    default:
      return fp32_;
  }
}

/// Returns whether products of this type run at another rate than that of the ordinary units.
bool OperationCostModel::uses_tensor_cores(gpemu_data_type type) const {
  return plain_type(type) != type && flops_per_s(type) > fp32_;
}

/// Returns what share of the multiprocessors' time tiles of the output use: the last wave of tiles
/// is rarely full, and neither are the tiles at the edges. The best of the tile sizes counts.
double OperationCostModel::tile_efficiency(double rows, double columns, double batch) const {
  rows = std::max(rows, 1.0);
  columns = std::max(columns, 1.0);
  batch = std::max(batch, 1.0);
  const auto efficiency = [&](double tile_rows, double tile_columns) {
    const double tiles = std::ceil(rows / tile_rows) * std::ceil(columns / tile_columns) * batch;
    const double waves = std::ceil(tiles / multiprocessors_);
    return rows * columns * batch / (waves * multiprocessors_ * tile_rows * tile_columns);
  };
  // A small tile reuses its operands half as much. What is nearly a vector has kernels of its own,
  // which fill no square tile and reuse one operand only.
  return std::max({efficiency(kTile, kTile), 0.75 * efficiency(kSmallTile, kSmallTile),
                   0.3 * efficiency(kTile, std::min(columns, kThinTile)),
                   0.3 * efficiency(std::min(rows, kThinTile), kTile), 1e-3});
}

OperationCost OperationCostModel::cost_of(const Work& work) const {
  const double compute_s = work.flops / work.flops_per_s;
  const double memory_s = work.bytes / (bandwidth_ * kBandwidthShare);
  const double latency_s = kKernelLatencySeconds * std::max(work.kernels, 1);
  const double extra_s = work.extra_bytes / (bandwidth_ * kBandwidthShare);
  const double total_s = latency_s + extra_s + std::max(compute_s, memory_s);
  OperationCost cost;
  cost.operation_class = work.operation_class;
  cost.limit = latency_s >= std::max(compute_s, memory_s) ? Limit::kLatency
               : compute_s >= memory_s                    ? Limit::kCompute
                                                          : Limit::kMemory;
  // Shapes come from programs; beyond an hour they are nonsense, and the ledger must not overflow.
  constexpr double kLongestSeconds = 3600;
  cost.estimate = {.time = from_seconds(std::min(total_s, kLongestSeconds)),
                   .evidence = Evidence::kAnalytic,
                   .relative_error = work.error};
  return cost;
}

OperationCostModel::Work OperationCostModel::matmul(const gpemu_operation& operation) const {
  const double batch = shape(operation, 0), m = shape(operation, 1), n = shape(operation, 2),
               k = shape(operation, 3);
  const gpemu_data_type type = arithmetic_type(operation);
  // A product with few output tiles is split along k, so that the tiles of all splits count.
  const double tiles = std::ceil(m / kSmallTile) * std::ceil(n / kSmallTile) * batch;
  const double splits =
      std::clamp(std::floor(multiprocessors_ / std::max(tiles, 1.0)), 1.0, std::ceil(k / 512));
  return {
      .operation_class = OperationClass::kMatmul,
      .flops = 2 * batch * m * n * k * arithmetic_factor(type),
      .flops_per_s = flops_per_s(type) * kMatmulShare * tile_efficiency(m, n, batch * splits),
      .bytes = (m * k + k * n + m * n * splits) * batch * gpemu_data_type_bytes(operation.type)};
}

OperationCostModel::Work OperationCostModel::convolution(const gpemu_operation& operation) const {
  const double batch = shape(operation, 0), groups = std::max(shape(operation, 3), 1.0);
  const double in_channels = shape(operation, 1), out_channels = shape(operation, 2);
  double input = 1, filter = 1, output = 1, stride = 1;
  for (int i = 0; i < 3; ++i) {
    input *= std::max(shape(operation, 5 + i), 1.0);
    filter *= std::max(shape(operation, 8 + i), 1.0);
    output *= std::max(shape(operation, 11 + i), 1.0);
    stride = std::max(stride, shape(operation, 14 + i));
  }
  const gpemu_data_type type = arithmetic_type(operation);
  const double bytes_each = gpemu_data_type_bytes(operation.type);
  // As a matrix product: rows are output pixels, columns output channels, k is the window.
  double rows = batch * output, columns = out_channels / groups;
  double depth = in_channels / groups * filter;
  if (operation.kind == GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA) {
    rows = batch * input;
    columns = in_channels / groups;
  } else if (operation.kind == GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER) {
    rows = depth;
    depth = batch * output;
    // Split along the pixels until the multiprocessors are busy.
    rows *= std::clamp(depth / 4096, 1.0, 64.0);
  }
  const bool filter_gradient = operation.kind == GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER;
  const bool depthwise = groups > 1 && in_channels == groups;
  const bool tensor = !depthwise && uses_tensor_cores(type);
  double share = tensor ? kTensorConvolutionShare : kConvolutionShare;
  if (groups > 1) share = kGroupedShare;
  if (depthwise) share = filter_gradient ? kDepthwiseFilterShare : kDepthwiseShare;
  if (!tensor && groups == 1 && stride == 1 &&
      (type == GPEMU_TYPE_FP32 || type == GPEMU_TYPE_TF32)) {
    share *= winograd_gain(operation);
  }
  // Groups with few channels leave most of a tile of columns empty, but their kernels use narrower
  // tiles; their low share stands for both.
  const double efficiency = groups > 1 ? 1.0 : tile_efficiency(rows, columns, 1);
  const double activations = batch * (input * in_channels + output * out_channels);
  // Kernels for tensor cores want the channels last: what lies otherwise is turned over before and
  // after, read and written once more. Source: NVIDIA, "Convolutional Layers User's Guide", tensor
  // layouts.
  const bool transposed = tensor && operation.channels_last == 0;
  return {.operation_class = OperationClass::kConvolution,
          .flops = 2 * batch * output * out_channels * in_channels / groups * filter,
          .flops_per_s = flops_per_s(tensor ? type : plain_type(type)) * share * efficiency,
          .bytes = (activations + out_channels * in_channels / groups * filter) * bytes_each,
          .extra_bytes = transposed ? 2 * activations * bytes_each : 0,
          .kernels = transposed ? 3 : 1};
}

OperationCostModel::Work OperationCostModel::attention(const gpemu_operation& operation) const {
  const double batch = shape(operation, 0), heads = shape(operation, 1),
               kv_heads = shape(operation, 2), queries = shape(operation, 3),
               keys = shape(operation, 4), size = shape(operation, 5);
  const bool backward = operation.kind == GPEMU_OPERATION_ATTENTION_BACKWARD;
  const double causal = shape(operation, 6) > 0 ? 0.5 : 1;
  const gpemu_data_type type = arithmetic_type(operation);
  // Two products forward; backward recomputes one and has four. Source: as kAttentionShare.
  return {.operation_class = OperationClass::kAttention,
          .flops = (backward ? 10 : 4) * batch * heads * queries * keys * size * causal,
          .flops_per_s =
              flops_per_s(type) * kAttentionShare * tile_efficiency(queries, kTile, batch * heads),
          .bytes = (backward ? 3 : 1) * batch * 2 * (heads * queries + kv_heads * keys) * size *
                   gpemu_data_type_bytes(operation.type)};
}

OperationCostModel::Work OperationCostModel::recurrent(const gpemu_operation& operation) const {
  const double layers = shape(operation, 0), directions = shape(operation, 1),
               length = shape(operation, 2), batch = shape(operation, 3),
               input = shape(operation, 4), hidden = shape(operation, 5),
               gates = shape(operation, 6);
  const double factor = operation.kind == GPEMU_OPERATION_RNN_BACKWARD ? 2 : 1;
  const gpemu_data_type type = arithmetic_type(operation);
  const double weights = layers * directions * gates * hidden * (input + hidden);
  Work work{
      .operation_class = OperationClass::kRecurrent,
      .flops = factor * 2 * length * batch * weights,
      .flops_per_s = flops_per_s(type) * kMatmulShare * tile_efficiency(batch, gates * hidden, 1),
      .bytes = factor *
               (length * batch * (input + 2 * gates * hidden) * layers * directions + weights) *
               gpemu_data_type_bytes(operation.type)};
  // One step after the other; a step of a layer is a product and a kernel of gates.
  work.kernels = static_cast<int>(std::min(factor * 2 * length * layers, 1e6));
  return work;
}

OperationCostModel::Work OperationCostModel::memory_bound(const gpemu_operation& operation) const {
  const double each = gpemu_data_type_bytes(operation.type);
  const double first = shape(operation, 0), second = shape(operation, 1);
  Work work{.flops_per_s = fp32_ * 0.5};
  switch (operation.kind) {
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD: {
      const double usual = operation.kind == GPEMU_OPERATION_NORMALIZATION_FORWARD ? 3 : 5;
      work.operation_class = OperationClass::kNormalization;
      work.bytes = (operation.shape[2] > 0 ? shape(operation, 2) : usual) * first * each;
      break;
    }
    case GPEMU_OPERATION_POOLING:
    case GPEMU_OPERATION_POOLING_BACKWARD:
      work.operation_class = OperationClass::kPooling;
      work.bytes = (first + second) * each + second * shape(operation, 3);
      work.flops = second * shape(operation, 2);
      break;
    case GPEMU_OPERATION_ELEMENTWISE:
      work.operation_class = OperationClass::kElementwise;
      work.bytes = (first + second) * each;
      work.flops = second * shape(operation, 2);
      break;
    case GPEMU_OPERATION_REDUCTION:
      work.operation_class = OperationClass::kReduction;
      work.bytes = (first + second) * each;
      break;
    case GPEMU_OPERATION_FFT: {
      const double points = std::max(second, 1.0) * std::max(shape(operation, 2), 1.0) *
                            std::max(shape(operation, 3), 1.0);
      work.operation_class = OperationClass::kFft;
      // Cooley and Tukey: 5 n log2 n. Source: the convention of FFTW's benchmarks.
      work.flops = 5 * first * points * std::log2(std::max(points, 2.0));
      work.bytes = 4 * first * points * each;
      break;
    }
    case GPEMU_OPERATION_COPY_ON_DEVICE:
      work.operation_class = OperationClass::kCopy;
      work.bytes = 2 * first;
      break;
    case GPEMU_OPERATION_SET:
      work.operation_class = OperationClass::kSet;
      work.bytes = first;
      break;
    case GPEMU_OPERATION_WAIT:
      work.flops = first;
      work.flops_per_s = clock_hz_;
      break;
    case GPEMU_OPERATION_KERNEL:
      work.bytes = shape(operation, kKernelBytes);
      work.error = kUnknownWorkError;
      break;
    default:
      work.flops = first * arithmetic_factor(operation.type);
      work.flops_per_s = flops_per_s(arithmetic_type(operation)) * 0.3;
      work.bytes = second;
      work.error = kUnknownWorkError;
      break;
  }
  return work;
}

OperationCostModel::Work OperationCostModel::work_of(const gpemu_operation& operation) const {
  switch (operation.kind) {
    case GPEMU_OPERATION_MATMUL:
      return matmul(operation);
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
      return convolution(operation);
    case GPEMU_OPERATION_ATTENTION_FORWARD:
    case GPEMU_OPERATION_ATTENTION_BACKWARD:
      return attention(operation);
    case GPEMU_OPERATION_RNN_FORWARD:
    case GPEMU_OPERATION_RNN_BACKWARD:
      return recurrent(operation);
    default:
      return memory_bound(operation);
  }
}

OperationCost OperationCostModel::price(const gpemu_operation& operation) const {
  if (operation.kind == GPEMU_OPERATION_KERNEL && operation.shape[kKernelBytes] == 0) {
    return price(describe_kernel(kernel_traits(operation.name), operation));
  }
  return cost_of(work_of(operation));
}

OperationCost OperationCostModel::price(const DescribedOperation& described) const {
  Work work = work_of(described.operation);
  work.operation_class = described.operation_class;
  return cost_of(work);
}

}  // namespace gpemu::cost
