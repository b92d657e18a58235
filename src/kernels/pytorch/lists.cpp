// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/lists.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/pytorch/formula.hpp"
#include "gpemu/kernels/tensor_lists.hpp"

#include "pytorch/unscale.hpp"

namespace gpemu::kernels {
namespace {

/// Whether a kernel over two lists copies the first to the second without converting. Source:
/// foreach_tensor_copy_list_kernel_cuda_ in ForeachBinaryOpList.cu.
bool copies_lists(const KernelName& name, int lists) {
  return lists == 2 && name.parameters.size() == 3 &&
         contains(name.parameters[1], "::UnaryOpFunctor<") &&
         name.parameters[2].starts_with("at::native::Copy<");
}

/// Describes a copy.
void describe_list_copy(const ListsEffect& effect, const ListedTensors& listed, Bytes blocks,
                        KernelWork* work) {
  constexpr Bytes kChunk = TensorLists::kChunkElements;
  std::vector<PlainMove> moves;
  for (Bytes block = 0; block < blocks; ++block) {
    const Bytes tensor = listed.tensor_of(block);
    const Bytes first = listed.chunk_of(block) * kChunk;
    const Bytes count = tensor < effect.layout.most_tensors ? listed.elements(tensor) : 0;
    if (first >= count) continue;
    const Bytes elements = std::min(count - first, kChunk);
    const Bytes width = effect.element_bytes, offset = first * width;
    const std::uint64_t from = listed.address(0, tensor) + offset;
    const std::uint64_t to = listed.address(1, tensor) + offset;
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
  const auto layout = tensor_lists(name.parameters[0], [&find_code]() -> Bytes {
    const CodeFacts facts = find_code ? find_code() : CodeFacts();
    return facts.places.empty() ? 0 : facts.places[0].bytes;
  });
  if (!layout) return std::nullopt;
  ListsEffect effect{.outputs = layout->lists, .layout = *layout};
  if (name.parameters.size() < 2) return effect;
  // The results have the first type.
  if (const std::string_view type = listed_type(name); type_bytes(type) != 0) {
    effect.element_bytes = type_bytes(type);
    effect.type = number_type(type);
  }
  // Norms go to a buffer of the kernel's own.
  const std::string_view functor = name.parameters[1];
  if (contains(functor, "::Lp")) effect.outputs = 0;
  effect.copies = copies_lists(name, layout->lists);
  effect.unscales = name.parameters.size() == 3 && contains(name.parameters[2], kUnscale);
  const auto arguments = template_arguments(functor, functor.substr(0, functor.find('<')));
  if (!contains(functor, "Fused") && effect.outputs > 0 && arguments.size() >= 4) {
    const int output = number_in(arguments.back());
    if (output >= 0 && output < layout->lists) {
      effect.output = output;
      effect.outputs = 1;
      effect.in_place = output == 0;
    }
  }
  return effect;
}

void describe_lists(const ListsEffect& effect, const Launch& launch, KernelWork* work) {
  const TensorLists& layout = effect.layout;
  const ListedTensors listed(layout, launch.arguments[0]);
  const Bytes blocks = std::min<Bytes>(launch.grid[0], layout.most_blocks);
  if (effect.copies) return describe_list_copy(effect, listed, blocks, work);
  Bytes tensors = 0;
  for (Bytes block = 0; block < blocks; ++block) {
    tensors = std::max(tensors, listed.tensor_of(block) + 1);
  }
  for (int list = effect.output; list < effect.output + effect.outputs; ++list) {
    for (Bytes tensor = 0; tensor < std::min(tensors, layout.most_tensors); ++tensor) {
      add_range(work, listed.address(list, tensor), listed.elements(tensor) * effect.element_bytes,
                effect.in_place ? Uncomputed::kUpdated : Uncomputed::kWritten);
    }
  }
  if (effect.unscales) describe_unscale(launch.arguments[2], effect.type, launch.memory, work);
}

}  // namespace gpemu::kernels
