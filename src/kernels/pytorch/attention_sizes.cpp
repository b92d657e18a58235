// SPDX-License-Identifier: Apache-2.0
#include "pytorch/attention_sizes.hpp"

#include <algorithm>

#include "gpemu/kernels/arguments.hpp"

namespace gpemu::kernels {
namespace {

constexpr std::int64_t kMostHeadSize = 65536;

std::int64_t number_at(const void* argument, int offset) {
  return read<std::int32_t>(argument, static_cast<Bytes>(offset));
}

/// Reads the sizes of efficient attention that both passes have in this order.
std::optional<AttentionSizes> common_sizes(const void* argument, int at, std::int64_t heads,
                                           std::int64_t batch) {
  const AttentionSizes sizes{.batch = batch,
                             .heads = heads,
                             .kv_heads = heads,
                             .queries = number_at(argument, at + 8),
                             .keys = number_at(argument, at + 12),
                             .head_size = number_at(argument, at),
                             .value_size = number_at(argument, at + 4)};
  const bool fit = sizes.head_size > 0 && sizes.head_size <= kMostHeadSize &&
                   sizes.value_size > 0 && sizes.value_size <= kMostHeadSize && sizes.queries > 0 &&
                   sizes.keys > 0;
  return fit ? std::optional(sizes) : std::nullopt;
}

}  // namespace

std::optional<AttentionSizes> flash_sizes(const void* argument) {
  using At = FlashArgument;
  constexpr std::int64_t kRounded = 128;
  const auto rounded = [](std::int64_t size) {
    return (size + kRounded - 1) / kRounded * kRounded;
  };
  AttentionSizes sizes{.batch = number_at(argument, At::kBatch),
                       .heads = number_at(argument, At::kHeads),
                       .kv_heads = number_at(argument, At::kKeyHeads),
                       .queries = number_at(argument, At::kQueries),
                       .keys = number_at(argument, At::kKeys),
                       .head_size = number_at(argument, At::kHeadSize),
                       .value_size = number_at(argument, At::kHeadSize)};
  if (sizes.batch <= 0 || sizes.heads <= 0 || sizes.kv_heads <= 0 || sizes.queries <= 0 ||
      sizes.keys <= 0 || sizes.head_size <= 0 ||
      number_at(argument, At::kQueriesRounded) != rounded(sizes.queries) ||
      number_at(argument, At::kKeysRounded) != rounded(sizes.keys)) {
    return std::nullopt;
  }
  // Sequences of different lengths follow each other without a distance.
  if (read<std::uint64_t>(argument, At::kStrides) == 0 && sizes.batch > 1) {
    sizes.total_queries = std::max<std::int64_t>(number_at(argument, At::kTotalQueries), 0);
  }
  return sizes;
}

std::optional<AttentionSizes> efficient_sizes(const void* argument, std::int64_t heads,
                                              std::int64_t batch) {
  constexpr int kAt = EfficientArgument::kSizes;
  auto sizes = common_sizes(argument, kAt, heads, batch);
  // The number of keys follows once more, unless the kernel finds it.
  const std::int64_t all_keys = number_at(argument, kAt + 16);
  if (!sizes || (all_keys != 0 && all_keys != sizes->keys)) return std::nullopt;
  sizes->causal = read<std::uint8_t>(argument, kAt + 20) != 0;
  return sizes;
}

std::optional<AttentionSizes> efficient_backward_sizes(const void* argument, std::int64_t heads,
                                                       std::int64_t batch) {
  constexpr int kAt = EfficientBackwardArgument::kSizes;
  auto sizes = common_sizes(argument, kAt, heads, batch);
  if (!sizes || number_at(argument, kAt + 16) != heads) return std::nullopt;
  // Then a byte says whether and how attention is causal. Since PyTorch 2.15, another number comes
  // before that byte, and bytes of 0 and 1 after it, where strides of heads were before.
  const std::int64_t later = number_at(argument, kAt + 24);
  const bool moved = (later & ~0x10003) == 0;
  sizes->causal = moved ? (later & 3) != 0 : read<std::uint8_t>(argument, kAt + 20) != 0;
  return sizes;
}

}  // namespace gpemu::kernels
