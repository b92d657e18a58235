// SPDX-License-Identifier: Apache-2.0
#include "kernel_effect.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "memory.hpp"
#include "memory_state.hpp"

namespace gpemu::cuda {
namespace {

using Kind = KernelEffect::Kind;

struct Known {
  std::string_view part;
  int argument = 0;
};

/// Kernels that write a value that PyTorch's host code reads. Source: the kernels' signatures in
/// CUB's device headers and PyTorch's NLLLoss.cu.
constexpr std::array kValues = {
    Known{"DeviceReduceSingleTileKernel", 1}, Known{"DeviceSelectSweepKernel", 3},
    Known{"DeviceReduceByKeyKernel", 4}, Known{"nll_loss_forward_reduce_cuda_kernel", 0}};

/// Returns the size of the type that a mangled name begins with, or 0. Source: the Itanium C++
/// ABI, builtin types; PyTorch's c10/util for its own.
std::uint32_t type_bytes(std::string_view mangled) {
  if (mangled.starts_with("N3c104HalfE") || mangled.starts_with("N3c108BFloat16E")) return 2;
  if (mangled.starts_with("N3c107complexI")) return 2 * type_bytes(mangled.substr(14));
  if (mangled.starts_with("N3c10")) return 1;  // The 8-bit floats.
  switch (mangled.empty() ? ' ' : mangled.front()) {
    case 'l':
    case 'm':
    case 'x':
    case 'd':
      return 8;
    case 'f':
    case 'i':
    case 'j':
      return 4;
    case 's':
    case 't':
      return 2;
    case 'a':
    case 'b':
    case 'h':
      return 1;
    default:
      return 0;
  }
}

/// Returns the size of the type behind `key`, or 0.
std::uint32_t type_behind(std::string_view name, std::string_view key) {
  const std::size_t found = name.rfind(key);
  return found == std::string_view::npos ? 0 : type_bytes(name.substr(found + key.size()));
}

/// Returns how many pointers an element-wise kernel takes, one per tensor: "5arrayIPcLm3EE".
int tensors_of(std::string_view name) {
  constexpr std::string_view kKey = "rrayIPcL";
  const std::size_t found = name.rfind(kKey);
  int count = 0;
  if (found == std::string_view::npos || found + kKey.size() + 1 >= name.size()) return 0;
  name.remove_prefix(found + kKey.size() + 1);
  std::from_chars(name.data(), name.data() + name.size(), count);
  return std::clamp(count, 0, 16);
}

KernelEffect elements_effect(std::string_view name) {
  KernelEffect effect{.kind = Kind::kElements, .tensors = tensors_of(name)};
  if (effect.tensors == 0) return {};
  if (name.find("FillFunctorI") != std::string_view::npos) {
    effect.element_bytes = type_behind(name, "FillFunctorI");
    return effect.element_bytes == 0
               ? KernelEffect{}
               : KernelEffect{.kind = Kind::kFill, .element_bytes = effect.element_bytes};
  }
  // Comparisons give bools; others what the functor handles, mostly.
  const std::size_t functor = std::min(name.find("unctor"), name.size());
  const std::size_t types = std::min(name.find('I', functor), name.size() - 1);
  const std::uint32_t bytes = type_bytes(name.substr(types + 1));
  effect.element_bytes = name.find("Compare") != std::string_view::npos ? 1
                         : bytes == 0                                   ? 4
                                                                        : bytes;
  return effect;
}

template <typename T>
T read(const void* from, Bytes offset = 0) {
  T value{};
  std::memcpy(&value, static_cast<const std::byte*>(from) + offset, sizeof(value));
  return value;
}

/// The arguments are the number of elements, the functor and the tensors' pointers.
void apply_elements(const KernelEffect& effect, void* const* arguments) {
  const auto count = static_cast<Bytes>(std::max(read<std::int32_t>(arguments[0]), 0));
  const auto output = read<std::uint64_t>(arguments[2]);
  if (effect.kind == Kind::kFill) {
    write_by_kernel(output, arguments[1], effect.element_bytes, count);
    return;
  }
  // What is changed in place, as weights are, stays as it was copied.
  for (int i = 1; i < effect.tensors; ++i) {
    if (read<std::uint64_t>(arguments[2], static_cast<Bytes>(i) * 8) == output) return;
  }
  write_by_kernel(output, nullptr, effect.element_bytes, count);
}

/// The one argument holds, after two small members, the configuration, two calculators of offsets
/// for up to 25 dimensions, the input's address and those of the results. Source: struct ReduceOp
/// and ReduceConfig in PyTorch's Reduce.cuh, OffsetCalculator.cuh; IntDivider of 12 bytes.
void apply_reduction(const KernelEffect& effect, const gpemu_cuda_launch& launch) {
  constexpr Bytes kMaxOffset = 64;
  constexpr Bytes kBlockWidth = 44;
  constexpr Bytes kConfigBytes = 64;
  constexpr Bytes kCalculatorBytes = (4 + 25 * 12 + 25 * 4) + (4 + 25 * 12 + 25 * 8);
  const void* const argument = launch.arguments[0];
  for (Bytes offset = 0; offset <= kMaxOffset; offset += 4) {
    const Bytes width = offset + kBlockWidth;
    if (read<std::uint32_t>(argument, width) != launch.block[0] ||
        read<std::uint32_t>(argument, width + 4) != launch.block[1] ||
        read<std::uint32_t>(argument, width + 8) != launch.block[0] * launch.block[1]) {
      continue;
    }
    const auto count = static_cast<Bytes>(std::max(read<std::int32_t>(argument, offset + 8), 0));
    const Bytes source = round_up(offset + kConfigBytes + kCalculatorBytes, 8);
    write_by_kernel(read<std::uint64_t>(argument, source + 8), nullptr, effect.element_bytes,
                    count);
    // The second result, of minima with their places, is one of indices.
    write_by_kernel(read<std::uint64_t>(argument, source + 16), nullptr, 8, count);
    return;
  }
}

}  // namespace

KernelEffect kernel_effect(std::string_view mangled_name) {
  for (const Known& known : kValues) {
    if (mangled_name.find(known.part) != std::string_view::npos) {
      return {.kind = Kind::kValue, .argument = known.argument};
    }
  }
  if (mangled_name.find("2at6native") == std::string_view::npos) return {};
  if (mangled_name.find("vectorized_elementwise_kernel") != std::string_view::npos ||
      mangled_name.find("unrolled_elementwise_kernel") != std::string_view::npos) {
    return elements_effect(mangled_name);
  }
  if (mangled_name.find("13reduce_kernelI") != std::string_view::npos) {
    // ReduceOp<..., uint32_t, result, values a thread reads, ...>.
    const std::uint32_t bytes = type_behind(mangled_name, "EEj");
    return {.kind = Kind::kReduction, .element_bytes = bytes == 0 ? 1 : bytes};
  }
  return {};
}

void apply_effect(const KernelEffect& effect, const gpemu_cuda_launch& launch) {
  if (effect.kind == Kind::kNone || launch.arguments == nullptr) return;
  switch (effect.kind) {
    case Kind::kFill:
    case Kind::kElements:
      apply_elements(effect, launch.arguments);
      break;
    case Kind::kReduction:
      apply_reduction(effect, launch);
      break;
    case Kind::kValue:
      write_by_kernel(read<std::uint64_t>(launch.arguments[effect.argument]), nullptr, 4, 1);
      break;
    case Kind::kNone:
      break;
  }
}

}  // namespace gpemu::cuda
