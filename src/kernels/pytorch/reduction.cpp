// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/reduction.hpp"

#include <algorithm>
#include <cstddef>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/pytorch/offsets.hpp"

namespace gpemu::kernels {
namespace {

/// Adds the computation of a reduction whose configuration begins at `config`. After the addresses
/// come those of three buffers, the place of the first element and two flags: whether the result is
/// accumulated, and whether it is final. Source: as describe_reduction.
void compute_from(const ReductionEffect& effect, const std::byte* argument,
                  const ReductionConfig& found, KernelWork* work) {
  const Bytes config = found.at, all = found.inputs, count = found.outputs;
  constexpr Bytes kConfigBytes = 64, kInputBytes = calculator_bytes(1);
  constexpr Bytes kOutputBytes = calculator_bytes(2);
  const std::byte* const inputs = argument + config + kConfigBytes;
  const std::byte* const outputs = inputs + kInputBytes;
  const Bytes source = (config + kConfigBytes + kInputBytes + kOutputBytes + 7) / 8 * 8;
  ReductionWork reduction{.reduction = effect.reduction,
                          .input = read<std::uint64_t>(argument, source),
                          .outputs = {read<std::uint64_t>(argument, source + 8),
                                      read<std::uint64_t>(argument, source + 16)},
                          .input_type = effect.input_type,
                          .output_type = effect.output_type,
                          .within = read_places(inputs, 1, 0),
                          .input_places = read_places(outputs, 2, 1),
                          .output_places = read_places(outputs, 2, 0)};
  const auto base = read<std::int64_t>(argument, source + 48);
  const bool accumulates = read<std::uint8_t>(argument, source + 56) != 0;
  const bool is_final = read<std::uint8_t>(argument, source + 57) != 0;
  if (base != 0 || accumulates || !is_final || reduction.output_places.count() != count ||
      reduction.within.count() != all || all > Bytes{kMostElements} ||
      count > Bytes{kMostElements}) {
    return;
  }
  if (effect.reduction == Reduction::kMean) {
    reduction.factor =
        effect.input_type == NumberType::kFloat64 ? read<double>(argument) : read<float>(argument);
  }
  work->reads.push_back({.start = reduction.input,
                         .bytes = reduction.input_places.extent() + reduction.within.extent() +
                                  number_bytes(effect.input_type),
                         .writes = false});
  work->compute = [reduction](Memory& memory) { return compute_reduction(reduction, memory); };
}

}  // namespace

std::optional<ReductionConfig> find_reduction(const void* argument, std::uint32_t block_width,
                                              std::uint32_t block_height, Bytes from) {
  constexpr Bytes kMaxOffset = 64;  // Each of the members is at most two complex numbers.
  constexpr Bytes kBlockWidth = 44;
  const auto count = [argument](Bytes at) {
    return static_cast<Bytes>(std::max(read<std::int32_t>(argument, at), 0));
  };
  for (Bytes at = from; at <= kMaxOffset; at += 4) {
    const Bytes width = at + kBlockWidth;
    if (read<std::uint32_t>(argument, width) == block_width &&
        read<std::uint32_t>(argument, width + 4) == block_height &&
        read<std::uint32_t>(argument, width + 8) == block_width * block_height) {
      return ReductionConfig{.at = at, .inputs = count(at + 4), .outputs = count(at + 8)};
    }
  }
  return std::nullopt;
}

/// After the configuration come two calculators of offsets for up to 25 dimensions, the input's
/// address and those of the results. Source: struct ReduceOp in PyTorch's Reduce.cuh.
bool describe_reduction(const ReductionEffect& effect, const Launch& launch, KernelWork* work) {
  constexpr Bytes kConfigBytes = 64;
  constexpr Bytes kInputsBytes = calculator_bytes(1);
  constexpr Bytes kCalculatorBytes = kInputsBytes + calculator_bytes(2);
  const void* const argument = launch.arguments[0];
  const auto find = [&](Bytes from) {
    return find_reduction(argument, launch.block[0], launch.block[1], from);
  };
  for (auto config = find(0); config; config = find(config->at + 4)) {
    const Bytes offset = config->at, count = config->outputs;
    const Bytes source = (offset + kConfigBytes + kCalculatorBytes + 7) / 8 * 8;
    // If a block is one thread, other members look the same.
    if (launch.memory.device_bytes_at(read<std::uint64_t>(argument, source), 1) == 0 ||
        launch.memory.device_bytes_at(read<std::uint64_t>(argument, source + 8), 1) == 0) {
      continue;
    }
    // The results' calculator has strides for the first result only.
    Places places = read_places(
        static_cast<const std::byte*>(argument) + offset + kConfigBytes + kInputsBytes, 2, 0);
    if (places.count() != count) places = in_a_row(count, effect.element_bytes);
    add_tensor(work, read<std::uint64_t>(argument, source + 8), places,
               std::min<Bytes>(effect.element_bytes, places.closest()), Uncomputed::kWritten);
    // If there is only one result, the second one's address is not set.
    if (read<std::int32_t>(argument, source + 60) == 2) {
      const auto second = read<std::uint64_t>(argument, source + 16);
      for (int i = 0; i < places.dimensions; ++i) {
        Bytes& stride = places.strides[static_cast<std::size_t>(i)];
        stride = stride / effect.element_bytes * effect.second_bytes;
      }
      add_tensor(work, second, places, effect.second_bytes, Uncomputed::kWritten);
    }
    if (effect.reduction != Reduction::kUnknown) {
      compute_from(effect, static_cast<const std::byte*>(argument), *config, work);
    }
    return true;
  }
  return false;
}

std::optional<ReductionEffect> jitted_reduction_effect(std::string_view name,
                                                       const FindCode& find_code) {
  if (!find_code || !name.starts_with("reduction_") || !name.ends_with("_kernel")) return {};
  const CodeFacts facts = find_code();
  if (facts.places.size() != 1 || !facts.access.known || facts.access.widest == 0) return {};
  const auto bytes = static_cast<std::uint32_t>(facts.access.widest);
  return ReductionEffect{.element_bytes = bytes, .second_bytes = bytes};
}

ReductionEffect reduction_effect(const KernelName& name) {
  // ReduceOp<scalar, operation, index, result, values a thread reads, ...>.
  const auto arguments = template_arguments(name.function, "ReduceOp");
  const std::uint32_t bytes = arguments.size() > 3 ? type_bytes(arguments[3]) : 0;
  ReductionEffect effect{.element_bytes = bytes == 0 ? 8 : bytes};
  // Minima and maxima with their places have indices as second results.
  const bool has_places = arguments.size() > 3 && (contains(arguments[1], "::MaxOps<") ||
                                                   contains(arguments[1], "::MinOps<"));
  effect.second_bytes = has_places ? 8 : effect.element_bytes;
  if (arguments.size() > 3) {
    effect.reduction = read_reduction(arguments[1]);
    effect.input_type = number_type(arguments[0]);
    effect.output_type = number_type(arguments[3]);
  }
  return effect;
}

}  // namespace gpemu::kernels
