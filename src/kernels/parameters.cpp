// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/parameters.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/places.hpp"
#include "gpemu/kernels/pytorch/formula.hpp"
#include "gpemu/kernels/pytorch/known_writes.hpp"

namespace gpemu::kernels {
namespace {

using Parameter = ParametersEffect::Parameter;

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
      parameter->how = Uncomputed::kUpdated;
      return true;
    }
    const std::uint32_t bytes = type_bytes(type);
    parameter->element_bytes = bytes == 0 ? 8 : bytes;
    return true;
  }
  if (is_scalar(type)) return false;
  for (const std::string_view known : {"TensorAccessor", "TensorInfo"}) {
    auto arguments = template_arguments(type, known);
    const bool accessor = known == "TensorAccessor";
    if (arguments.size() < (accessor ? 4 : 2)) continue;
    // In newer versions of PyTorch, types of the accessor itself come before these four.
    if (accessor) arguments.erase(arguments.begin(), arguments.end() - 4);
    if (type_bytes(arguments[0]) == 0) continue;
    if (arguments[0].ends_with(" const")) return false;
    parameter->kind = accessor ? Parameter::Kind::kAccessor : Parameter::Kind::kTensorInfo;
    parameter->how = Uncomputed::kWritten;
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

/// Reads the tensor that a struct describes: an address, sizes, strides in elements. Returns the
/// places of its elements in bytes.
Places places_of(const Parameter& parameter, const std::byte* from) {
  const Bytes width = parameter.index_bytes;
  const bool accessor = parameter.kind == Parameter::Kind::kAccessor;
  const Bytes most = accessor ? parameter.dimensions : kMostDimensions;
  const std::byte* const sizes = from + 8;
  const std::byte* const strides = sizes + most * width;
  const auto number = [width](const std::byte* list, Bytes index) {
    return width == 4 ? std::int64_t{read<std::uint32_t>(list, index * 4)}
                      : read<std::int64_t>(list, index * 8);
  };
  const std::int64_t dimensions =
      accessor ? static_cast<std::int64_t>(most) : read<std::int32_t>(strides + most * width);
  Places places{.dimensions = 0};
  for (std::int64_t i = std::clamp<std::int64_t>(dimensions, 0, kMostDimensions - 1); i-- > 0;) {
    const auto at = static_cast<Bytes>(i);
    places.add(static_cast<Bytes>(std::max<std::int64_t>(number(sizes, at), 0)),
               static_cast<Bytes>(number(strides, at)) * parameter.element_bytes);
  }
  return places.dimensions > 0 ? places : in_a_row(1, parameter.element_bytes);
}

void describe_tensor(const Parameter& parameter, const Launch& launch, Uncomputed how,
                     KernelWork* work) {
  const auto* const from = static_cast<const std::byte*>(launch.arguments[parameter.argument]);
  Places places = places_of(parameter, from);
  if (parameter.size && parameter.stride) {
    places.add(parameter.size->of(launch), parameter.stride->of(launch) * parameter.element_bytes);
  }
  add_tensor(work, read<std::uint64_t>(from), places, parameter.element_bytes, how);
}

/// Matrices whose addresses are known: as many as the grid or the last integer says, each no larger
/// than the product of the two largest integers.
void describe_pointers(const ParametersEffect& effect, const Launch& launch,
                       const Parameter& parameter, std::uint64_t array, KernelWork* work) {
  constexpr Bytes kMost = Bytes{1} << 16;
  std::vector<Bytes> integers = integers_of(effect.integers, launch);
  Bytes count = std::max({launch.grid[0], launch.grid[1], launch.grid[2]});
  if (!integers.empty()) count = std::max(count, integers.back());
  count = std::min(count, kMost);
  std::ranges::sort(integers, std::greater());
  integers.resize(2, 1);
  const Bytes elements = parameter.count ? parameter.count->of(launch) : integers[0] * integers[1];
  const Bytes bytes = elements * parameter.element_bytes;
  for (Bytes i = 0; i < count; ++i) {
    std::uint64_t address = 0;
    if (!launch.memory.load(array + i * 8, &address, 8) || !launch.memory.on_device(address)) break;
    add_range(work, address, bytes, parameter.how);
  }
}

}  // namespace

bool has_unsized(const KernelName& name) {
  return !name.is_cpp || std::ranges::any_of(name.parameters, [](const std::string& type) {
    return !type.ends_with('*') && !is_scalar(type);
  });
}

std::vector<Bytes> integers_of(const std::vector<IntegerArgument>& arguments,
                               const gpemu_cuda_launch& launch) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::vector<Bytes> integers;
  for (const auto& [argument, bytes] : arguments) {
    const void* const from = launch.arguments[argument];
    if (from == nullptr) continue;
    const std::int64_t value = bytes == 4 ? read<std::int32_t>(from) : read<std::int64_t>(from);
    if (value > 0 && value < kMost) integers.push_back(static_cast<Bytes>(value));
  }
  return integers;
}

Bytes elements_of_grid(const std::vector<Bytes>& integers, const gpemu_cuda_launch& launch) {
  Bytes elements = 1, dimensions = 0;
  for (int i = 0; i < 3; ++i) {
    const Bytes block = launch.block[i], most = launch.grid[i] * block;
    if (most <= 1) continue;
    ++dimensions;
    Bytes best = 0;
    for (const Bytes integer : integers) {
      if (integer <= most && integer + block > most) best = std::max(best, integer);
    }
    elements *= best;
  }
  if (elements > 0 || dimensions != 1) return elements;
  // One dimension may count the elements of several, for instance rows and columns.
  const Bytes threads = threads_of(launch);
  const Bytes block = Bytes{launch.block[0]} * launch.block[1] * launch.block[2];
  Bytes best = 0;
  for (std::size_t i = 0; i < integers.size(); ++i) {
    for (std::size_t j = i + 1; j < integers.size(); ++j) {
      Bytes product = 0;
      if (__builtin_mul_overflow(integers[i], integers[j], &product)) continue;
      if (product <= threads && product + block > threads) best = std::max(best, product);
    }
  }
  return best;
}

namespace {

/// Returns the parameters that are pointers to constants, or describe tensors of them.
std::vector<std::uint32_t> inputs_of(const KernelName& name) {
  std::vector<std::uint32_t> inputs;
  for (std::size_t i = 0; i < name.parameters.size(); ++i) {
    const std::string_view type = name.parameters[i];
    const bool tensor = contains(type, "TensorAccessor<") || contains(type, "TensorInfo<");
    if (type.ends_with(" const*") || (tensor && contains(type, " const,"))) {
      inputs.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return inputs;
}

/// Finds the types of a known kernel's check. Returns nothing if they are not as expected.
std::optional<ParametersEffect::Check> known_check(const KnownCheck& check,
                                                   const KernelName& name) {
  ParametersEffect::Check found{.check = check};
  std::string_view type = name.parameters[check.argument];
  if (check.count) {
    if (!type.ends_with(" const*")) return std::nullopt;
    type.remove_suffix(std::string_view(" const*").size());
    found.type = number_type(type);
  } else {
    if (!read_parameter(type, nullptr, &found.tensor) ||
        found.tensor.kind != Parameter::Kind::kAccessor) {
      return std::nullopt;
    }
    found.type = found.tensor.element_bytes == 8 ? NumberType::kInt64 : NumberType::kInt32;
    found.tensor.argument = static_cast<std::uint32_t>(check.argument);
  }
  found.size_bytes = integer_bytes(name.parameters[check.size]);
  if (check.dimension) {
    Parameter sized;
    if (!read_parameter(name.parameters[check.size], nullptr, &sized) ||
        sized.kind != Parameter::Kind::kAccessor || *check.dimension >= sized.dimensions) {
      return std::nullopt;
    }
    found.size_bytes = sized.index_bytes;
  }
  if (check.ignored) found.ignored_bytes = integer_bytes(name.parameters[*check.ignored]);
  return found;
}

/// The parameters of a kernel whose writes are known. Returns nothing if one leads to no memory.
std::optional<ParametersEffect> known_effect(const KernelName& name, const KnownWrites& known,
                                             const FindCode& find_code) {
  ParametersEffect effect{
      .integers = {}, .parameters = {}, .inputs = inputs_of(name), .checks = {}};
  for (const KnownWrite& write : known.writes) {
    Parameter parameter{.how = write.how,
                        .argument = static_cast<std::uint32_t>(write.argument),
                        .count = write.count,
                        .size = write.size,
                        .stride = write.stride};
    const ParameterPlace pointer{.bytes = 8};
    if (!read_parameter(name.parameters[write.argument], &pointer, &parameter)) return {};
    parameter.how = write.how;
    const bool is_tensor = parameter.kind == Parameter::Kind::kAccessor ||
                           parameter.kind == Parameter::Kind::kTensorInfo;
    if (!is_tensor && !write.count && write.how != Uncomputed::kSomewhere) return {};
    // A type that the name does not tell, as a lambda's result.
    std::string_view type = name.parameters[write.argument];
    if (parameter.kind == Parameter::Kind::kPointer &&
        type_bytes(type.substr(0, type.size() - 1)) == 0 && find_code) {
      const MemoryAccess access = find_code().access;
      if (access.known && access.widest > 0) {
        parameter.element_bytes = static_cast<std::uint32_t>(access.widest);
      }
    }
    // A struct that is only a pointer, as thrust's.
    if (parameter.kind == Parameter::Kind::kWords) parameter.kind = Parameter::Kind::kPointer;
    effect.parameters.push_back(parameter);
  }
  for (const KnownCheck& check : known.checks) {
    const auto found = known_check(check, name);
    if (!found) return {};
    effect.checks.push_back(*found);
  }
  return effect;
}

}  // namespace

std::optional<ParametersEffect> known_parameters(const KernelName& name,
                                                 const FindCode& find_code) {
  const auto writes = known_writes(name);
  return writes ? known_effect(name, *writes, find_code) : std::nullopt;
}

std::optional<ParametersEffect> parameters_effect(const KernelName& name,
                                                  const std::vector<ParameterPlace>& places) {
  ParametersEffect effect{
      .integers = {}, .parameters = {}, .inputs = inputs_of(name), .checks = {}};
  // Numba mangles Python's arguments, each of which is several parameters of the kernel.
  const bool named = name.is_cpp && (places.empty() || places.size() == name.parameters.size());
  const std::size_t count = named ? name.parameters.size() : places.size();
  for (std::size_t i = 0; i < count; ++i) {
    Parameter parameter{.argument = static_cast<std::uint32_t>(i)};
    if (named && integer_bytes(name.parameters[i]) >= 4) {
      effect.integers.push_back({parameter.argument, integer_bytes(name.parameters[i])});
    }
    const ParameterPlace* const place = i < places.size() ? &places[i] : nullptr;
    // For kernels of other languages only the sizes are known: any word may be an address.
    if (read_parameter(named ? std::string_view(name.parameters[i]) : "?", place, &parameter)) {
      effect.parameters.push_back(parameter);
    }
  }
  if (effect.parameters.empty()) return std::nullopt;
  return effect;
}

namespace {

/// How far a kernel writes from a pointer on, of whose extent only the launch tells something.
struct Bound {
  Bytes least = 0;  ///< that it surely writes.
  Bytes most = 0;
};

/// A thread writes an element; without a grid that the integers explain, the largest of these may
/// count elements that threads write one after the other.
Bound bound_of(const ParametersEffect& effect, const Launch& launch) {
  const std::vector<Bytes> integers = integers_of(effect.integers, launch);
  const Bytes threads = threads_of(launch), of_grid = elements_of_grid(integers, launch);
  if (of_grid > 0) return {.least = of_grid, .most = threads};
  const Bytes first =
      !effect.integers.empty() && effect.integers[0].argument == 0 && !integers.empty()
          ? integers[0]
          : 0;
  return {.least = std::max(threads, first), .most = std::max(threads, first)};
}

/// Adds memory of which only a bound is known: beyond what is surely written, known content stays
/// and counts as not updated.
void add_bounded(KernelWork* work, std::uint64_t address, const Bound& bound,
                 const Parameter& parameter) {
  add_range(work, address, bound.most * parameter.element_bytes, Uncomputed::kUpdated);
  add_range(work, address, bound.least * parameter.element_bytes, parameter.how);
}

void describe_pointer(const Parameter& parameter, const Bound& bound, const Launch& launch,
                      KernelWork* work) {
  constexpr Bytes kMost = Bytes{1} << 40;
  const auto address = read<std::uint64_t>(launch.arguments[parameter.argument]);
  if (parameter.count) {
    add_range(work, address, parameter.count->of(launch) * parameter.element_bytes, parameter.how);
  } else if (parameter.how == Uncomputed::kSomewhere) {
    add_range(work, address, launch.memory.device_bytes_at(address, kMost), parameter.how);
  } else {
    add_bounded(work, address, bound, parameter);
  }
}

/// A tensor that is also an input is changed in place.
Uncomputed how_changed(const ParametersEffect& effect, const Parameter& parameter,
                       const Launch& launch) {
  const auto address = read<std::uint64_t>(launch.arguments[parameter.argument]);
  const bool is_input = std::ranges::any_of(effect.inputs, [&](std::uint32_t argument) {
    const void* const from = launch.arguments[argument];
    return from != nullptr && read<std::uint64_t>(from) == address;
  });
  return is_input ? Uncomputed::kUpdated : parameter.how;
}

/// Any word of a struct may be the address of a result.
void describe_words(const Parameter& parameter, const Bound& bound, const Launch& launch,
                    KernelWork* work) {
  const auto* const from = static_cast<const std::byte*>(launch.arguments[parameter.argument]);
  for (Bytes offset = 0; offset + 8 <= parameter.bytes; offset += 8) {
    const auto address = read<std::uint64_t>(from, offset);
    if (launch.memory.on_device(address)) add_bounded(work, address, bound, parameter);
  }
}

/// Adds the indices that a known kernel checks.
void add_checks(const ParametersEffect& effect, const Launch& launch, KernelWork* work) {
  const auto integer = [&launch](std::size_t argument, std::uint8_t bytes, Bytes offset = 0) {
    const auto* const from = static_cast<const std::byte*>(launch.arguments[argument]) + offset;
    return bytes == 4 ? std::int64_t{read<std::int32_t>(from)} : read<std::int64_t>(from);
  };
  for (const ParametersEffect::Check& own : effect.checks) {
    const KnownCheck& check = own.check;
    const auto* const from = static_cast<const std::byte*>(launch.arguments[check.argument]);
    // An accessor has its sizes behind the address.
    const Bytes offset = check.dimension ? 8 + *check.dimension * own.size_bytes : 0;
    IndexCheck indices{.address = read<std::uint64_t>(from),
                       .type = own.type,
                       .places = check.count
                                     ? in_a_row(check.count->of(launch), number_bytes(own.type))
                                     : places_of(own.tensor, from),
                       .size = integer(check.size, own.size_bytes, offset),
                       .ignored = {}};
    if (check.ignored) indices.ignored = integer(*check.ignored, own.ignored_bytes);
    if (number_bytes(own.type) > 0 && indices.places.count() > 0) add_check(work, indices);
  }
}

}  // namespace

void describe_parameters(const ParametersEffect& effect, const Launch& launch, KernelWork* work) {
  add_checks(effect, launch, work);
  const Bound bound = bound_of(effect, launch);
  for (const Parameter& parameter : effect.parameters) {
    const void* const from = launch.arguments[parameter.argument];
    if (from == nullptr) continue;
    switch (parameter.kind) {
      case Parameter::Kind::kPointer:
        describe_pointer(parameter, bound, launch, work);
        break;
      case Parameter::Kind::kPointers:
        describe_pointers(effect, launch, parameter, read<std::uint64_t>(from), work);
        break;
      case Parameter::Kind::kAccessor:
      case Parameter::Kind::kTensorInfo:
        describe_tensor(parameter, launch, how_changed(effect, parameter, launch), work);
        break;
      case Parameter::Kind::kWords:
        describe_words(parameter, bound, launch, work);
        break;
    }
  }
  sort_ranges(work);
}

}  // namespace gpemu::kernels
