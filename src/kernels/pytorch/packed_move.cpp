// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/packed_move.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::kernels {
namespace {

/// Above what programs have; the number of tensors follows from the distance of two lists.
constexpr Bytes kMostPacked = 65536;

/// A launch, whose lists have a number for each tensor and lie in one block of memory.
struct PackedCall {
  Bytes tensors = 0;
  Access lists;
  bool is_split = false;
  bool converts = false;
  std::uint64_t to = 0;  ///< kChunkCat: the target.
  /// Offsets of lists from the first one, which has the addresses: kSplit has those of the targets,
  /// then of the sources; kChunkCat those of the sources.
  Bytes sources_at = 0, starts_at = 0, bytes_at = 0, chunk_bytes_at = 0;
  Bytes chunks = 0, slices = 1;
  Bytes chunk_step = 0, slice_step = 0;  ///< kSplit: of the source; kChunkCat: of the target.
};

/// The addresses of the targets and of the sources, the bytes of a chunk; the lists of the blocks;
/// the bytes between two chunks of a source, and the number of chunks. Source:
/// split_with_sizes_copy_out_contiguous_no_cast_kernel in TensorShape.cu.
PackedCall read_split(void* const* arguments) {
  const auto targets = read<std::uint64_t>(arguments[0]);
  PackedCall call{.is_split = true,
                  .sources_at = read<std::uint64_t>(arguments[1]) - targets,
                  .chunk_bytes_at = read<std::uint64_t>(arguments[2]) - targets,
                  .chunks = read<std::uint64_t>(arguments[6]),
                  .chunk_step = read<std::uint64_t>(arguments[5])};
  call.tensors = call.sources_at / 8;
  call.lists = {.start = targets, .bytes = call.chunk_bytes_at + call.tensors * 8};
  return call;
}

/// The addresses of the sources, the target, the list of the blocks, the tensors' starts in a chunk
/// of the target, a list of blocks, the tensors' bytes, the bytes of their chunks; a list of
/// blocks, the bytes of a slice and of a chunk of the target, the ratio of the sizes of the
/// target's and the sources' elements. The grid has the chunks and the slices. Source:
/// chunk_cat_cuda_kernel in TensorShape.cu, and in ChunkCat.cu of PyTorch 2.15.
PackedCall read_chunk_cat(const Launch& launch) {
  void* const* const arguments = launch.arguments;
  const auto sources = read<std::uint64_t>(arguments[0]);
  PackedCall call{.converts = read<std::int64_t>(arguments[10]) != 1,
                  .to = read<std::uint64_t>(arguments[1]),
                  .starts_at = read<std::uint64_t>(arguments[3]) - sources,
                  .bytes_at = read<std::uint64_t>(arguments[5]) - sources,
                  .chunk_bytes_at = read<std::uint64_t>(arguments[6]) - sources,
                  .chunks = launch.grid[1],
                  .slices = launch.grid[2],
                  .chunk_step = read<std::uint64_t>(arguments[9]),
                  .slice_step = read<std::uint64_t>(arguments[8])};
  call.tensors = (read<std::uint64_t>(arguments[2]) - sources) / 8;
  call.lists = {.start = sources, .bytes = call.chunk_bytes_at + call.tensors * 8};
  return call;
}

/// The lists of a launch, read from memory.
class PackedLists {
 public:
  PackedLists(const PackedCall& call, const Memory& memory) {
    if (call.tensors == 0 || call.tensors > kMostPacked ||
        call.lists.bytes > 64 * kMostPacked * sizeof(std::uint64_t)) {
      return;
    }
    bytes_.resize(call.lists.bytes);
    if (!memory.load(call.lists.start, bytes_.data(), bytes_.size())) bytes_.clear();
  }
  [[nodiscard]] bool are_known() const { return !bytes_.empty(); }
  /// Returns a tensor's number in the list at an offset; 0 if the list does not lie there.
  [[nodiscard]] std::uint64_t at(Bytes list, Bytes tensor) const {
    const Bytes end = bytes_.size();
    return list <= end && (tensor + 1) * 8 <= end - list
               ? read<std::uint64_t>(bytes_.data(), list + tensor * 8)
               : 0;
  }

 private:
  std::vector<std::byte> bytes_;
};

/// Returns the places of bytes in pieces that lie a step apart.
Places in_pieces(Bytes bytes, Bytes pieces, Bytes step) {
  Places places = in_a_row(bytes, 1);
  places.add(pieces, step);
  return places;
}

void add_split(const PackedCall& call, const PackedLists& lists, std::vector<PlainMove>* moves) {
  for (Bytes i = 0; i < call.tensors; ++i) {
    const Bytes bytes = lists.at(call.chunk_bytes_at, i);
    moves->push_back({.to = lists.at(0, i),
                      .from = lists.at(call.sources_at, i),
                      .to_places = in_pieces(bytes, call.chunks, bytes),
                      .from_places = in_pieces(bytes, call.chunks, call.chunk_step)});
  }
}

/// Each tensor is cut into chunks; the last ones are filled up with zeros.
void add_chunks(const PackedCall& call, const PackedLists& lists, std::vector<PlainMove>* moves) {
  for (Bytes i = 0; i < call.tensors * call.slices; ++i) {
    const Bytes tensor = i % call.tensors, slice = i / call.tensors;
    const Bytes bytes = lists.at(call.bytes_at, tensor);
    const Bytes each = lists.at(call.chunk_bytes_at, tensor);
    if (each == 0) continue;
    const std::uint64_t from = lists.at(0, tensor) + slice * bytes;
    const std::uint64_t to = call.to + slice * call.slice_step + lists.at(call.starts_at, tensor);
    const Bytes full = std::min(bytes / each, call.chunks);
    moves->push_back({.to = to,
                      .from = from,
                      .to_places = in_pieces(each, full, call.chunk_step),
                      .from_places = in_pieces(each, full, each)});
    if (full == call.chunks) continue;
    const Bytes rest = bytes % each;
    const std::uint64_t last = to + full * call.chunk_step;
    moves->push_back({.to = last,
                      .from = from + full * each,
                      .to_places = in_a_row(rest, 1),
                      .from_places = in_a_row(rest, 1)});
    moves->push_back({.to = last + rest, .to_places = in_a_row(each - rest, 1)});
    moves->push_back({.to = last + call.chunk_step,
                      .to_places = in_pieces(each, call.chunks - full - 1, call.chunk_step)});
  }
}

/// Adds what a launch does, if its lists are known.
void add_packed(const PackedCall& call, const Memory& memory, KernelWork* work) {
  const PackedLists lists(call, memory);
  if (lists.are_known() && !call.converts && call.slices * call.tensors <= kMostPacked) {
    std::vector<PlainMove> moves;
    call.is_split ? add_split(call, lists, &moves) : add_chunks(call, lists, &moves);
    if (add_plain_moves(std::move(moves), work)) return;
  }
  if (!call.is_split) {
    add_range(work, call.to, call.slice_step * call.slices, Uncomputed::kWritten);
  }
}

}  // namespace

std::optional<PackedEffect> packed_effect(const KernelName& name) {
  constexpr std::size_t kSplitParameters = 7, kChunkCatParameters = 11;
  const auto is = [&name](std::string_view part, std::size_t parameters) {
    return contains(name.function, part) && name.parameters.size() == parameters;
  };
  if (is("::split_with_sizes_copy_out_contiguous_no_cast_kernel", kSplitParameters)) {
    return PackedEffect::kSplit;
  }
  if (is("::chunk_cat_cuda_kernel", kChunkCatParameters)) {
    return PackedEffect::kChunkCat;
  }
  return std::nullopt;
}

void describe_packed(PackedEffect effect, const Launch& launch, KernelWork* work) {
  const PackedCall call =
      effect == PackedEffect::kSplit ? read_split(launch.arguments) : read_chunk_cat(launch);
  work->later = {.lists = call.lists, .describe = [call](const Memory& memory, KernelWork* later) {
                   add_packed(call, memory, later);
                 }};
}

}  // namespace gpemu::kernels
