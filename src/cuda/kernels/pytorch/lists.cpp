// SPDX-License-Identifier: Apache-2.0
#include "kernels/pytorch/lists.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/arguments.hpp"
#include "kernels/pytorch/formula.hpp"
#include "kernels/pytorch/plain_move.hpp"
#include "kernels/pytorch/unscale.hpp"

namespace gpemu::cuda {
namespace {

/// How many tensors and blocks one launch takes at most, by the number of lists; fewer if each
/// tensor also has a scalar. Source: MultiTensorApply.cuh.
constexpr std::array<Bytes, 5> kMostTensors = {110, 64, 48, 36, 30};
constexpr std::array<Bytes, 5> kMostWithScalars = {96, 64, 48, 36, 30};
constexpr std::array<Bytes, 2> kMostWithComplexScalars = {72, 60};
constexpr Bytes kMostBlocks = 320;
/// The most elements that a block works on. Source: kChunkSize in MultiTensorApply.cuh.
constexpr Bytes kChunkElements = 65536;

/// The factor for kernels of CUDA 13, whose parameters are larger than kSmallParameters.
constexpr Bytes kWideLists = 7;
constexpr Bytes kSmallParameters = 4096;

/// Returns whether lists are wide: some versions' names show it, else the size does. Removes that
/// argument from the template arguments.
bool are_wide(const FindCode& find_code, std::vector<std::string_view>* lists) {
  if (!lists->empty() && (lists->back() == "true" || lists->back() == "false")) {
    const bool wide = lists->back() == "true";
    lists->pop_back();
    return wide;
  }
  if (!find_code) return false;
  const auto places = find_code().places;
  return !places.empty() && places[0].bytes > kSmallParameters;
}

/// Whether a kernel over two lists copies the first to the second without converting. Source:
/// foreach_tensor_copy_list_kernel_cuda_ in ForeachBinaryOpList.cu.
bool copies_lists(const KernelName& name, int lists) {
  return lists == 2 && name.parameters.size() == 3 &&
         contains(name.parameters[1], "::UnaryOpFunctor<") &&
         name.parameters[2].starts_with("at::native::Copy<");
}

/// Describes a copy: the lists' addresses, the tensors' sizes; of each block the tensor and the
/// number of the chunk.
void describe_list_copy(const ListsEffect& effect, const std::byte* lists,
                        const std::byte* of_blocks, Bytes blocks, KernelWork* work) {
  const Bytes most = effect.most_tensors;
  const std::byte* const counts = lists + 2 * most * 8;
  const std::byte* const chunks =
      of_blocks + kMostBlocks * (effect.wide ? kWideLists * sizeof(std::uint16_t) : 1);
  std::vector<PlainMove> moves;
  for (Bytes block = 0; block < blocks; ++block) {
    const Bytes tensor = effect.wide ? read<std::uint16_t>(of_blocks, block * 2)
                                     : read<std::uint8_t>(of_blocks, block);
    const Bytes first = Bytes{read<std::uint32_t>(chunks, block * 4)} * kChunkElements;
    const Bytes count = tensor < most ? read<std::uint64_t>(counts, tensor * 8) : 0;
    if (first >= count) continue;
    const Bytes elements = std::min(count - first, kChunkElements);
    const Bytes width = effect.element_bytes, offset = first * width;
    const std::uint64_t from = read<std::uint64_t>(lists, tensor * 8) + offset;
    const std::uint64_t to = read<std::uint64_t>(lists, (most + tensor) * 8) + offset;
    // A tensor's blocks follow each other.
    if (!moves.empty()) {
      PlainMove& last = moves.back();
      const Bytes before = last.to_places.sizes[0];
      if (last.to + before * width == to && last.from + before * width == from) {
        last.to_places.sizes[0] = last.from_places.sizes[0] = before + elements;
        continue;
      }
    }
    moves.push_back({.element_bytes = width,
                     .to = to,
                     .from = from,
                     .to_places = in_a_row(elements, width),
                     .from_places = in_a_row(elements, width)});
  }
  static_cast<void>(add_plain_moves(std::move(moves), work));  // No stride is negative.
}

}  // namespace

/// The functor is a template of the type, the lists, those that are read, and the one written.
std::optional<ListsEffect> lists_effect(const KernelName& name, const FindCode& find_code) {
  auto lists = template_arguments(name.parameters[0], "ListMetadata");
  ListsEffect effect;
  effect.wide = are_wide(find_code, &lists);
  const Bytes times = effect.wide ? kWideLists : 1;
  effect.tensors = lists.empty() ? 0 : number_in(lists.back());
  if (effect.tensors < 1 || effect.tensors > static_cast<int>(kMostTensors.size()))
    return std::nullopt;
  const auto depth = static_cast<std::size_t>(effect.tensors) - 1;
  effect.most_tensors = kMostTensors[depth] * times;
  if (contains(name.parameters[0], "FusedOptimizer")) {
    effect.before_blocks = effect.most_tensors * 8;  // The addresses of each tensor's step.
  } else if (lists.size() == 2) {
    const Bytes scalar = type_bytes(lists[0]);
    const bool is_large = scalar == 16 && depth < kMostWithComplexScalars.size();
    effect.most_tensors =
        times * (is_large ? kMostWithComplexScalars[depth] : kMostWithScalars[depth]);
    effect.before_blocks = effect.most_tensors * scalar;
  }
  effect.outputs = effect.tensors;
  if (name.parameters.size() < 2) return effect;
  const auto arguments = template_arguments(
      name.parameters[1],
      std::string_view(name.parameters[1]).substr(0, name.parameters[1].find('<')));
  // The results have the first type.
  if (!arguments.empty() && type_bytes(arguments[0]) != 0) {
    effect.element_bytes = type_bytes(arguments[0]);
    effect.type = number_type(arguments[0]);
  }
  // Norms go to a buffer of the kernel's own.
  if (contains(name.parameters[1], "::Lp")) effect.outputs = 0;
  effect.copies = copies_lists(name, effect.tensors);
  effect.unscales = name.parameters.size() == 3 && contains(name.parameters[2], kUnscale);
  if (!contains(name.parameters[1], "Fused") && effect.outputs > 0 && arguments.size() >= 4) {
    const int output = number_in(arguments.back());
    if (output >= 0 && output < effect.tensors) {
      effect.output = output;
      effect.outputs = 1;
      effect.in_place = output == 0;
    }
  }
  return effect;
}

void describe_lists(const ListsEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work) {
  const auto* const lists = static_cast<const std::byte*>(launch.arguments[0]);
  const auto depth = static_cast<Bytes>(effect.tensors);
  const Bytes most = effect.most_tensors;
  const std::byte* const counts = lists + depth * most * 8;
  const std::byte* const of_blocks = counts + most * 8 + effect.before_blocks;
  Bytes tensors = 0;
  const Bytes blocks =
      std::min<Bytes>(launch.grid[0], kMostBlocks * (effect.wide ? kWideLists : 1));
  if (effect.copies) return describe_list_copy(effect, lists, of_blocks, blocks, work);
  for (Bytes block = 0; block < blocks; ++block) {
    const Bytes tensor = effect.wide ? read<std::uint16_t>(of_blocks, block * 2)
                                     : read<std::uint8_t>(of_blocks, block);
    tensors = std::max(tensors, tensor + 1);
  }
  for (Bytes list = 0; list < static_cast<Bytes>(effect.outputs); ++list) {
    for (Bytes tensor = 0; tensor < std::min(tensors, most); ++tensor) {
      const Bytes place = (static_cast<Bytes>(effect.output) + list) * most + tensor;
      add_range(work, read<std::uint64_t>(lists, place * 8),
                read<std::uint64_t>(counts, tensor * 8) * effect.element_bytes,
                effect.in_place ? Uncomputed::kUpdated : Uncomputed::kWritten);
    }
  }
  if (effect.unscales) describe_unscale(launch.arguments[2], effect.type, work);
}

}  // namespace gpemu::cuda
