// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace gpemu::kernels {

/// The sizes of an attention, as the argument of one of PyTorch's kernels has them: a struct.
struct AttentionSizes {
  std::int64_t batch = 0;  ///< sequences.
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t queries = 0, keys = 0;  ///< of a sequence, the longest one if they differ.
  std::int64_t head_size = 0;          ///< of queries and keys.
  std::int64_t value_size = 0;
  bool causal = false;             ///< efficient attention only; else the kernel's name says so.
  std::int64_t total_queries = 0;  ///< flash attention of sequences of different lengths only.
};

/// Where the structs have what else is read there; offsets in bytes. The sizes are at the same
/// places in PyTorch 2.5 to 2.15.
struct FlashArgument {
  static constexpr int kHeads = 96, kKeyHeads = 100;
  static constexpr int kResult = 112, kStrides = 128, kSums = 160;
  static constexpr int kBatch = 176, kQueries = 180, kKeys = 184, kHeadSize = 192;
  static constexpr int kQueriesRounded = 196, kKeysRounded = 200, kTotalQueries = 212;
};

struct EfficientArgument {
  static constexpr int kQueryStarts = 32, kResult = 64, kAccumulator = 72, kSums = 80;
  static constexpr int kSizes = 96, kPitch = 136;
};

struct EfficientBackwardArgument {
  static constexpr int kQueryStarts = 64, kKeyStarts = 72, kGradients = 80, kBias = 104;
  static constexpr int kSizes = 144;
};

/// Read the sizes; nothing if the struct does not look as expected. `argument` is the struct;
/// `heads` and `batch` are those of the grid, which efficient attention's struct lacks.
///
/// Source: struct Flash_fwd_params in flash.h of PyTorch's flash_attn, with which the backward
/// pass's begins.
[[nodiscard]] std::optional<AttentionSizes> flash_sizes(const void* argument);
/// Source: struct Params in kernel_forward.h of PyTorch's mem_eff_attention.
[[nodiscard]] std::optional<AttentionSizes> efficient_sizes(const void* argument,
                                                            std::int64_t heads, std::int64_t batch);
/// Source: struct Params in kernel_backward.h there.
[[nodiscard]] std::optional<AttentionSizes> efficient_backward_sizes(const void* argument,
                                                                     std::int64_t heads,
                                                                     std::int64_t batch);

}  // namespace gpemu::kernels
