// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/operation_time.hpp"

#include <bit>
#include <cmath>
#include <functional>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::cost {
namespace {

using Kind = OperationWork::Kind;

/// Sizes of the output tiles of a block of threads, and the share of the peak rate that a tile of
/// this size allows: smaller ones reuse loaded values less often. Source: tile sizes of cutlass and
/// cuBLAS; the shares are the reuse of a tile, rows * columns / (rows + columns), damped to match
/// NVIDIA's "Matrix Multiplication Background User's Guide".
struct Tile {
  double rows, columns, share;
  /// Multiplying by the inverse takes half the time of a division.
  double per_row = 1 / rows, per_column = 1 / columns;
  /// The least multiply-adds for each one that is needed, less a margin for rounding errors.
  double least = (1 - 1e-9) / share;
};
constexpr std::array kTiles = {Tile{128, 128, 1},  Tile{128, 64, 0.92}, Tile{64, 64, 0.8},
                               Tile{128, 32, 0.7}, Tile{64, 32, 0.6},   Tile{32, 32, 0.45}};
// tiled() stops at the first tile that cannot be better.
static_assert(std::ranges::is_sorted(kTiles, std::ranges::greater{}, &Tile::share));
// Else inverses would be rounded.
static_assert(std::ranges::all_of(kTiles, [](const Tile& tile) {
  return std::has_single_bit(static_cast<unsigned>(tile.rows)) &&
         std::has_single_bit(static_cast<unsigned>(tile.columns));
}));

/// With more waves of tiles than this, blocks start as others end, and the last wave is half full
/// on average.
constexpr double kWholeWaves = 4;
/// If there are few tiles, a sum is split over blocks, into parts of at least so many terms, until
/// there are four blocks per multiprocessor. Source: grids in published kernel times (NeuSight).
constexpr double kLeastSplit = 256;
constexpr double kSplitBlocks = 4;

/// Shares of the peak that other arithmetic reaches: transforms, whose steps depend on each other,
/// and work of which only the amount is known. Chosen by hand, without measurements.
constexpr double kTransformShare = 0.5;
constexpr double kOtherShare = 0.3;
/// The share that a product in an unknown kernel reaches. Chosen by hand, below that of libraries.
constexpr double kGuessedShare = 0.5;

/// Products of FP32 whose sums lie along both operands' rows reach less of the rate of others on
/// Pascal if the rows that blocks read at the same time span more memory than addresses are
/// translated for at once: the share falls with the root of the span. Two tiles of 64 x 64 count
/// for each multiprocessor, first those along m. Source: NeuSight's kernel times on P100
/// (evidence/packs/gpemu-vldb25/README.md).
constexpr double kAlongSumSpan = 64.0 * (1 << 20);
constexpr double kTileSide = 64;
constexpr double kTilesAtOnce = 2;

/// Numbers of 16 bits that a thread reads at once. If channels come last and are no multiple of it,
/// operands are copied to padded ones, and there are no kernels for groups. Source: "Tensor Core
/// requirements" in NVIDIA's "Deep Learning Performance: Convolutional Layers User's Guide".
constexpr std::int64_t kVector = 8;

/// The L2 cache serves all of what an operation touches if that is at most the first share of it,
/// and nothing from the second on. Source: evidence/ours/h200/raw.csv, copies and sums of 1 KiB to
/// 1 GiB.
constexpr double kAllCached = 0.7;
constexpr double kNoneCached = 0.95;

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

/// A product of matrices: `batch` times rows x columns, each a sum of `depth` terms.
struct Product {
  double rows, columns, depth, batch;
};

/// The same as std::floor and std::ceil for numbers that are not negative; those are function calls
/// on x86-64.
double round_down(double value) {
  constexpr double kWhole = 1e15;  // Beyond it, numbers are whole, or not numbers.
  return value < kWhole ? static_cast<double>(static_cast<std::int64_t>(value)) : value;
}
double round_up(double value) {
  const double whole = round_down(value);
  return whole < value ? whole + 1 : whole;
}

/// Returns a product's time in multiply-adds, with the best tiles; `split`: sums may be split.
double tiled(const Product& product, double multiprocessors, bool split) {
  const double wanted = product.rows * product.columns * product.batch;
  double best = INFINITY;
  for (const Tile& tile : kTiles) {
    if (wanted * tile.least > best) break;  // The next ones are even worse.
    double blocks = round_up(product.rows * tile.per_row) *
                    round_up(product.columns * tile.per_column) * product.batch;
    double parts = 1;
    if (split) {
      parts = std::clamp(round_down(kSplitBlocks * multiprocessors / blocks), 1.0,
                         std::max(round_down(product.depth / kLeastSplit), 1.0));
      blocks *= parts;
    }
    double waves = round_up(blocks / multiprocessors);
    if (waves > kWholeWaves) waves = blocks / multiprocessors + 0.5;
    double made = waves * multiprocessors * tile.rows * tile.columns;
    if (split) made /= parts;
    best = std::min(best, made / tile.share);
  }
  return best * product.depth;
}

double entry(const gpemu_operation& operation, int index) {
  return static_cast<double>(std::max<std::int64_t>(operation.shape[index], 0));
}

gpemu_data_type arithmetic_type(const gpemu_operation& operation) {
  return operation.compute_type == GPEMU_TYPE_UNKNOWN ? operation.type : operation.compute_type;
}

/// A complex product takes four real ones.
double arithmetic_factor(gpemu_data_type type) {
  return type == GPEMU_TYPE_COMPLEX64 || type == GPEMU_TYPE_COMPLEX128 ? 4 : 1;
}

struct Peak {
  double flops = 0;
  bool tensor_cores = false;
};

/// A type for which a GPU has no tensor cores is computed at its FP32 rate.
Peak peak_of(gpemu_data_type type, const profile::GpuSpec& spec) {
  std::optional<double> tensor;
  switch (type) {
    case GPEMU_TYPE_FP64:
    case GPEMU_TYPE_COMPLEX128:
      return {.flops = spec.fp64_flops.value_or(spec.fp32_flops / 32)};
    case GPEMU_TYPE_TF32:
      tensor = spec.tf32_tensor_flops;
      break;
    case GPEMU_TYPE_FP16:
      tensor = spec.fp16_tensor_flops;
      break;
    case GPEMU_TYPE_BF16:
      tensor = spec.bf16_tensor_flops;
      break;
    case GPEMU_TYPE_FP8:
    case GPEMU_TYPE_INT8:
      tensor = spec.fp8_tensor_flops ? spec.fp8_tensor_flops : spec.fp16_tensor_flops;
      break;
    default:
      break;
  }
  return {.flops = tensor.value_or(spec.fp32_flops), .tensor_cores = tensor.has_value()};
}

/// The same for products of matrices: a board that reaches its power limit lowers its clock. Not
/// for convolutions: published steps of ResNet-50 on T4 (evidence/published/scaling/resnet50.csv)
/// take half as long as at the clock of T4's products. Nor are there more of them than boards are
/// reported to do.
Peak sustained_peak_of(gpemu_data_type type, const profile::GpuSpec& spec) {
  Peak peak = peak_of(type, spec);
  // Priced with the shares of FP32: so an H100 takes 5 and 15 % less than predicted
  // (evidence/ours/h100/raw.csv, 2048 and 8192 on each side).
  if (type == GPEMU_TYPE_FP64) peak.flops = spec.fp64_tensor_flops.value_or(peak.flops);
  peak.flops *=
      std::min(spec.sustained_clock_mhz.value_or(spec.boost_clock_mhz) / spec.boost_clock_mhz, 1.0);
  std::optional<double> most;
  if (type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_BF16) most = spec.fp16_product_flops;
  if (!peak.tensor_cores && type != GPEMU_TYPE_FP64 && type != GPEMU_TYPE_COMPLEX128) {
    most = spec.fp32_product_flops;
  }
  peak.flops = std::min(peak.flops, most.value_or(peak.flops));
  return peak;
}

bool is_half_type(gpemu_data_type type) {
  return type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_BF16 || type == GPEMU_TYPE_FP8 ||
         type == GPEMU_TYPE_INT8;
}

/// Returns the part of an operation's bytes that the L2 cache serves, if it touches so many.
double cached_part(double bytes, const profile::GpuSpec& spec) {
  const double share = bytes / static_cast<double>(std::max<Bytes>(spec.l2_cache_bytes, 1));
  return std::clamp((kNoneCached - share) / (kNoneCached - kAllCached), 0.0, 1.0);
}

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

void add_winograd(const Convolution& conv, const profile::GpuSpec& spec, OperationWork& work) {
  // A transform of tiles of 4 x 4 reads an input of 6 x 6 (2.25 times as much) or 8 x 8 (4 times),
  // writes and reads it, and does the same with the output.
  constexpr double kTransform3 = 4.5, kTransform5 = 8;
  if (!conv.square || conv.strided || (conv.widest != 3 && conv.widest != 5)) return;
  const double multiprocessors = spec.multiprocessors;
  const auto flops = [&](double tile) {
    return 2 * winograd(conv, work.direction, tile, multiprocessors);
  };
  work.least_flops = 0;
  work.winograd_large_flops = flops(4);
  work.transform = conv.widest == 3 ? kTransform3 : kTransform5;
  if (conv.widest == 3) work.winograd_small_flops = flops(2);
  work.winograd_depth = work.direction == 0   ? conv.in_channels
                        : work.direction == 1 ? conv.out_channels
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

/// Sets what a convolution moves. `aligned`: the channels are as many as kernels like.
void set_convolution_bytes(const Convolution& conv, const gpemu_operation& operation, bool aligned,
                           const profile::GpuSpec& spec, OperationWork& work) {
  const double each = gpemu_data_type_bytes(operation.type);
  const double input_bytes = conv.batch * conv.input * conv.in_channels * each;
  const double output_bytes = conv.batch * conv.output * conv.out_channels * each;
  work.activation_bytes = input_bytes + output_bytes;
  // In 16 bits, windows of one element are products in either order; not before Ampere, where
  // published steps of WideResNet and ResNeXt took longer (evidence/published/README.md).
  const bool product_in_place =
      work.half && conv.filter == 1 && !conv.strided && spec.generation.pointwise_in_place;
  if (work.tensor_cores && operation.channels_last == 0 && !product_in_place) {
    // Operands are read and written once more to put their channels last; the kernels write the
    // result in either order. Source: the names of cuDNN's kernels, *_nhwckrsc_nchw, beside
    // nchwToNhwcKernel.
    work.turned_bytes = 2 * (work.direction == 0   ? input_bytes
                             : work.direction == 1 ? output_bytes
                                                   : work.activation_bytes);
  }
  // Images have three channels, for which there are kernels.
  constexpr double kImageChannels = 4;
  const bool last = operation.channels_last != 0 && is_half_type(operation.type);
  if (last && !aligned && conv.in_channels > kImageChannels) {
    work.turned_bytes = 2 * work.activation_bytes;
  }
  const double in_channels = conv.in_channels / conv.groups;
  work.bytes = work.activation_bytes + conv.out_channels * in_channels * conv.filter * each;
  work.cached = cached_part(work.bytes, spec);
}

/// The arithmetic of a convolution with one channel in each group.
double depthwise_flops(const Convolution& conv, bool direct) {
  const double flops = 2 * conv.batch * conv.output * conv.out_channels * conv.filter;
  const bool compiled = conv.filter == conv.widest * conv.widest &&
                        (conv.widest == 1 || conv.widest == 3 || conv.widest == 5);
  if (!direct && !compiled) return flops / kOtherWindowShare;
  return direct && conv.widest > kWidestWindow ? flops / kWideWindowShare : flops;
}

OperationWork convolution_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const Convolution conv = convolution_of(operation);
  const int direction = operation.kind - GPEMU_OPERATION_CONVOLUTION_FORWARD;
  const bool depthwise = conv.groups > 1 && conv.in_channels == conv.groups;
  const Product product = product_of(conv, direction);
  const Peak peak = peak_of(arithmetic_type(operation), spec);
  const bool last = operation.channels_last != 0 && is_half_type(operation.type);
  const bool aligned = (operation.shape[1] | operation.shape[2]) % kVector == 0;
  const bool in_groups = last && aligned && conv.groups > 1 && direction > 0 && !depthwise;
  const bool group_kernel = in_groups && has_group_kernel(conv, direction, spec);
  OperationWork work{.kind = depthwise         ? Kind::kDepthwiseConvolution
                             : conv.groups > 1 ? Kind::kGroupedConvolution
                                               : Kind::kConvolution,
                     .direction = static_cast<std::uint8_t>(direction),
                     .tensor_cores = peak.tensor_cores,
                     .half = peak.tensor_cores && is_half_type(arithmetic_type(operation)),
                     .last = last && peak.tensor_cores,
                     .direct = (last && aligned && depthwise) || (in_groups && !group_kernel),
                     .peak_flops = peak.flops,
                     .depth = std::max(product.depth, 1.0)};
  set_convolution_bytes(conv, operation, aligned, spec, work);
  if (depthwise) {
    work.flops = depthwise_flops(conv, work.direct);
    return work;
  }
  const double group = conv.in_channels / conv.groups;
  work.flops = 2 * tiled(product, spec.multiprocessors, direction == 2);
  work.least_flops = 2 * conv.batch * conv.output * conv.out_channels * group * conv.filter;
  if (work.direct) work.flops = direct_group_flops(conv, direction, work.least_flops, spec);
  if (group_kernel) {
    // Groups are computed as ones of the next power of two.
    work.flops = work.least_flops * std::exp2(std::ceil(std::log2(group))) / group;
  }
  if (work.kind == Kind::kConvolution) {
    work.factor = factor_of(conv, direction);
    const bool fp32 = arithmetic_type(operation) == GPEMU_TYPE_FP32 || !peak.tensor_cores;
    if (fp32) add_winograd(conv, spec, work);
  }
  return work;
}

/// Returns the work of products of matrices, each with `passes` times the same arithmetic.
OperationWork product_work(const Product& product, const gpemu_operation& operation, double passes,
                           double bytes, const profile::GpuSpec& spec) {
  const gpemu_data_type type = arithmetic_type(operation);
  const Peak peak = sustained_peak_of(type, spec);
  const double terms = product.batch * product.rows * product.columns * product.depth;
  const double each = 2 * passes * arithmetic_factor(type);
  // Products with a vector have their own kernels, which do not use tiles.
  const bool vector = product.rows == 1 || product.columns == 1;
  OperationWork work{.kind = Kind::kMatmul,
                     .tensor_cores = peak.tensor_cores,
                     .half = peak.tensor_cores && is_half_type(type),
                     .peak_flops = peak.flops,
                     .flops = each * (vector ? terms : tiled(product, spec.multiprocessors, true)),
                     .least_flops = each * terms,
                     .bytes = bytes * gpemu_data_type_bytes(operation.type)};
  work.cached = cached_part(work.bytes, spec);
  return work;
}

/// Returns what a product whose sums lie along both operands' rows reaches of the rate of others.
double along_sum_share(const Product& product, const profile::GpuSpec& spec) {
  const profile::GenerationFacts& facts = spec.generation;
  const double tiles = kTilesAtOnce * spec.multiprocessors;
  const double down = round_up(product.rows / kTileSide);
  const double rows = std::min(product.rows, tiles * kTileSide);
  const double columns = std::min(product.columns, round_up(tiles / down) * kTileSide);
  const double span = (rows + columns) * product.depth * gpemu_data_type_bytes(GPEMU_TYPE_FP32);
  return facts.along_sum_share *
         std::clamp(std::sqrt(kAlongSumSpan / span), facts.along_sum_least_share, 1.0);
}

OperationWork matmul_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const Product product{.rows = entry(operation, 1),
                        .columns = entry(operation, 2),
                        .depth = entry(operation, 3),
                        .batch = entry(operation, 0)};
  // What all products share comes from a cache after the first one.
  const auto times = [&](int shared) { return entry(operation, shared) > 0 ? 1 : product.batch; };
  const double elements = times(4) * product.rows * product.depth +
                          times(5) * product.depth * product.columns +
                          product.batch * product.rows * product.columns;
  OperationWork work = product_work(product, operation, 1, elements, spec);
  work.unaligned = work.tensor_cores && operation.access == GPEMU_ACCESS_STRIDED;
  constexpr int kAlongSum = 6;
  const bool along_sum = entry(operation, kAlongSum) > 0;
  if (along_sum && operation.type == GPEMU_TYPE_FP32) work.flops /= along_sum_share(product, spec);
  return work;
}

/// Two products forward; backward recomputes one and has four. Source: Dao, "FlashAttention-2".
OperationWork attention_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const bool backward = operation.kind == GPEMU_OPERATION_ATTENTION_BACKWARD;
  const double batch = entry(operation, 0), heads = entry(operation, 1),
               kv_heads = entry(operation, 2), size = entry(operation, 5);
  Product product{.rows = entry(operation, 3),
                  .columns = entry(operation, 4),
                  .depth = size,
                  .batch = batch * heads};
  const double causal = entry(operation, 6) > 0 ? 0.5 : 1;
  const double elements =
      (backward ? 3 : 1) * batch * 2 * (heads * product.rows + kv_heads * product.columns) * size;
  if (operation.shape[7] != GPEMU_ATTENTION_CUDNN) {
    // A block computes whole tiles of queries and keys. Source: the names of the kernels, such as
    // Flash_fwd_kernel_traits<64, 128, 64, ...> and fmha_cutlassF_f16_aligned_64x64_rf_sm80.
    constexpr double kKeys = 64;
    const double rows = operation.shape[7] == GPEMU_ATTENTION_FLASH ? 128 : 64;
    product.rows = round_up(product.rows / rows) * rows;
    product.columns = round_up(product.columns / kKeys) * kKeys;
  }
  OperationWork work =
      product_work(product, operation, (backward ? 5 : 2) * causal, elements, spec);
  work.kind = Kind::kAttention;
  work.direction = backward ? 1 : 0;
  if (work.half && operation.shape[7] == GPEMU_ATTENTION_EFFICIENT) {
    work.flops /= spec.generation.efficient_attention_share;
  } else if (work.half && operation.shape[7] == GPEMU_ATTENTION_FLASH) {
    work.flops /= spec.generation.flash_attention_share;
  }
  return work;
}

/// The inputs' products of all time steps at once, then the hidden state's one after the other,
/// each with a kernel for its gates.
OperationWork recurrent_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  constexpr double kMostKernels = 1e6;
  const double layers = entry(operation, 0), directions = entry(operation, 1),
               length = entry(operation, 2), batch = entry(operation, 3),
               input = entry(operation, 4), hidden = entry(operation, 5),
               gates = entry(operation, 6) * hidden;
  const double passes = operation.kind == GPEMU_OPERATION_RNN_BACKWARD ? 2 : 1;
  const double runs = passes * layers * directions;
  const double elements = runs * (length * batch * (input + 2 * gates) + gates * (input + hidden));
  OperationWork work =
      product_work({.rows = length * batch, .columns = gates, .depth = input, .batch = 1},
                   operation, runs, elements, spec);
  const OperationWork step =
      product_work({.rows = batch, .columns = gates, .depth = hidden, .batch = 1}, operation,
                   runs * length, 0, spec);
  work.flops += step.flops;
  work.least_flops += step.least_flops;
  work.kernels = std::clamp(2 * passes * length * layers, 1.0, kMostKernels);
  return work;
}

/// Other work whose amount is known.
OperationWork other_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const gpemu_data_type type = arithmetic_type(operation);
  OperationWork work{.kind = Kind::kOther, .peak_flops = sustained_peak_of(type, spec).flops};
  switch (operation.kind) {
    case GPEMU_OPERATION_FFT: {
      const double batch = entry(operation, 0);
      const double points = std::max(entry(operation, 1), 1.0) *
                            std::max(entry(operation, 2), 1.0) * std::max(entry(operation, 3), 1.0);
      // Cooley and Tukey: 5 n log2 n. Source: the convention of FFTW's benchmarks.
      work.flops = 5 * batch * points * std::log2(std::max(points, 2.0));
      work.peak_flops *= kTransformShare;
      work.bytes = 4 * batch * points * gpemu_data_type_bytes(operation.type);
      break;
    }
    case GPEMU_OPERATION_WAIT:
      work.flops = entry(operation, 0);
      work.peak_flops = spec.boost_clock_mhz * 1e6;
      break;
    default:
      work.flops = entry(operation, 0) * arithmetic_factor(operation.type);
      work.peak_flops *= kOtherShare;
      work.bytes = entry(operation, 1);
      break;
  }
  return work;
}

/// A product of matrices in a kernel that is not known.
OperationWork guessed_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const double peak = sustained_peak_of(arithmetic_type(operation), spec).flops;
  const double flops = entry(operation, kernels::kKernelFlops);
  return {.kind = Kind::kOther,
          .peak_flops = peak * kGuessedShare,
          .flops = flops,
          .bytes = entry(operation, kernels::kKernelBytes)};
}

OperationWork normalization_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const bool backward = operation.kind == GPEMU_OPERATION_NORMALIZATION_BACKWARD;
  const double passes = entry(operation, 2) > 0 ? entry(operation, 2) : backward ? 5 : 3;
  const double bytes = entry(operation, 0) * gpemu_data_type_bytes(operation.type);
  const double touched = std::min(passes, backward ? 3.0 : 2.0) * bytes;
  OperationWork work{.kind = Kind::kNormalization,
                     .direction = static_cast<std::uint8_t>(backward ? 1 : 0),
                     .bytes = passes * bytes,
                     .cached = cached_part(touched, spec),
                     .elements = passes * entry(operation, 0),
                     .rows = entry(operation, 3) * (backward ? 1 : kForwardRow),
                     // With the channels last, blocks share them.
                     .channels = operation.channels_last != 0 ? 0 : entry(operation, 1)};
  if (operation.access == GPEMU_ACCESS_STRIDED) {
    work.bytes = passes * entry(operation, 0) * kSectorBytes;
    work.cached = 0;
  }
  const double own_passes = backward ? kOwnNormalizationBackwardPasses : 1;
  if (work.channels > 0 && entry(operation, 2) == own_passes) {
    const double blocks = std::min(work.channels, kOwnNormalizationBlocks * spec.multiprocessors);
    work.clocks = entry(operation, 0) / blocks /
                  (backward ? kOwnNormalizationBackward : kOwnNormalizationForward);
    work.channels = 0;
  }
  return work;
}

OperationWork stream(OperationParameter share, double bytes, const profile::GpuSpec& spec) {
  return {
      .kind = Kind::kStream, .stream = share, .bytes = bytes, .cached = cached_part(bytes, spec)};
}

/// Whether some of an operation's inputs have fewer elements than its output, such as a factor for
/// each channel: they are read again and again. Others are read in another order, which takes
/// longer.
bool is_broadcast(const gpemu_operation& operation) {
  const std::int64_t reads = operation.shape[0], writes = operation.shape[1];
  return writes > 0 && reads % writes != 0;
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
  OperationWork work = stream(share, elements * gpemu_data_type_bytes(operation.type), spec);
  work.elements = elements;
  if (share == kStrided || share == kBroadcast)
    work.reads_apart = entry(operation, kernels::kReadsApart);
  return work;
}

OperationWork reduction_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const double inputs = entry(operation, 0), outputs = entry(operation, 1);
  // Softmax writes as much as it reads, or half as much.
  constexpr double kFew = 0.25;
  const bool softmax = outputs > 1 && outputs >= kFew * inputs;
  // The reductions of measured steps are sums per channel, which read in strides. A sum of
  // everything reads in order: 73 % of the bandwidth in M. Harris, "Optimizing Parallel
  // Reduction in CUDA", NVIDIA, 2007.
  OperationWork work = stream(softmax       ? kSoftmax
                              : outputs > 1 ? kReduction
                                            : kElementwise,
                              (inputs + outputs) * gpemu_data_type_bytes(operation.type), spec);
  work.late = !softmax;
  return work;
}

}  // namespace

ParameterList parameters_of(const OperationWork& work) {
  ParameterList list;
  const auto add = [&](auto... some) {
    ((list.indices[list.count++] = static_cast<std::uint8_t>(some)), ...);
  };
  if (work.cached > 0) add(kCache);
  switch (work.kind) {
    case Kind::kNothing:
      return {};
    case Kind::kConvolution:
      if (work.factor >= 0) add(work.factor);
      if (work.last) add(kConvolutionLast);
      if (work.winograd_large_flops > 0) add(kWinogradForward + work.direction);
      if (work.turned_bytes > 0) add(kTurned);
      break;
    case Kind::kGroupedConvolution:
      if (work.direct) {
        add(kGroupedLastData + work.direction - 1, kConvolutionBandwidth, kConvolutionLatency);
        return list;
      }
      add(kGroupedForward + work.direction);
      if (work.last) add(kConvolutionLast);
      break;
    case Kind::kDepthwiseConvolution:
      add((work.direct ? kDepthwiseLastForward : kDepthwiseForward) + work.direction,
          kConvolutionBandwidth, kLatency);
      return list;
    case Kind::kMatmul:
      if (work.unaligned) add(kMatmulUnaligned);
      add(work.kernels > 1 ? kLatency : kMatmulLatency);
      add(kMatmul, kMatmulBandwidth, kApart);
      return list;
    case Kind::kAttention:
      add(kAttentionForward + work.direction, kMatmulBandwidth, kMatmulLatency, kApart);
      return list;
    case Kind::kNormalization:
      add(kLatency);
      if (work.rows > 0) {
        add(kElementwise, kNormalizationRow);
        return list;
      }
      add(kNormalizationForward + work.direction);
      if (work.channels > 0) add(kNormalizationBlock);
      return list;
    case Kind::kStream:
      add(work.stream);
      if (work.reads_apart > 0) {
        add(kApartReads);
      } else if (work.stream == kBroadcast || work.stream == kConcatenation ||
                 work.stream == kPoolingForward) {
        add(kElementwise);
      }
      add(work.late ? kReductionLatency : kLatency);
      return list;
    case Kind::kOther:
      add(kElementwise, kLatency);
      return list;
  }
  add(kConvolutionForward + work.direction);  // Common to dense and grouped ones.
  add(kDepth, kConvolutionBandwidth, kConvolutionLatency);
  return list;
}

OperationWork operation_work(const gpemu_operation& operation,
                             kernels::OperationClass operation_class,
                             const profile::GpuSpec& spec) {
  const double each = gpemu_data_type_bytes(operation.type);
  switch (operation.kind) {
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
      return convolution_work(operation, spec);
    case GPEMU_OPERATION_MATMUL:
      return matmul_work(operation, spec);
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
      return normalization_work(operation, spec);
    case GPEMU_OPERATION_POOLING:
    case GPEMU_OPERATION_POOLING_BACKWARD: {
      const double bytes = (entry(operation, 0) + entry(operation, 1)) * each +
                           entry(operation, 1) * entry(operation, 3);
      if (operation.kind == GPEMU_OPERATION_POOLING_BACKWARD) {
        return stream(kPoolingBackward, bytes, spec);
      }
      OperationWork work = stream(kPoolingForward, bytes, spec);
      work.elements = entry(operation, 1) * std::max(entry(operation, 2), 1.0);
      return work;
    }
    case GPEMU_OPERATION_ELEMENTWISE:
      return elementwise_work(operation, operation_class, spec);
    case GPEMU_OPERATION_REDUCTION:
      return reduction_work(operation, spec);
    case GPEMU_OPERATION_COPY_ON_DEVICE:
      return stream(kElementwise, 2 * entry(operation, 0), spec);
    case GPEMU_OPERATION_SET:
      return stream(kElementwise, entry(operation, 0), spec);
    case GPEMU_OPERATION_KERNEL: {
      if (entry(operation, kernels::kKernelFlops) > 0) return guessed_work(operation, spec);
      const bool reduction = operation_class == kernels::OperationClass::kReduction;
      OperationWork work = stream(reduction ? kReduction : kElementwise,
                                  entry(operation, kernels::kKernelBytes), spec);
      work.late = reduction;
      return work;
    }
    case GPEMU_OPERATION_ATTENTION_FORWARD:
    case GPEMU_OPERATION_ATTENTION_BACKWARD:
      return attention_work(operation, spec);
    case GPEMU_OPERATION_RNN_FORWARD:
    case GPEMU_OPERATION_RNN_BACKWARD:
      return recurrent_work(operation, spec);
    default:
      return other_work(operation, spec);
  }
}

}  // namespace gpemu::cost
