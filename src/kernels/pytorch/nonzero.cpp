// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/nonzero.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/pytorch/formula.hpp"
#include "gpemu/kernels/pytorch/tensor_work.hpp"

namespace gpemu::kernels {
namespace {

/// The type that PyTorch's nonzero compares with zero, or kUnknown.
NumberType nonzero_type(std::string_view function) {
  const auto arguments = template_arguments(function, "::NonZeroOp");
  return arguments.size() == 1 ? number_type(arguments[0]) : NumberType::kUnknown;
}

/// Reads elements of a type and returns which are not zero; nothing if they are not known.
std::optional<std::vector<std::int64_t>> find_nonzero(std::uint64_t address, NumberType type,
                                                      Bytes count, const Memory& memory) {
  const Bytes width = number_bytes(type);
  std::vector<std::byte> bytes(count * width);
  if (count > 0 && !memory.load(address, bytes.data(), bytes.size())) return std::nullopt;
  std::vector<std::int64_t> places;
  for (Bytes i = 0; i < count; ++i) {
    const Number number = load_number(&bytes[i * width], type);
    if (number.real != 0 || number.whole != 0) places.push_back(static_cast<std::int64_t>(i));
  }
  return places;
}

bool store_nonzero(std::uint64_t input, NumberType type, Bytes count, std::uint64_t number_to,
                   std::uint64_t places_to, Memory& memory) {
  const auto places = find_nonzero(input, type, count, memory);
  if (!places) return false;
  const auto number = static_cast<std::int32_t>(places->size());
  memory.store(number_to, &number, sizeof(number));
  if (places_to != 0 && number > 0) {
    memory.store(places_to, places->data(), places->size() * sizeof(std::int64_t));
  }
  return true;
}

}  // namespace

std::optional<NonzeroEffect> nonzero_effect(const KernelName& name) {
  NonzeroEffect effect;
  effect.input_type = nonzero_type(name.function);
  if (effect.input_type == NumberType::kUnknown) return std::nullopt;
  const std::string_view function = name.function;
  effect.address_first = contains(function, "::transform_iterator<at::native::NonZeroOp<") ||
                         contains(function, "transform_iterator<at::native::(anonymous");
  const auto width = [&name](std::size_t at) {
    return static_cast<std::uint8_t>(type_bytes(name.parameters[at]));
  };
  if (contains(function, "DeviceReduceSingleTileKernel<") && name.parameters.size() > 3 &&
      name.parameters[1] == "int*") {
    effect.count_bytes = width(2);
  } else if (contains(function, "DeviceSelectSweepKernel<") && name.parameters.size() > 8 &&
             name.parameters[2] == "long*" && name.parameters[3] == "int*") {
    effect.finds = true;
    effect.count_bytes = width(7);
  } else {
    return std::nullopt;
  }
  if (effect.count_bytes != 4 && effect.count_bytes != 8) return std::nullopt;
  return effect;
}

void describe_nonzero(const NonzeroEffect& effect, const Launch& launch, KernelWork* work) {
  const bool finds = effect.finds;
  void* const* const arguments = launch.arguments;
  const void* const counted = arguments[finds ? 7 : 2];
  const std::int64_t count =
      effect.count_bytes == 4 ? read<std::int32_t>(counted) : read<std::int64_t>(counted);
  // CUB's iterator holds an operator without members, then the address; thrust's the address first.
  const auto input = read<std::uint64_t>(arguments[finds ? 1 : 0], effect.address_first ? 0 : 8);
  const auto number_to = read<std::uint64_t>(arguments[finds ? 3 : 1]);
  const auto places_to = finds ? read<std::uint64_t>(arguments[2]) : 0;
  // Without the values, the number reads as 0, and no place is written.
  add_range(work, number_to, 4, Uncomputed::kWritten);
  if (count < 0 || count > kMostElements) return;
  const auto elements = static_cast<Bytes>(count);
  const NumberType type = effect.input_type;
  work->reads.push_back({.start = input, .bytes = elements * number_bytes(type), .writes = false});
  work->compute = [=](Memory& memory) {
    return store_nonzero(input, type, elements, number_to, places_to, memory);
  };
}

}  // namespace gpemu::kernels
