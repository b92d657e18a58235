// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "count_work.hpp"
#include "hardware.hpp"
#include "tiles.hpp"

namespace gpemu::cost {
namespace {

/// Numbers of 16 bits that a thread reads at once. If channels come last and are no multiple of it,
/// operands are copied to padded ones, and there are no kernels for groups. Source: "Tensor Core
/// requirements" in NVIDIA's "Deep Learning Performance: Convolutional Layers User's Guide".
constexpr std::int64_t kVector = 8;

/// PyTorch's depthwise convolution is compiled for square windows of 1, 3 and 5 elements; others
/// reach a part of the rate. Source: DepthwiseConv2d.cu; evidence/ours/h200/raw.csv, windows of 7
/// x 7.
constexpr double kOtherWindowShare = 0.35;

/// With the channels last, cuDNN's depthwise convolution in 16 bits has fast kernels for windows of
/// up to 7 x 7; others reach a part of the rate. Source: published steps of ConvMixers on the RTX
/// 3090. Beside the rest, the depthwise convolutions of the two with windows of 9 x 9 have 0.4
/// TFLOP/s, those of the one with 7 x 7 have 3.
constexpr double kWidestWindow = 7;
constexpr double kWideWindowShare = 0.12;

/// Without tensor cores, the rate of a convolution with groups grows with the root of the channels
/// of a group. The parameters are the rate at so many. Source: published steps of RegNets with the
/// channels last, which have groups of 8 to 232 channels.
constexpr double kTypicalGroup = 64;

/// A convolution's sizes; a single number is the product over all spatial dimensions.
struct Convolution {
  double batch, in_channels, out_channels, groups;
  double input = 1, filter = 1, output = 1;  ///< elements
  double widest = 1;                         ///< the filter's largest size.
  bool square = true, strided = false, dilated = false;
  std::array<double, 3> input_size{}, output_size{};
};

Convolution convolution_of(const gpemu_operation& operation) {
  Convolution conv{.batch = entry(operation, 0),
                   .in_channels = std::max(entry(operation, 1), 1.0),
                   .out_channels = std::max(entry(operation, 2), 1.0),
                   .groups = std::max(entry(operation, 3), 1.0)};
  const int dimensions = static_cast<int>(std::clamp(entry(operation, 4), 1.0, 3.0));
  for (int i = 0; i < dimensions; ++i) {
    const double size = std::max(entry(operation, 8 + i), 1.0);
    conv.input_size[i] = std::max(entry(operation, 5 + i), 1.0);
    conv.output_size[i] = std::max(entry(operation, 11 + i), 1.0);
    conv.input *= conv.input_size[i];
    conv.output *= conv.output_size[i];
    conv.filter *= size;
    if (i > 0 && size != conv.widest) conv.square = false;
    conv.widest = std::max(conv.widest, size);
    if (entry(operation, 17 + i) > 1) conv.dilated = true;
    if (entry(operation, 14 + i) > 1 || conv.dilated) conv.strided = true;
  }
  if (dimensions != 2) conv.square = false;
  return conv;
}

/// Returns whether cuDNN has a kernel on tensor cores for the backward pass of a convolution with
/// groups: for groups of up to 40 channels if there are enough of them, and not if the filter's
/// elements are apart. Source: published steps with the channels last on the RTX 3090. RegNetZ,
/// SE-ResNeXt and the later stages of RegNets with groups of 16, 24 and 40 are fast; other RegNets,
/// GC-ResNeXt and Res2NeXt, with fewer channels or wider groups, and SK-ResNeXt, with such filters,
/// are not. With groups of 4, 8, 16 and 32 only, steps of six RegNets were predicted to take 22 to
/// 63 % too long; with all, the errors are -10 to 16 %, and that of DPN-92, which no fit uses, with
/// groups of 6, 12 and 24, is -8 % (21).
///
/// On Hopper, with a later library, all groups of up to 16 channels are fast, but not the filter's
/// gradient of groups of 4; of 32 channels, those whose number of channels is a multiple of 256.
/// Source: evidence/ours/h200/raw.csv; steps of RegNetX and Y, RegNetZ, ResNeXt-101, DPN,
/// SK-ResNeXt and Next-ViT in evidence/ours/h100/programs.jsonl.
bool has_group_kernel(const Convolution& conv, int direction, const profile::GpuSpec& spec) {
  constexpr double kManyNarrow = 128, kManyWide = 256, kWidestGroup = 40;
  const double group = conv.in_channels / conv.groups;
  if (spec.generation.grouped_tensor_cores) {
    if (group == 32) return std::fmod(conv.in_channels, kManyWide) == 0;
    return group <= 16 && (group != 4 || direction != 2);
  }
  if (group != conv.out_channels / conv.groups || conv.dilated) return false;
  if (group <= 8) return conv.in_channels >= kManyNarrow;
  if (group <= 16) return conv.in_channels > kManyNarrow;
  return group <= kWidestGroup && conv.in_channels >= kManyWide;
}

/// Returns the arithmetic of a convolution in 16 bits with groups, without such a kernel, which
/// takes `flops` without what is lost. Before Hopper, it has no tensor cores, and the gradient of a
/// strided convolution's input goes over all windows of the input, though most of their elements
/// meet no output. Without that, steps of ResNeXt and DPN, of which few convolutions are strided,
/// were predicted from those of RegNet to take 15 % too long, and with it 3 %
/// (evidence/published/steps.csv). Groups of 16 take as long as ones of 32, where there are few,
/// and two of them have whole 32 channels: RegNetX-004 and -008, RegNetY-008, BoTNeXt and HaloNeXt,
/// with 32, 64 and 128 channels, were 14 to 25 % too fast; RegNetY-006, with 48 and 112, was not.
///
/// On Hopper, the rate of groups of 24 to 120 channels is that of matrices that tiles of 64 x 64
/// fill up on both sides: 12, 14, 37, 45, 81 and 76 TFLOP/s on an H100 with 24, 32, 48, 56, 64 and
/// 120 channels, by what steps take beside the rest (RegNetY-032, Next-ViT, Visformer, RegNetY-8GF,
/// NFNet, RegNetX-080 in evidence/ours/h100/programs.jsonl). Those of 4 channels are as fast as
/// tiles of 16 x 16 would be.
double direct_group_flops(const Convolution& conv, int direction, double flops,
                          const profile::GpuSpec& spec) {
  constexpr double kPair = 32, kFewChannels = 128;
  const double group = conv.in_channels / conv.groups;
  if (!spec.generation.grouped_tensor_cores) {
    if (direction == 1) flops *= std::max(conv.input / conv.output, 1.0);
    const bool few = conv.in_channels <= kFewChannels && std::fmod(conv.in_channels, kPair) == 0;
    const double filled = few && 2 * group == kPair ? kPair : group;
    return flops * filled / group * std::sqrt(kTypicalGroup / filled);
  }
  const double tile = group > 16 ? kTypicalGroup : 16;
  const double filled = group / (round_up(group / tile) * tile);
  return flops / (filled * filled);
}

/// Returns the parameter that multiplies a convolution's share.
std::int8_t factor_of(const Convolution& conv, int direction) {
  constexpr double kFirstChannels = 4;
  const auto of = [&](int first) { return static_cast<std::int8_t>(first + direction); };
  if (conv.in_channels <= kFirstChannels) {
    if (direction == 1) return -1;  // The gradient of images is not needed.
    // The table has no entry for that direction.
    const int step = direction == 2 ? 1 : 0;
    return static_cast<std::int8_t>((conv.widest > 3 ? kFirstLargeForward : kFirstForward) + step);
  }
  if (conv.widest >= 5) return of(kLargeForward);
  if (conv.filter == 1 && !conv.strided) return of(kPointwiseForward);
  if (conv.square && conv.widest == 3 && !conv.strided) return of(kSquareForward);
  return of(kIrregularForward);
}

/// Returns the multiply-adds' time of a convolution by Winograd's algorithm with square tiles.
/// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016: a tile
/// of t x t outputs takes (t + filter - 1) ^ 2 products of channels.
double winograd(const Convolution& conv, int direction, double tile, double multiprocessors) {
  const auto& size = direction == 1 ? conv.input_size : conv.output_size;
  const double tiles = conv.batch * round_up(size[0] / tile) * round_up(size[1] / tile);
  const double side = tile + conv.widest - 1;
  Product product{.rows = tiles,
                  .columns = direction == 0 ? conv.out_channels : conv.in_channels,
                  .depth = direction == 0 ? conv.in_channels : conv.out_channels,
                  .batch = side * side};
  if (direction == 2) {
    product.rows = conv.out_channels;
    product.depth = tiles;
  }
  return tiled(product, multiprocessors, direction == 2);
}

/// Sets what Winograd's algorithm takes, if a convolution can use it.
void add_winograd(const Convolution& conv, int direction, const profile::GpuSpec& spec,
                  ConvolutionWork& work) {
  // A transform of tiles of 4 x 4 reads an input of 6 x 6 (2.25 times as much) or 8 x 8 (4 times),
  // writes and reads it, and does the same with the output.
  constexpr double kTransform3 = 4.5, kTransform5 = 8;
  if (!conv.square || conv.strided || (conv.widest != 3 && conv.widest != 5)) return;
  const double multiprocessors = spec.multiprocessors;
  const auto flops = [&](double tile) {
    return 2 * winograd(conv, direction, tile, multiprocessors);
  };
  work.winograd_large_flops = flops(4);
  work.transform = conv.widest == 3 ? kTransform3 : kTransform5;
  if (conv.widest == 3) work.winograd_small_flops = flops(2);
  work.winograd_depth = direction == 0   ? conv.in_channels
                        : direction == 1 ? conv.out_channels
                                         : conv.batch * round_up(conv.output_size[0] / 2) *
                                               round_up(conv.output_size[1] / 2);
}

/// A convolution as a product: rows are pixels, columns channels, a term of the sum is one of the
/// window.
Product product_of(const Convolution& conv, int direction) {
  const double in_channels = conv.in_channels / conv.groups;
  const double out_channels = conv.out_channels / conv.groups;
  switch (direction) {
    case 1:
      return {.rows = conv.batch * conv.input,
              .columns = in_channels,
              .depth = out_channels * conv.filter,
              .batch = conv.groups};
    case 2:
      return {.rows = out_channels,
              .columns = in_channels * conv.filter,
              .depth = conv.batch * conv.output,
              .batch = conv.groups};
    default:
      return {.rows = conv.batch * conv.output,
              .columns = out_channels,
              .depth = in_channels * conv.filter,
              .batch = conv.groups};
  }
}

/// The arithmetic of a convolution with one channel in each group.
double depthwise_flops(const Convolution& conv, bool direct) {
  const double flops = 2 * conv.batch * conv.output * conv.out_channels * conv.filter;
  const bool compiled = conv.filter == conv.widest * conv.widest &&
                        (conv.widest == 1 || conv.widest == 3 || conv.widest == 5);
  if (!direct && !compiled) return flops / kOtherWindowShare;
  return direct && conv.widest > kWidestWindow ? flops / kWideWindowShare : flops;
}

/// The bytes of a convolution's input and output.
struct Activations {
  double input, output;
  [[nodiscard]] double both() const { return input + output; }
};

/// Returns the bytes that are moved to put the channels of a convolution's operands last.
/// `aligned`: the channels are as many as kernels like.
double turned_bytes(const Convolution& conv, const gpemu_operation& operation, bool aligned,
                    const Activations& bytes, const CommonWork& work,
                    const profile::GpuSpec& spec) {
  // Images have three channels, for which there are kernels.
  constexpr double kImageChannels = 4;
  const bool last = operation.channels_last != 0 && is_half_type(operation.type);
  if (last && !aligned && conv.in_channels > kImageChannels) return 2 * bytes.both();
  // In 16 bits, windows of one element are products in either order; not before Ampere, where
  // published steps of WideResNet and ResNeXt took longer (evidence/published/README.md).
  const bool product_in_place =
      work.half && conv.filter == 1 && !conv.strided && spec.generation.pointwise_in_place;
  if (!work.tensor_cores || operation.channels_last != 0 || product_in_place) return 0;
  // Operands are read and written once more to put their channels last; the kernels write the
  // result in either order. Source: the names of cuDNN's kernels, *_nhwckrsc_nchw, beside
  // nchwToNhwcKernel.
  return 2 * (work.direction == 0   ? bytes.input
              : work.direction == 1 ? bytes.output
                                    : bytes.both());
}

/// Makes work that of a convolution with groups. `fast`: in 16 bits, with the channels last, and so
/// many that there are kernels for them.
void add_groups(const Convolution& conv, bool fast, const profile::GpuSpec& spec,
                OperationWork& work, GroupedConvolutionWork kind) {
  const double group = conv.in_channels / conv.groups;
  if (fast && work.direction > 0) {
    kind.direct = !has_group_kernel(conv, work.direction, spec);
    // Groups are computed as ones of the next power of two.
    work.flops = kind.direct ? direct_group_flops(conv, work.direction, work.least_flops, spec)
                             : work.least_flops * std::exp2(std::ceil(std::log2(group))) / group;
  }
  work.kind = kind;
}

}  // namespace

OperationWork convolution_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const Convolution conv = convolution_of(operation);
  const int direction = operation.kind - GPEMU_OPERATION_CONVOLUTION_FORWARD;
  const gpemu_data_type type = arithmetic_type(operation);
  const Peak peak = peak_of(type, spec);
  const double each = gpemu_data_type_bytes(operation.type);
  const Activations activations{.input = conv.batch * conv.input * conv.in_channels * each,
                                .output = conv.batch * conv.output * conv.out_channels * each};
  const double group = conv.in_channels / conv.groups;
  OperationWork work{{.direction = static_cast<std::uint8_t>(direction),
                      .tensor_cores = peak.tensor_cores,
                      .half = peak.tensor_cores && is_half_type(type),
                      .peak_flops = peak.flops,
                      .bytes = activations.both() + conv.out_channels * group * conv.filter * each},
                     {}};
  work.cached = cached_part(work.bytes, spec);
  const bool last = operation.channels_last != 0 && is_half_type(operation.type);
  const bool aligned = (operation.shape[1] | operation.shape[2]) % kVector == 0;
  if (conv.groups > 1 && conv.in_channels == conv.groups) {
    const DepthwiseConvolutionWork depthwise{.direct = last && aligned};
    work.flops = depthwise_flops(conv, depthwise.direct);
    work.kind = depthwise;
    return work;
  }
  const Product product = product_of(conv, direction);
  const double depth = std::max(product.depth, 1.0);
  work.flops = 2 * tiled(product, spec.multiprocessors, direction == 2);
  work.least_flops = 2 * conv.batch * conv.output * conv.out_channels * group * conv.filter;
  if (conv.groups > 1) {
    add_groups(conv, last && aligned, spec, work,
               {.last = last && peak.tensor_cores, .depth = depth});
    return work;
  }
  ConvolutionWork& dense = work.kind.emplace<ConvolutionWork>();
  dense.factor = factor_of(conv, direction);
  dense.last = last && peak.tensor_cores;
  dense.depth = depth;
  dense.activation_bytes = activations.both();
  dense.turned_bytes = turned_bytes(conv, operation, aligned, activations, work, spec);
  if (type == GPEMU_TYPE_FP32 || !peak.tensor_cores) add_winograd(conv, direction, spec, dense);
  if (dense.winograd_large_flops > 0) work.least_flops = 0;
  return work;
}

}  // namespace gpemu::cost
