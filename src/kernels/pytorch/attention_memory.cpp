// SPDX-License-Identifier: Apache-2.0
#include "pytorch/attention_memory.hpp"

#include <array>
#include <cstdint>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/places.hpp"

namespace gpemu::kernels {
namespace {

Bytes size_at(const void* argument, Bytes offset) {
  const auto size = read<std::int32_t>(argument, offset);
  return size > 0 ? static_cast<Bytes>(size) : 0;
}

/// Returns the rows of all sequences: as many for each, or what the last entry of a list of their
/// starts on the device says; 0 if that is not known.
Bytes rows_of(std::uint64_t starts, Bytes sequences, Bytes rows, const Memory& memory) {
  if (starts == 0) return sequences * rows;
  std::int32_t end = 0;
  if (!memory.load(starts + sequences * sizeof(end), &end, sizeof(end)) || end < 0) return 0;
  return static_cast<Bytes>(end);
}

/// Adds rows, each a number of elements, at a distance; if their number is not known, as far as
/// content is of one kind.
void add_result_rows(KernelWork* work, std::uint64_t address, Bytes rows, Bytes row_bytes,
                     Bytes pitch, const Memory& memory) {
  constexpr Bytes kMost = Bytes{1} << 40;
  if (!memory.on_device(address)) return;
  if (rows == 0) {
    return add_range(work, address, memory.device_bytes_at(address, kMost), Uncomputed::kSomewhere);
  }
  Places places = in_a_row(1, 0);
  places.add(rows, pitch);
  add_tensor(work, address, places, row_bytes, Uncomputed::kWritten);
}

}  // namespace

/// Source: AttentionKernel::Params in kernel_forward.h of PyTorch's mem_eff_attention: 7 addresses
/// and a number; the result, its accumulator and the sums; the sizes from byte 96 on, and the
/// result's distance of rows. The grid has blocks of queries, heads and sequences.
bool describe_efficient(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  constexpr Bytes kQueryStarts = 32, kResult = 64, kAccumulator = 72, kSums = 80;
  constexpr Bytes kValueSize = 100, kQueries = 104, kPitch = 136;
  constexpr Bytes kSumsOf = 32;  // Rows of sums are rounded up to it.
  const void* const argument = launch.arguments[0];
  const Bytes heads = launch.grid[1], sequences = launch.grid[2];
  const Bytes queries = size_at(argument, kQueries), size = size_at(argument, kValueSize);
  const Bytes pitch = size_at(argument, kPitch);
  if (queries == 0 || size == 0 || pitch < heads * size) return false;
  const auto result = read<std::uint64_t>(argument, kResult);
  const auto accumulator = read<std::uint64_t>(argument, kAccumulator);
  const Bytes rows =
      rows_of(read<std::uint64_t>(argument, kQueryStarts), sequences, queries, launch.memory);
  const Bytes row = heads * size;
  add_result_rows(work, result, rows, row * element_bytes, pitch * element_bytes, launch.memory);
  if (accumulator != result)
    add_result_rows(work, accumulator, rows, row * 4, pitch * 4, launch.memory);
  const Bytes sums = (queries + kSumsOf - 1) / kSumsOf * kSumsOf;
  if (const auto address = read<std::uint64_t>(argument, kSums); launch.memory.on_device(address)) {
    add_range(work, address, sequences * heads * sums * 4, Uncomputed::kWritten);
  }
  return true;
}

/// Source: AttentionBackwardKernel::Params in kernel_backward.h: 10 addresses of inputs, those of
/// the gradients of queries, keys, values and bias; the sizes from byte 144 on. Where the first
/// three gradients are parts of one tensor, their rows alternate.
bool describe_efficient_backward(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  constexpr Bytes kQueryStarts = 64, kKeyStarts = 72, kGradients = 80, kBias = 104;
  constexpr Bytes kSize = 144, kValueSize = 148, kQueries = 152, kKeys = 156, kHeads = 160;
  const void* const argument = launch.arguments[0];
  const Bytes sequences = launch.grid[2], heads = size_at(argument, kHeads);
  const Bytes size = size_at(argument, kSize), value_size = size_at(argument, kValueSize);
  if (heads == 0 || heads != launch.grid[1] || size == 0 || value_size == 0) return false;
  const Bytes queries = rows_of(read<std::uint64_t>(argument, kQueryStarts), sequences,
                                size_at(argument, kQueries), launch.memory);
  const Bytes keys = rows_of(read<std::uint64_t>(argument, kKeyStarts), sequences,
                             size_at(argument, kKeys), launch.memory);
  const auto gradient = [argument](Bytes place) {
    return read<std::uint64_t>(argument, kGradients + place * 8);
  };
  const Bytes row = heads * size * element_bytes;
  const bool alternate =
      size == value_size && gradient(1) - gradient(0) == row && gradient(2) - gradient(1) == row;
  const auto add = [&](Bytes place, Bytes rows, Bytes of_head) {
    const Bytes bytes = heads * of_head * element_bytes;
    add_result_rows(work, gradient(place), rows, bytes, alternate ? 3 * bytes : bytes,
                    launch.memory);
  };
  add(0, queries, size);
  add(1, keys, size);
  add(2, keys, value_size);
  add_result_rows(work, read<std::uint64_t>(argument, kBias), 0, 0, 0, launch.memory);
  return true;
}

namespace {

/// The sizes in the argument of flash attention. Source: Qkv_params and Flash_fwd_params in flash.h
/// of PyTorch's flash_attn.
struct FlashSizes {
  explicit FlashSizes(const void* argument)
      : heads(size_at(argument, 96)),
        key_heads(size_at(argument, 100)),
        sequences(size_at(argument, 176)),
        queries(size_at(argument, 180)),
        keys(size_at(argument, 184)),
        size(size_at(argument, 192)) {
    const Bytes sequence_stride = read<std::uint64_t>(argument, 128);
    if (sequence_stride == 0 && sequences > 1) total = size_at(argument, 212);
  }
  [[nodiscard]] bool fit() const { return heads > 0 && queries > 0 && size > 0 && sequences > 0; }

  Bytes heads, key_heads, sequences, queries, keys, size;
  Bytes total = 0;  ///< queries of all sequences, if these have different lengths.
};

/// Adds a tensor [sequences, rows, heads, size] with strides in elements.
void add_heads(KernelWork* work, std::uint64_t address, const FlashSizes& sizes, Bytes rows,
               std::array<Bytes, 3> strides, Bytes element_bytes, const Memory& memory) {
  if (!memory.on_device(address)) return;
  Places places = in_a_row(sizes.size, element_bytes);
  places.add(sizes.heads, strides[2] * element_bytes);
  places.add(sizes.total > 0 ? sizes.total : rows, strides[1] * element_bytes);
  if (sizes.total == 0) places.add(sizes.sequences, strides[0] * element_bytes);
  add_tensor(work, address, places, element_bytes, Uncomputed::kWritten);
}

}  // namespace

bool describe_flash(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  constexpr Bytes kResult = 112, kStrides = 128, kSums = 160;
  const void* const argument = launch.arguments[0];
  const FlashSizes sizes(argument);
  if (!sizes.fit()) return false;
  add_heads(work, read<std::uint64_t>(argument, kResult), sizes, sizes.queries,
            {read<std::uint64_t>(argument, kStrides), read<std::uint64_t>(argument, kStrides + 8),
             read<std::uint64_t>(argument, kStrides + 16)},
            element_bytes, launch.memory);
  const Bytes rows = sizes.total > 0 ? sizes.total : sizes.sequences * sizes.queries;
  if (const auto sums = read<std::uint64_t>(argument, kSums); launch.memory.on_device(sums)) {
    add_range(work, sums, rows * sizes.heads * 4, Uncomputed::kWritten);
  }
  return true;
}

/// Flash_bwd_params begins as Flash_fwd_params, whose length differs between versions. Then come
/// the addresses of the result's gradient and of those of queries, keys and values, three
/// accumulators, three strides of the former, and the strides of sequences, rows and heads of the
/// latter, three each.
bool describe_flash_backward(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  constexpr Bytes kFirst = 216, kLast = 560, kAccumulators = 32, kStrides = 80;
  const void* const argument = launch.arguments[0];
  const FlashSizes sizes(argument);
  if (!sizes.fit()) return false;
  for (Bytes at = kFirst; at <= kLast; at += 8) {
    const auto word = [argument, at](Bytes offset) {
      return read<std::uint64_t>(argument, at + offset);
    };
    const auto is_row = [&](Bytes stride) { return stride >= sizes.size && stride < 1U << 30; };
    if (!launch.memory.on_device(word(0)) || !launch.memory.on_device(word(8)) ||
        !launch.memory.on_device(word(16)) || !launch.memory.on_device(word(24)) ||
        !launch.memory.on_device(word(kAccumulators)) || !is_row(word(kStrides + 24)) ||
        !is_row(word(kStrides + 32)) || !is_row(word(kStrides + 40))) {
      continue;
    }
    for (const Bytes tensor : {0, 1, 2}) {
      FlashSizes own = sizes;
      if (tensor > 0 && own.total > 0) return true;  // The number of all keys is not there.
      const Bytes rows = tensor == 0 ? own.queries : own.keys;
      add_heads(work, word(8 + tensor * 8), own, rows,
                {word(kStrides + tensor * 8), word(kStrides + 24 + tensor * 8),
                 word(kStrides + 48 + tensor * 8)},
                element_bytes, launch.memory);
    }
    return true;
  }
  return false;
}

}  // namespace gpemu::kernels
