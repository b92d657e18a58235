// SPDX-License-Identifier: Apache-2.0
#include "pytorch/attention_memory.hpp"

#include <array>
#include <cstdint>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/places.hpp"

#include "pytorch/attention_sizes.hpp"

namespace gpemu::kernels {
namespace {

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

/// The grid has blocks of queries, heads and sequences. After the sizes, the struct has the
/// result's distance of rows.
bool describe_efficient(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  using At = EfficientArgument;
  constexpr Bytes kSumsOf = 32;  // Rows of sums are rounded up to it.
  const void* const argument = launch.arguments[0];
  const auto sizes = efficient_sizes(argument, launch.grid[1], launch.grid[2]);
  if (!sizes) return false;
  const auto sequences = static_cast<Bytes>(sizes->batch);
  const auto heads = static_cast<Bytes>(sizes->heads);
  const auto queries = static_cast<Bytes>(sizes->queries);
  const Bytes row = heads * static_cast<Bytes>(sizes->value_size);
  const auto pitch = read<std::int32_t>(argument, At::kPitch);
  if (pitch < 0 || static_cast<Bytes>(pitch) < row) return false;
  const auto result = read<std::uint64_t>(argument, At::kResult);
  const auto accumulator = read<std::uint64_t>(argument, At::kAccumulator);
  const Bytes rows =
      rows_of(read<std::uint64_t>(argument, At::kQueryStarts), sequences, queries, launch.memory);
  const auto add = [&](std::uint64_t address, Bytes bytes) {
    add_result_rows(work, address, rows, row * bytes, static_cast<Bytes>(pitch) * bytes,
                    launch.memory);
  };
  add(result, element_bytes);
  if (accumulator != result) add(accumulator, 4);
  const Bytes sums = (queries + kSumsOf - 1) / kSumsOf * kSumsOf;
  if (const auto address = read<std::uint64_t>(argument, At::kSums);
      launch.memory.on_device(address)) {
    add_range(work, address, sequences * heads * sums * 4, Uncomputed::kWritten);
  }
  return true;
}

/// After 10 addresses of inputs, the struct has those of the gradients of queries, keys, values and
/// bias. Where the first three gradients are parts of one tensor, their rows alternate.
bool describe_efficient_backward(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  using At = EfficientBackwardArgument;
  const void* const argument = launch.arguments[0];
  const auto sizes = efficient_backward_sizes(argument, launch.grid[1], launch.grid[2]);
  if (!sizes) return false;
  const auto sequences = static_cast<Bytes>(sizes->batch);
  const Bytes queries = rows_of(read<std::uint64_t>(argument, At::kQueryStarts), sequences,
                                static_cast<Bytes>(sizes->queries), launch.memory);
  const Bytes keys = rows_of(read<std::uint64_t>(argument, At::kKeyStarts), sequences,
                             static_cast<Bytes>(sizes->keys), launch.memory);
  const auto gradient = [argument](Bytes place) {
    return read<std::uint64_t>(argument, At::kGradients + place * 8);
  };
  const auto row_of = [&](std::int64_t of_head) {
    return static_cast<Bytes>(sizes->heads * of_head) * element_bytes;
  };
  const Bytes row = row_of(sizes->head_size);
  const bool alternate = sizes->head_size == sizes->value_size &&
                         gradient(1) - gradient(0) == row && gradient(2) - gradient(1) == row;
  const auto add = [&](Bytes place, Bytes rows, Bytes bytes) {
    add_result_rows(work, gradient(place), rows, bytes, alternate ? 3 * bytes : bytes,
                    launch.memory);
  };
  add(0, queries, row);
  add(1, keys, row);
  add(2, keys, row_of(sizes->value_size));
  add_result_rows(work, read<std::uint64_t>(argument, At::kBias), 0, 0, 0, launch.memory);
  return true;
}

namespace {

/// Adds a tensor [sequences, rows, heads, size] with strides in elements.
void add_heads(KernelWork* work, std::uint64_t address, const AttentionSizes& sizes,
               std::int64_t rows, std::array<Bytes, 3> strides, Bytes element_bytes,
               const Memory& memory) {
  if (!memory.on_device(address)) return;
  const bool apart = sizes.total_queries == 0;
  Places places = in_a_row(static_cast<Bytes>(sizes.head_size), element_bytes);
  places.add(static_cast<Bytes>(sizes.heads), strides[2] * element_bytes);
  places.add(static_cast<Bytes>(apart ? rows : sizes.total_queries), strides[1] * element_bytes);
  if (apart) places.add(static_cast<Bytes>(sizes.batch), strides[0] * element_bytes);
  add_tensor(work, address, places, element_bytes, Uncomputed::kWritten);
}

}  // namespace

bool describe_flash(const Launch& launch, Bytes element_bytes, KernelWork* work) {
  using At = FlashArgument;
  const void* const argument = launch.arguments[0];
  const auto sizes = flash_sizes(argument);
  if (!sizes) return false;
  add_heads(
      work, read<std::uint64_t>(argument, At::kResult), *sizes, sizes->queries,
      {read<std::uint64_t>(argument, At::kStrides), read<std::uint64_t>(argument, At::kStrides + 8),
       read<std::uint64_t>(argument, At::kStrides + 16)},
      element_bytes, launch.memory);
  const std::int64_t rows =
      sizes->total_queries > 0 ? sizes->total_queries : sizes->batch * sizes->queries;
  if (const auto sums = read<std::uint64_t>(argument, At::kSums); launch.memory.on_device(sums)) {
    add_range(work, sums, static_cast<Bytes>(rows * sizes->heads) * 4, Uncomputed::kWritten);
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
  const auto sizes = flash_sizes(argument);
  if (!sizes) return false;
  const auto head_size = static_cast<Bytes>(sizes->head_size);
  for (Bytes at = kFirst; at <= kLast; at += 8) {
    const auto word = [argument, at](Bytes offset) {
      return read<std::uint64_t>(argument, at + offset);
    };
    const auto is_row = [&](Bytes stride) { return stride >= head_size && stride < 1U << 30; };
    if (!launch.memory.on_device(word(0)) || !launch.memory.on_device(word(8)) ||
        !launch.memory.on_device(word(16)) || !launch.memory.on_device(word(24)) ||
        !launch.memory.on_device(word(kAccumulators)) || !is_row(word(kStrides + 24)) ||
        !is_row(word(kStrides + 32)) || !is_row(word(kStrides + 40))) {
      continue;
    }
    for (const Bytes tensor : {0, 1, 2}) {
      if (tensor > 0 && sizes->total_queries > 0) return true;  // That of all keys is not there.
      const std::int64_t rows = tensor == 0 ? sizes->queries : sizes->keys;
      add_heads(work, word(8 + tensor * 8), *sizes, rows,
                {word(kStrides + tensor * 8), word(kStrides + 24 + tensor * 8),
                 word(kStrides + 48 + tensor * 8)},
                element_bytes, launch.memory);
    }
    return true;
  }
  return false;
}

}  // namespace gpemu::kernels
