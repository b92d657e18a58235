// SPDX-License-Identifier: Apache-2.0
#include "kernels/parameters.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "kernel_memory.hpp"
#include "kernels/arguments.hpp"
#include "kernels/pytorch/tensor_work.hpp"

namespace gpemu::cuda {
namespace {

using Parameter = ParametersEffect::Parameter;

/// Kernels that change some of their parameters in place: weights and statistics keep the values
/// that were copied. Source: the kernels' signatures in PyTorch's native/cuda.
struct InPlace {
  std::string_view part;
  std::uint32_t argument = 0;
};
constexpr std::array kInPlace = {
    InPlace{"batch_norm_update_stats", 0},
    InPlace{"batch_norm_update_stats", 1},
    InPlace{"amp_update_scale_cuda_kernel", 0},
    InPlace{"amp_update_scale_cuda_kernel", 1},
};

bool is_scalar(std::string_view type) {
  return type_bytes(type) != 0 || type.starts_with("unsigned __int128") ||
         type.starts_with("__int128") || type.starts_with('(');
}

/// Describes a parameter by its type. Returns false if it does not lead to written memory.
bool read_parameter(std::string_view type, const ParameterPlace* place, Parameter* parameter) {
  if (type.ends_with('*')) {
    type.remove_suffix(1);
    if (type.ends_with("* const")) type.remove_suffix(6);
    if (type.ends_with(" const")) return false;
    if (type.ends_with("(")) return false;
    if (type.ends_with('*')) {
      type.remove_suffix(1);
      if (type.ends_with(" const")) return false;
      parameter->kind = Parameter::Kind::kPointers;
      parameter->element_bytes = std::max(type_bytes(type), 4U);
      if (type != "int") parameter->how = Uncomputed::kUpdated;
      return true;
    }
    const std::uint32_t bytes = type_bytes(type);
    parameter->element_bytes = bytes == 0 ? 8 : bytes;
    return true;
  }
  if (is_scalar(type)) return false;
  for (const std::string_view known : {"TensorAccessor", "TensorInfo"}) {
    const auto arguments = template_arguments(type, known);
    if (arguments.size() < 2 || type_bytes(arguments[0]) == 0) continue;
    if (arguments[0].ends_with(" const")) return false;
    const bool accessor = known == "TensorAccessor";
    if (accessor && arguments.size() < 4) continue;
    parameter->kind = accessor ? Parameter::Kind::kAccessor : Parameter::Kind::kTensorInfo;
    parameter->element_bytes = type_bytes(arguments[0]);
    parameter->dimensions = accessor ? static_cast<std::uint32_t>(number_in(arguments[1])) : 0;
    parameter->index_bytes =
        static_cast<std::uint8_t>(std::max(type_bytes(arguments[accessor ? 3 : 1]), 4U));
    return true;
  }
  if (place == nullptr || place->bytes < 8) return false;
  parameter->kind = Parameter::Kind::kWords;
  parameter->bytes = static_cast<std::uint32_t>(place->bytes);
  parameter->element_bytes = contains(type, "long") || contains(type, "double") ? 8 : 4;
  return true;
}

/// The extent of a tensor that a struct describes: an address, sizes, strides.
Bytes extent_of(const std::byte* sizes, const std::byte* strides, Bytes dimensions,
                const Parameter& parameter) {
  const auto number = [&parameter](const std::byte* from, Bytes index) -> Bytes {
    if (parameter.index_bytes == 4) return read<std::uint32_t>(from, index * 4);
    return read<std::uint64_t>(from, index * 8);
  };
  Bytes elements = 1;
  for (Bytes i = 0; i < dimensions; ++i) {
    const Bytes size = number(sizes, i);
    if (size == 0) return 0;
    Bytes part = 0;
    if (__builtin_mul_overflow(size - 1, number(strides, i), &part) ||
        __builtin_add_overflow(elements, part, &elements)) {
      return parameter.element_bytes;
    }
  }
  Bytes bytes = 0;
  return __builtin_mul_overflow(elements, Bytes{parameter.element_bytes}, &bytes)
             ? parameter.element_bytes
             : bytes;
}

void describe_tensor(const Parameter& parameter, const std::byte* from, KernelWork* work) {
  const Bytes width = parameter.index_bytes;
  const bool accessor = parameter.kind == Parameter::Kind::kAccessor;
  const Bytes most = accessor ? parameter.dimensions : kMostDimensions;
  const std::byte* const sizes = from + 8;
  const std::byte* const strides = sizes + most * width;
  const Bytes dimensions =
      accessor ? most
               : static_cast<Bytes>(
                     std::clamp(read<std::int32_t>(strides + most * width), 0, kMostDimensions));
  add_range(work, read<std::uint64_t>(from), extent_of(sizes, strides, dimensions, parameter),
            parameter.how);
}

/// Matrices whose addresses are known: as many as the grid or the last integer says, each no larger
/// than the product of the two largest integers.
void describe_pointers(const ParametersEffect& effect, const gpemu_cuda_launch& launch,
                       const Parameter& parameter, std::uint64_t array, KernelWork* work) {
  constexpr Bytes kMost = Bytes{1} << 16;
  std::vector<Bytes> integers = integers_of(effect.integers, launch);
  Bytes count = std::max({launch.grid[0], launch.grid[1], launch.grid[2]});
  if (!integers.empty()) count = std::max(count, integers.back());
  count = std::min(count, kMost);
  std::ranges::sort(integers, std::greater());
  integers.resize(2, 1);
  const Bytes bytes = integers[0] * integers[1] * parameter.element_bytes;
  for (Bytes i = 0; i < count; ++i) {
    std::uint64_t address = 0;
    if (!load_for_kernel(array + i * 8, &address, 8) || device_bytes_at(address, 1) == 0) break;
    add_range(work, address, bytes, parameter.how);
  }
}

}  // namespace

bool has_unsized(const KernelName& name) {
  return !name.is_cpp || std::ranges::any_of(name.parameters, [](const std::string& type) {
    return !type.ends_with('*') && !is_scalar(type);
  });
}

std::vector<Bytes> integers_of(const std::vector<std::uint32_t>& arguments,
                               const gpemu_cuda_launch& launch) {
  constexpr std::int32_t kMost = 1 << 24;
  std::vector<Bytes> integers;
  for (const std::uint32_t argument : arguments) {
    const auto value = read<std::int32_t>(launch.arguments[argument]);
    if (value > 0 && value < kMost) integers.push_back(static_cast<Bytes>(value));
  }
  return integers;
}

std::optional<ParametersEffect> parameters_effect(const KernelName& name,
                                                  const std::vector<ParameterPlace>& places) {
  ParametersEffect effect;
  // Numba mangles Python's arguments, each of which is several parameters of the kernel.
  const bool named = name.is_cpp && (places.empty() || places.size() == name.parameters.size());
  const std::size_t count = named ? name.parameters.size() : places.size();
  for (std::size_t i = 0; i < count; ++i) {
    Parameter parameter{.argument = static_cast<std::uint32_t>(i)};
    if (named && (name.parameters[i] == "int" || name.parameters[i] == "unsigned int")) {
      effect.integers.push_back(parameter.argument);
    }
    const ParameterPlace* const place = i < places.size() ? &places[i] : nullptr;
    // For kernels of other languages only the sizes are known: any word may be an address.
    if (!read_parameter(named ? std::string_view(name.parameters[i]) : "?", place, &parameter)) {
      continue;
    }
    for (const InPlace& known : kInPlace) {
      if (known.argument == i && contains(name.function, known.part)) {
        parameter.how = Uncomputed::kUpdated;
      }
    }
    effect.parameters.push_back(parameter);
  }
  if (named && !name.parameters.empty()) {
    const std::uint32_t bytes = type_bytes(name.parameters[0]);
    const bool whole = name.parameters[0].ends_with("int") || name.parameters[0].ends_with("long");
    effect.counts_elements = whole && (bytes == 4 || bytes == 8);
    effect.count_bytes = static_cast<std::uint8_t>(bytes);
  }
  // CUB's threads share buffers, which are smaller than their number.
  effect.is_small = contains(name.function, "cub::");
  if (effect.is_small) effect.counts_elements = false;
  if (effect.parameters.empty()) return std::nullopt;
  return effect;
}

void describe_parameters(const ParametersEffect& effect, const gpemu_cuda_launch& launch,
                         KernelWork* work) {
  Bytes elements = effect.is_small ? 1 : threads_of(launch);
  if (effect.counts_elements) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const std::int64_t count = effect.count_bytes == 4 ? read<std::int32_t>(launch.arguments[0])
                                                       : read<std::int64_t>(launch.arguments[0]);
    if (count > 0 && count < kMost) elements = std::max(elements, static_cast<Bytes>(count));
  }
  for (const Parameter& parameter : effect.parameters) {
    const auto* const from = static_cast<const std::byte*>(launch.arguments[parameter.argument]);
    if (from == nullptr) continue;
    const Bytes bytes = elements * parameter.element_bytes;
    switch (parameter.kind) {
      case Parameter::Kind::kPointer:
        add_range(work, read<std::uint64_t>(from), bytes, parameter.how);
        break;
      case Parameter::Kind::kPointers:
        describe_pointers(effect, launch, parameter, read<std::uint64_t>(from), work);
        break;
      case Parameter::Kind::kAccessor:
      case Parameter::Kind::kTensorInfo:
        describe_tensor(parameter, from, work);
        break;
      case Parameter::Kind::kWords:
        for (Bytes offset = 0; offset + 8 <= parameter.bytes; offset += 8) {
          const auto address = read<std::uint64_t>(from, offset);
          if (device_bytes_at(address, 1) == 1) add_range(work, address, bytes, parameter.how);
        }
        break;
    }
  }
  sort_ranges(work);
}

}  // namespace gpemu::cuda
