// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "count_work.hpp"
#include "hardware.hpp"
#include "tiles.hpp"

namespace gpemu::cost {
namespace {

/// Products of FP32 whose sums lie along both operands' rows reach less of the rate of others on
/// Pascal if the rows that blocks read at the same time span more memory than addresses are
/// translated for at once: the share falls with the root of the span. Two tiles of 64 x 64 count
/// for each multiprocessor, first those along m. Source: NeuSight's kernel times on P100
/// (evidence/packs/gpemu-vldb25/README.md).
constexpr double kAlongSumSpan = 64.0 * (1 << 20);
constexpr double kTileSide = 64;
constexpr double kTilesAtOnce = 2;

/// Returns the work of products of matrices, each with `passes` times the same arithmetic.
CommonWork product_work(const Product& product, const gpemu_operation& operation, double passes,
                        double bytes, const profile::GpuSpec& spec) {
  const gpemu_data_type type = arithmetic_type(operation);
  const Peak peak = sustained_peak_of(type, spec);
  const double terms = product.batch * product.rows * product.columns * product.depth;
  const double each = 2 * passes * arithmetic_factor(type);
  // Products with a vector have their own kernels, which do not use tiles.
  const bool vector = product.rows == 1 || product.columns == 1;
  CommonWork work{.tensor_cores = peak.tensor_cores,
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

}  // namespace

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
  OperationWork work{product_work(product, operation, 1, elements, spec), {}};
  work.kind =
      MatmulWork{.unaligned = work.tensor_cores && operation.access == GPEMU_ACCESS_STRIDED};
  constexpr int kAlongSum = 6;
  const bool along_sum = entry(operation, kAlongSum) > 0;
  if (along_sum && operation.type == GPEMU_TYPE_FP32) work.flops /= along_sum_share(product, spec);
  return work;
}

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
  OperationWork work{product_work(product, operation, (backward ? 5 : 2) * causal, elements, spec),
                     AttentionWork{}};
  work.direction = backward ? 1 : 0;
  if (work.half && operation.shape[7] == GPEMU_ATTENTION_EFFICIENT) {
    work.flops /= spec.generation.efficient_attention_share;
  } else if (work.half && operation.shape[7] == GPEMU_ATTENTION_FLASH) {
    work.flops /= spec.generation.flash_attention_share;
  }
  return work;
}

OperationWork recurrent_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  constexpr double kMostKernels = 1e6;
  const double layers = entry(operation, 0), directions = entry(operation, 1),
               length = entry(operation, 2), batch = entry(operation, 3),
               input = entry(operation, 4), hidden = entry(operation, 5),
               gates = entry(operation, 6) * hidden;
  const double passes = operation.kind == GPEMU_OPERATION_RNN_BACKWARD ? 2 : 1;
  const double runs = passes * layers * directions;
  const double elements = runs * (length * batch * (input + 2 * gates) + gates * (input + hidden));
  OperationWork work{
      product_work({.rows = length * batch, .columns = gates, .depth = input, .batch = 1},
                   operation, runs, elements, spec),
      MatmulWork{.kernels = std::clamp(2 * passes * length * layers, 1.0, kMostKernels)}};
  const CommonWork step =
      product_work({.rows = batch, .columns = gates, .depth = hidden, .batch = 1}, operation,
                   runs * length, 0, spec);
  work.flops += step.flops;
  work.least_flops += step.least_flops;
  return work;
}

}  // namespace gpemu::cost
