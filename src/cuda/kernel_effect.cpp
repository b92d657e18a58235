// SPDX-License-Identifier: Apache-2.0
#include "kernel_effect.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "index_kernels.hpp"
#include "kernel_name.hpp"
#include "mover.hpp"
#include "product.hpp"
#include "ptx.hpp"

namespace gpemu::cuda {

namespace {

/// Bytes to the end of the unit in which PyTorch's allocator gives memory out. Source:
/// kMinBlockSize in CUDACachingAllocator.cpp.
constexpr Bytes to_unit(std::uint64_t address, Bytes bytes) {
  constexpr Bytes kUnit = 512;
  return (address + bytes + kUnit - 1) / kUnit * kUnit - address;
}

}  // namespace

void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how) {
  if (address == 0 || bytes == 0) return;
  if (how == Uncomputed::kOpen) bytes = to_unit(address, bytes);
  work->ranges.push_back({address, bytes, how});
}

namespace {

using Kind = KernelEffect::Kind;
using Parameter = KernelEffect::Parameter;

constexpr int kMaxTensors = 8;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <typename T>
T read(const void* from, Bytes offset = 0) {
  T value{};
  std::memcpy(&value, static_cast<const std::byte*>(from) + offset, sizeof(value));
  return value;
}

Bytes threads_of(const gpemu_cuda_launch& launch) {
  Bytes threads = 1;
  for (int i = 0; i < 3; ++i) threads *= Bytes{launch.grid[i]} * launch.block[i];
  return threads;
}

/// Part of the names of kernels that multiply gradients in place. Their lambda holds where to say
/// that one is not finite, then where the factor lies. Source: AmpKernels.cu.
constexpr std::string_view kUnscale = "non_finite_check_and_unscale_cuda_";

/// Has gradients multiplied: those of the ranges that are written so far.
void describe_unscale(const void* lambda, NumberType type, KernelWork* work) {
  Unscale unscale{.type = type,
                  .gradients = {},
                  .found = read<std::uint64_t>(lambda),
                  .factor = read<std::uint64_t>(lambda, 8)};
  bool known = true;
  for (const KernelWork::Range& range : work->ranges) {
    unscale.gradients.push_back({.address = range.address, .bytes = range.bytes});
    work->reads.push_back({.start = range.address, .bytes = range.bytes, .writes = false});
    known = known && (!work->at_once || known_to_kernel(range.address, range.bytes));
  }
  work->reads.push_back({.start = unscale.factor, .bytes = 4, .writes = false});
  add_range(work, unscale.found, 4, Uncomputed::kUpdated);
  if (known) work->compute = [unscale = std::move(unscale)] { return compute_unscale(unscale); };
}

// ---- Element-wise kernels

/// Parts of the names of functors whose results are of other types than their arguments. Source:
/// the kernels in PyTorch's native/cuda.
constexpr std::array<std::string_view, 15> kBoolFunctors = {
    "CompareFunctor", "CompareEqFunctor", "isnan",   "isinf",   "isposinf", "isneginf",
    "isfinite",       "logical_",         "Logical", "signbit", "compare_", "isin_",
    "eq_kernel",      "ne_kernel",        "is_"};
constexpr std::array<std::string_view, 2> kComplexFunctors = {"polar_kernel", "complex_kernel"};

/// Returns the types of a functor's arguments: of the last lambda in its name, or what it is a
/// template of.
std::vector<std::string_view> functor_types(std::string_view functor) {
  constexpr std::string_view kLambda = "{lambda(";
  const std::size_t lambda = functor.rfind(kLambda);
  if (lambda != std::string_view::npos) {
    const std::size_t open = lambda + kLambda.size() - 1;
    const std::size_t end = skip_brackets(functor, open);
    if (end != std::string_view::npos) {
      const auto types = split_list(functor.substr(open + 1, end - open - 2));
      if (!types.empty()) return types;
    }
  }
  const std::size_t open = functor.find('<');
  if (open == std::string_view::npos) return {};
  const std::size_t end = skip_brackets(functor, open);
  if (end == std::string_view::npos) return {};
  return split_list(functor.substr(open + 1, end - open - 2));
}

std::uint32_t result_bytes(std::string_view functor) {
  const auto is_in = [functor](std::string_view part) { return contains(functor, part); };
  if (std::ranges::any_of(kBoolFunctors, is_in)) return 1;
  const auto types = functor_types(functor);
  std::uint32_t bytes = 0;
  for (const std::string_view type : types) bytes = std::max(bytes, type_bytes(type));
  if (bytes == 0) bytes = contains(functor, "double") || contains(functor, "long") ? 8 : 4;
  return std::ranges::any_of(kComplexFunctors, is_in) ? 2 * bytes : bytes;
}

/// Kernels over contiguous tensors take the number of elements, the functor and an array of the
/// tensors' addresses. Source: CUDALoops.cuh, JitLoops.cuh.
KernelEffect elements_effect(const KernelName& name) {
  const auto array = template_arguments(name.parameters[2], "array");
  const int tensors = array.size() == 2 ? number_in(array[1]) : 0;
  if (tensors < 1 || tensors > kMaxTensors) return {};
  const std::string& functor = name.parameters[1];
  KernelEffect effect{.kind = Kind::kElements, .tensors = tensors, .parameters = {}};
  const auto filled = template_arguments(functor, "FillFunctor");
  const bool casts = contains(name.function, "WithCast") || name.parameters.size() > 6;
  if (!filled.empty() && type_bytes(filled[0]) != 0 && !casts) {
    effect.kind = Kind::kFill;
    effect.element_bytes = type_bytes(filled[0]);
    return effect;
  }
  effect.element_bytes = result_bytes(functor);
  effect.casts = contains(name.function, "LoadWithCast");
  effect.formula = read_formula(functor);
  if (effect.formula && effect.formula->tensors != tensors - 1) effect.formula.reset();
  if (effect.formula) {
    effect.element_bytes = static_cast<std::uint32_t>(number_bytes(effect.formula->result));
  }
  effect.unscales = contains(functor, kUnscale);
  if (effect.unscales) {
    const auto types = functor_types(functor);
    if (types.size() == 1) effect.input_type = number_type(types[0]);
  }
  if (contains(name.function, "for_multi_outputs")) {
    effect.formula.reset();
    effect.element_bytes = std::max(effect.element_bytes, 4U);  // Exponents are whole numbers.
    const auto arguments = template_arguments(name.function, "for_multi_outputs");
    effect.outputs = arguments.empty() ? 1 : std::clamp(number_in(arguments[0]), 1, tensors);
  }
  return effect;
}

/// What is changed in place, as weights are, stays as it was copied. Without a formula, the size of
/// the elements is a guess.
Uncomputed how_written(const KernelEffect& effect, const std::uint64_t* tensors, int count,
                       int output) {
  for (int i = effect.outputs; i < count; ++i) {
    if (tensors[i] == tensors[output]) return Uncomputed::kUpdated;
  }
  return effect.formula ? Uncomputed::kWritten : Uncomputed::kOpen;
}

/// Reads the types that tensors have in memory where the kernel converts them: the loader's and the
/// storer's first members. Source: LoadWithCast and StoreWithCast in MemoryAccess.cuh.
bool read_types(const KernelEffect& effect, const void* loader, const void* storer,
                std::array<NumberType, 4>* types) {
  for (int i = 0; i < effect.tensors && i < 4; ++i) {
    const auto type =
        i == 0 ? read<std::int8_t>(storer) : read<std::int8_t>(loader, static_cast<Bytes>(i) - 1);
    (*types)[static_cast<std::size_t>(i)] = static_cast<NumberType>(type);
    if (number_bytes(static_cast<NumberType>(type)) == 0) return false;
  }
  return true;
}

/// Returns the size of what a storer stores, of which the type's number in PyTorch comes first; the
/// largest where it is not known. Source: c10/core/ScalarType.h.
Bytes stored_bytes(const void* storer) {
  constexpr std::array<std::uint8_t, 30> kBytes = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                                                   2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1,  1, 2, 4, 8};
  const auto type = read<std::uint8_t>(storer);
  return type < kBytes.size() ? kBytes.at(type) : 16;
}

/// Has the values computed, where they may be. Requires: a formula.
void add_computation(ElementWork elements, KernelWork* work) {
  const TensorView& result = elements.tensors[0];
  const Bytes count = result.places.count();
  if (count == 0 || count > Bytes{kMostElements}) return;
  for (int i = 1; i <= elements.formula.tensors; ++i) {
    const TensorView& tensor = elements.tensors[static_cast<std::size_t>(i)];
    const Bytes bytes = tensor.places.extent() + number_bytes(tensor.type);
    if (work->at_once && !known_to_kernel(tensor.address, bytes)) return work->reads.clear();
    work->reads.push_back({.start = tensor.address, .bytes = bytes, .writes = false});
  }
  work->compute = [elements = std::move(elements)] { return compute_elements(elements); };
}

/// The types that the tensors have in memory where the kernel converts nothing.
std::array<NumberType, 4> types_of(const Formula& formula) {
  return {formula.result, formula.types[0], formula.types[1], formula.types[2]};
}

void compute_contiguous(const KernelEffect& effect, void* const* arguments,
                        const std::uint64_t* tensors, KernelWork* work) {
  const auto count = static_cast<Bytes>(std::max(read<std::int32_t>(arguments[0]), 0));
  const Formula& formula = *effect.formula;
  std::array<NumberType, 4> types = types_of(formula);
  if (effect.casts && !read_types(effect, arguments[5], arguments[6], &types)) return;
  if (count > Bytes{kMostElements}) return;
  ElementWork elements{.formula = formula,
                       .state = read_functor(formula, static_cast<const std::byte*>(arguments[1])),
                       .tensors = {}};
  for (int i = 0; i < effect.tensors && i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    elements.tensors[at] = {tensors[i], types[at], in_a_row(count, number_bytes(types[at]))};
  }
  add_computation(std::move(elements), work);
}

/// Number and addresses of the elements that a kernel over contiguous tensors works on.
struct Elements {
  Elements(const KernelEffect& effect, void* const* arguments)
      : count(static_cast<Bytes>(std::max(read<std::int32_t>(arguments[0]), 0))) {
    std::memcpy(tensors.data(), arguments[effect.addresses_at],
                static_cast<std::size_t>(effect.tensors) * 8);
  }

  Bytes count;
  std::array<std::uint64_t, kMaxTensors> tensors{};
};

/// Leaves the results of the commonest kernels not computed, where nothing else is to be done;
/// returns whether that is so. What describe_work and perform do, in a tenth of the time.
bool leave_elements(const KernelEffect& effect, void* const* arguments) {
  if (effect.kind != Kind::kElements || effect.casts || effect.unscales || mover().busy()) {
    return false;
  }
  const Elements elements(effect, arguments);
  const auto& tensors = elements.tensors;
  if (effect.formula && elements.count <= Bytes{kMostElements}) {
    const auto known = [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      return known_to_kernel(tensors[at + 1],
                             elements.count * number_bytes(effect.formula->types[at]));
    };
    int first_unknown = 0;
    while (first_unknown < effect.tensors - 1 && known(first_unknown)) ++first_unknown;
    if (first_unknown == effect.tensors - 1) return false;
  }
  for (int i = 0; i < effect.outputs; ++i) {
    const std::uint64_t address = tensors[static_cast<std::size_t>(i)];
    if (address == 0) continue;
    const Uncomputed how = how_written(effect, tensors.data(), effect.tensors, i);
    const Bytes bytes = elements.count * effect.element_bytes;
    leave_uncomputed(address, how == Uncomputed::kOpen ? to_unit(address, bytes) : bytes, how,
                     effect.writer);
  }
  return true;
}

void describe_elements(const KernelEffect& effect, void* const* arguments, KernelWork* work) {
  const auto [count, tensors] = Elements(effect, arguments);
  if (effect.kind == Kind::kFill) {
    const auto* const value = static_cast<const std::byte*>(arguments[1]);
    work->fill_value.assign(value, value + effect.element_bytes);
    work->fill_address = tensors[0];
    work->fill_count = count;
    return;
  }
  const Bytes width = effect.casts ? stored_bytes(arguments[6]) : effect.element_bytes;
  for (int i = 0; i < effect.outputs; ++i) {
    add_range(work, tensors[static_cast<std::size_t>(i)], count * width,
              how_written(effect, tensors.data(), effect.tensors, i));
  }
  if (effect.unscales) return describe_unscale(arguments[1], effect.input_type, work);
  if (effect.formula) compute_contiguous(effect, arguments, tensors.data(), work);
}

/// Tensors of any strides: the lambda holds the calculator of offsets, then the addresses.
struct Strided {
  int dimensions = 0;
  int tensors = 0;
  std::array<std::uint64_t, kMaxTensors> addresses{};
  const std::byte* sizes = nullptr;    ///< IntDivider, by dimension.
  const std::byte* strides = nullptr;  ///< by dimension and tensor, in bytes.

  [[nodiscard]] Bytes size(int dimension) const {
    return read<std::uint32_t>(sizes, static_cast<Bytes>(dimension) * kDividerBytes);
  }
  [[nodiscard]] Bytes stride(int dimension, int tensor) const {
    return read<std::uint32_t>(strides, static_cast<Bytes>(dimension * tensors + tensor) * 4);
  }
};

/// Reads the lambda of so many tensors, or nothing where it does not look like one. Source:
/// gpu_kernel_impl_nocast in CUDALoops.cuh; OffsetCalculator.cuh.
bool read_strided(const void* lambda, int tensors, Strided* strided) {
  const auto* const bytes = static_cast<const std::byte*>(lambda);
  strided->tensors = tensors;
  strided->dimensions = read<std::int32_t>(bytes);
  strided->sizes = bytes + 4;
  strided->strides = strided->sizes + kMostDimensions * kDividerBytes;
  if (strided->dimensions < 0 || strided->dimensions > kMostDimensions) return false;
  const Bytes end = 4 + kMostDimensions * (kDividerBytes + 4 * static_cast<Bytes>(tensors));
  const Bytes array = (end + 7) / 8 * 8;
  std::memcpy(strided->addresses.data(), bytes + array, static_cast<std::size_t>(tensors) * 8);
  return std::all_of(strided->addresses.begin(), strided->addresses.begin() + tensors,
                     [](std::uint64_t address) { return device_bytes_at(address, 1) == 1; });
}

/// Returns the functor that an element-wise kernel over any strides calls, or nothing.
std::string_view strided_functor(std::string_view function, bool* casts) {
  const auto casting = template_arguments(function, "gpu_kernel_impl");
  const auto plain = template_arguments(function, "gpu_kernel_impl_nocast");
  *casts = plain.empty();
  return !plain.empty() ? plain[0] : !casting.empty() ? casting[0] : "";
}

/// Returns the number of tensors that the lambda of an element-wise kernel holds, or 0. A functor
/// takes one less.
int strided_tensors(std::string_view functor) {
  if (functor.empty()) return 0;
  if (contains(functor, "AUnaryFunctor") || contains(functor, "BUnaryFunctor")) return 2;
  if (contains(functor, "FillFunctor")) return 1;
  if (contains(functor, "BinaryFunctor") || contains(functor, "CUDAFunctor_add") ||
      contains(functor, "CompareEq") || contains(functor, "CompareFunctor")) {
    return 3;
  }
  constexpr std::string_view kLambda = "{lambda(";
  const std::size_t lambda = functor.rfind(kLambda);
  if (lambda == std::string_view::npos) return 0;
  const std::size_t open = lambda + kLambda.size() - 1;
  const std::size_t end = skip_brackets(functor, open);
  if (end == std::string_view::npos) return 0;
  return 1 + static_cast<int>(split_list(functor.substr(open + 1, end - open - 2)).size());
}

/// Where a strided kernel's lambda holds the functor: behind the addresses.
const std::byte* functor_of(const Strided& strided, const gpemu_cuda_launch& launch) {
  const auto tensors = static_cast<Bytes>(strided.tensors);
  const Bytes functor_at =
      (4 + kMostDimensions * (kDividerBytes + 4 * tensors) + 7) / 8 * 8 + tensors * 8;
  return static_cast<const std::byte*>(launch.arguments[1]) + functor_at;
}

/// Has a strided kernel computed: behind the functor come, where the kernel converts, the tensors'
/// types. Source: gpu_kernel_impl in CUDALoops.cuh.
void compute_strided(const KernelEffect& effect, const std::byte* functor, const Strided& strided,
                     KernelWork* work) {
  const Formula& formula = *effect.formula;
  std::array<NumberType, 4> types = types_of(formula);
  if (effect.casts) {
    const std::byte* const stored = functor + formula.functor_bytes;
    if (!read_types(effect, stored + 1, stored, &types)) return;
  }
  ElementWork elements{.formula = formula, .state = read_functor(formula, functor), .tensors = {}};
  for (int i = 0; i < strided.tensors && i < 4; ++i) {
    TensorView& view = elements.tensors[static_cast<std::size_t>(i)];
    view.address = strided.addresses[static_cast<std::size_t>(i)];
    view.type = types[static_cast<std::size_t>(i)];
    view.places.dimensions = strided.dimensions;
    for (int j = 0; j < strided.dimensions; ++j) {
      view.places.sizes[static_cast<std::size_t>(j)] = strided.size(j);
      if (static_cast<std::int32_t>(strided.stride(j, i)) < 0) return;
      view.places.strides[static_cast<std::size_t>(j)] = strided.stride(j, i);
    }
  }
  add_computation(std::move(elements), work);
}

void describe_strided(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                      KernelWork* work) {
  Strided strided;
  int tensors = effect.tensors;
  bool known = tensors > 0 && read_strided(launch.arguments[1], tensors, &strided);
  for (int i = kMaxTensors - 1; !known && i > 0; --i) {
    known = read_strided(launch.arguments[1], i, &strided);
    tensors = i;
  }
  if (!known) return;
  const bool has_formula = effect.formula && tensors == effect.tensors;
  const std::byte* const functor = functor_of(strided, launch);
  // Flipped dimensions have negative strides: the first element is not the lowest.
  Bytes extent = effect.element_bytes, before = 0;
  if (effect.casts && has_formula) extent = stored_bytes(functor + effect.formula->functor_bytes);
  for (int i = 0; i < strided.dimensions; ++i) {
    const Bytes steps = std::max<Bytes>(strided.size(i), 1) - 1;
    const auto stride = static_cast<std::int32_t>(strided.stride(i, 0));
    (stride < 0 ? before : extent) += steps * static_cast<Bytes>(std::abs(std::int64_t{stride}));
  }
  add_range(work, strided.addresses[0] - before, before + extent,
            how_written(effect, strided.addresses.data(), tensors, 0));
  if (effect.unscales && tensors == effect.tensors) {
    add_range(work, read<std::uint64_t>(functor), 4, Uncomputed::kUpdated);
  }
  if (has_formula) compute_strided(effect, functor, strided, work);
}

KernelEffect strided_effect(std::string_view function) {
  KernelEffect effect{.kind = Kind::kStrided, .parameters = {}};
  const std::string_view functor = strided_functor(function, &effect.casts);
  effect.element_bytes = result_bytes(functor.empty() ? function : functor);
  effect.tensors = strided_tensors(functor);
  effect.unscales = contains(functor, kUnscale);
  effect.formula = read_formula(functor);
  if (effect.casts) effect.element_bytes = 16;
  if (!effect.formula) return effect;
  effect.tensors = effect.formula->tensors + 1;
  if (!effect.casts) {
    effect.element_bytes = static_cast<std::uint32_t>(number_bytes(effect.formula->result));
  }
  return effect;
}

// ---- Reductions

/// Has a reduction computed, whose configuration begins at `config`. Behind the addresses come
/// those of three buffers, the place of the first element and two flags: whether the result is
/// added to what is there, and is final. Source: as describe_reduction.
void compute_from(const KernelEffect& effect, const std::byte* argument, Bytes config,
                  KernelWork* work) {
  constexpr Bytes kConfigBytes = 64, kInputBytes = 4 + 25 * 12 + 25 * 4;
  constexpr Bytes kOutputBytes = 4 + 25 * 12 + 25 * 8;
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
  const auto all = static_cast<Bytes>(std::max(read<std::int32_t>(argument, config + 4), 0));
  const auto count = static_cast<Bytes>(std::max(read<std::int32_t>(argument, config + 8), 0));
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
  work->compute = [reduction] { return compute_reduction(reduction); };
}

/// The one argument holds, after two small members, the configuration, two calculators of offsets
/// for up to 25 dimensions, the input's address and those of the results. Source: struct ReduceOp
/// and ReduceConfig in PyTorch's Reduce.cuh, OffsetCalculator.cuh.
void describe_reduction(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                        KernelWork* work) {
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
    const Bytes source = (offset + kConfigBytes + kCalculatorBytes + 7) / 8 * 8;
    // Where a block is one thread, other members look like it.
    if (device_bytes_at(read<std::uint64_t>(argument, source), 1) == 0 ||
        device_bytes_at(read<std::uint64_t>(argument, source + 8), 1) == 0) {
      continue;
    }
    const Uncomputed how =
        effect.reduction == Reduction::kUnknown ? Uncomputed::kOpen : Uncomputed::kWritten;
    add_range(work, read<std::uint64_t>(argument, source + 8), count * effect.element_bytes, how);
    // The second result, of minima with their places, is one of indices. Where the number of
    // results is 1, nobody has set its address.
    if (read<std::int32_t>(argument, source + 60) == 2) {
      add_range(work, read<std::uint64_t>(argument, source + 16), count * 8, how);
    }
    if (effect.reduction != Reduction::kUnknown) {
      compute_from(effect, static_cast<const std::byte*>(argument), offset, work);
    }
    return;
  }
}

KernelEffect reduction_effect(const KernelName& name) {
  // ReduceOp<scalar, operation, index, result, values a thread reads, ...>.
  const auto arguments = template_arguments(name.function, "ReduceOp");
  const std::uint32_t bytes = arguments.size() > 3 ? type_bytes(arguments[3]) : 0;
  KernelEffect effect{
      .kind = Kind::kReduction, .element_bytes = bytes == 0 ? 8 : bytes, .parameters = {}};
  if (arguments.size() > 3) {
    effect.reduction = read_reduction(arguments[1]);
    effect.input_type = number_type(arguments[0]);
    effect.output_type = number_type(arguments[3]);
  }
  return effect;
}

// ---- Lists of tensors

/// How many tensors and blocks one launch takes at most, by the number of lists; where each tensor
/// has a scalar, too, fewer. Source: MultiTensorApply.cuh.
constexpr std::array<Bytes, 5> kMostTensors = {110, 64, 48, 36, 30};
constexpr std::array<Bytes, 5> kMostWithScalars = {96, 64, 48, 36, 30};
constexpr std::array<Bytes, 2> kMostWithComplexScalars = {72, 60};
constexpr Bytes kMostBlocks = 320;

/// As many times more has a kernel with CUDA 13, whose parameters are larger than kMostParameters.
constexpr Bytes kWideLists = 7;
constexpr Bytes kMostParameters = 4096;

/// Whether lists are wide: some versions' names say it, else the size does. Takes that of the name
/// from its template arguments.
bool are_wide(const FindCode& find_code, std::vector<std::string_view>* lists) {
  if (!lists->empty() && (lists->back() == "true" || lists->back() == "false")) {
    const bool wide = lists->back() == "true";
    lists->pop_back();
    return wide;
  }
  if (!find_code) return false;
  const auto places = find_code().places;
  return !places.empty() && places[0].bytes > kMostParameters;
}

/// The functor is a template of the type, the lists, those that are read, and the one written.
KernelEffect lists_effect(const KernelName& name, const FindCode& find_code) {
  auto lists = template_arguments(name.parameters[0], "ListMetadata");
  KernelEffect effect{.kind = Kind::kMultiTensor, .in_place = true, .parameters = {}};
  effect.wide = are_wide(find_code, &lists);
  const Bytes times = effect.wide ? kWideLists : 1;
  effect.tensors = lists.empty() ? 0 : number_in(lists.back());
  if (effect.tensors < 1 || effect.tensors > static_cast<int>(kMostTensors.size())) return {};
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
  // What is stored is of the first type.
  if (!arguments.empty() && type_bytes(arguments[0]) != 0) {
    effect.element_bytes = type_bytes(arguments[0]);
    effect.input_type = number_type(arguments[0]);
  }
  // Norms go to a buffer of the kernel's own.
  if (contains(name.parameters[1], "::Lp")) effect.outputs = 0;
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

void describe_lists(const KernelEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work) {
  const auto* const lists = static_cast<const std::byte*>(launch.arguments[0]);
  const auto depth = static_cast<Bytes>(effect.tensors);
  const Bytes most = effect.most_tensors;
  const std::byte* const counts = lists + depth * most * 8;
  const std::byte* const of_blocks = counts + most * 8 + effect.before_blocks;
  Bytes tensors = 0;
  const Bytes most_blocks = kMostBlocks * (effect.wide ? kWideLists : 1);
  for (Bytes block = 0; block < std::min<Bytes>(launch.grid[0], most_blocks); ++block) {
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
  if (effect.unscales) describe_unscale(launch.arguments[2], effect.input_type, work);
}

// ---- Other kernels

/// Kernels that change some of their parameters in place: weights and statistics stay what they
/// were copied as. Source: the kernels' signatures in PyTorch's native/cuda.
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

/// Describes a parameter by its type. Returns false where it leads to no memory that is written.
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

/// PyTorch compiles some element-wise kernels at run time: the number of elements, then an array of
/// the tensors' addresses, the result first. Source: jit_vectorized_code_template in jit_utils.cpp.
KernelEffect jitted_effect(std::string_view name, const FindCode& find_code) {
  if (!find_code || !name.ends_with("_kernel")) return {};
  const auto places = find_code().places;
  // Of the one for strides, calculators of offsets and what loads and stores follow.
  constexpr std::size_t kStridedParameters = 7;
  if (!contains(name, "_vectorized") && places.size() < kStridedParameters) return {};
  if (places.size() < 2 || places[0].bytes != 4 || places[1].bytes % 8 != 0) return {};
  const Bytes tensors = places[1].bytes / 8;
  if (tensors < 1 || tensors > Bytes{kMaxTensors}) return {};
  return {.kind = Kind::kElements,
          .element_bytes = 8,
          .tensors = static_cast<int>(tensors),
          .addresses_at = 1,
          .parameters = {}};
}

/// Of a kernel whose text is known.
KernelEffect text_effect(const PtxFacts& facts) {
  KernelEffect effect{.kind = Kind::kParameters, .integers = facts.integers, .parameters = {}};
  for (const WrittenParameter& written : facts.written) {
    effect.parameters.push_back({.how = written.updates ? Uncomputed::kUpdated : Uncomputed::kOpen,
                                 .argument = written.argument,
                                 .element_bytes = written.element_bytes,
                                 .bytes_of_thread = written.bytes_of_thread,
                                 .in_loop = written.in_loop});
  }
  effect.read_pointers = facts.read;
  if (effect.parameters.empty()) effect.kind = Kind::kNone;
  return effect;
}

KernelEffect parameters_effect(const KernelName& name, const FindCode& find_code) {
  KernelEffect effect{.kind = Kind::kParameters, .parameters = {}};
  std::vector<ParameterPlace> places;
  const bool open = std::ranges::any_of(name.parameters, [](const std::string& type) {
    return !type.ends_with('*') && !is_scalar(type);
  });
  if ((open || !name.is_cpp) && find_code) {
    const CodeFacts facts = find_code();
    if (const auto ptx = read_ptx(facts.ptx, name.mangled)) return text_effect(*ptx);
    places = facts.places;
  }
  // Numba mangles Python's arguments, each of which is several parameters of the kernel.
  const bool named = name.is_cpp && (places.empty() || places.size() == name.parameters.size());
  const std::size_t count = named ? name.parameters.size() : places.size();
  for (std::size_t i = 0; i < count; ++i) {
    Parameter parameter{.argument = static_cast<std::uint32_t>(i)};
    if (named && (name.parameters[i] == "int" || name.parameters[i] == "unsigned int")) {
      effect.integers.push_back(parameter.argument);
    }
    const ParameterPlace* const place = i < places.size() ? &places[i] : nullptr;
    // Of other languages' kernels only the sizes are known: what fills a word may be an address.
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
  if (effect.parameters.empty()) effect.kind = Kind::kNone;
  return effect;
}

// ---- What is not zero

/// The type that PyTorch's nonzero compares with zero, or kUnknown.
NumberType nonzero_type(std::string_view function) {
  const auto arguments = template_arguments(function, "::NonZeroOp");
  return arguments.size() == 1 ? number_type(arguments[0]) : NumberType::kUnknown;
}

/// Recognises two kernels of CUB as PyTorch launches them. Source: Nonzero.cu; the kernels'
/// parameters in CUB's dispatch_reduce.cuh and dispatch_select_if.cuh.
KernelEffect nonzero_effect(const KernelName& name) {
  KernelEffect effect{.parameters = {}};
  effect.input_type = nonzero_type(name.function);
  if (effect.input_type == NumberType::kUnknown) return effect;
  const std::string_view function = name.function;
  effect.address_first = contains(function, "::transform_iterator<at::native::NonZeroOp<") ||
                         contains(function, "transform_iterator<at::native::(anonymous");
  const auto width = [&name](std::size_t at) {
    return static_cast<std::uint8_t>(type_bytes(name.parameters[at]));
  };
  if (contains(function, "DeviceReduceSingleTileKernel<") && name.parameters.size() > 3 &&
      name.parameters[1] == "int*") {
    effect.kind = Kind::kCountNonzero;
    effect.count_bytes = width(2);
  } else if (contains(function, "DeviceSelectSweepKernel<") && name.parameters.size() > 8 &&
             name.parameters[2] == "long*" && name.parameters[3] == "int*") {
    effect.kind = Kind::kFindNonzero;
    effect.count_bytes = width(7);
  }
  if (effect.count_bytes != 4 && effect.count_bytes != 8) effect.kind = Kind::kNone;
  return effect;
}

/// Reads elements of a type and finds out which are not zero; nothing where they are not known.
std::optional<std::vector<std::int64_t>> find_nonzero(std::uint64_t address, NumberType type,
                                                      Bytes count) {
  const Bytes width = number_bytes(type);
  std::vector<std::byte> bytes(count * width);
  if (count > 0 && !load_for_kernel(address, bytes.data(), bytes.size())) return std::nullopt;
  std::vector<std::int64_t> places;
  for (Bytes i = 0; i < count; ++i) {
    const Number number = load_number(&bytes[i * width], type);
    if (number.real != 0 || number.whole != 0) places.push_back(static_cast<std::int64_t>(i));
  }
  return places;
}

bool store_nonzero(std::uint64_t input, NumberType type, Bytes count, std::uint64_t number_to,
                   std::uint64_t places_to) {
  const auto places = find_nonzero(input, type, count);
  if (!places) return false;
  const auto number = static_cast<std::int32_t>(places->size());
  store_by_kernel(number_to, &number, sizeof(number));
  if (places_to != 0 && number > 0) {
    store_by_kernel(places_to, places->data(), places->size() * sizeof(std::int64_t));
  }
  return true;
}

void describe_nonzero(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                      KernelWork* work) {
  const bool finds = effect.kind == Kind::kFindNonzero;
  void* const* const arguments = launch.arguments;
  const void* const counted = arguments[finds ? 7 : 2];
  const std::int64_t count =
      effect.count_bytes == 4 ? read<std::int32_t>(counted) : read<std::int64_t>(counted);
  // CUB's iterator holds an operator without members, then the address; thrust's the address first.
  const auto input = read<std::uint64_t>(arguments[finds ? 1 : 0], effect.address_first ? 0 : 8);
  const auto number_to = read<std::uint64_t>(arguments[finds ? 3 : 1]);
  const auto places_to = finds ? read<std::uint64_t>(arguments[2]) : 0;
  add_range(work, number_to, 4, Uncomputed::kWritten);
  add_range(work, places_to, 8, Uncomputed::kOpen);
  if (count < 0 || count > kMostElements) return;
  const auto elements = static_cast<Bytes>(count);
  const NumberType type = effect.input_type;
  work->reads.push_back({.start = input, .bytes = elements * number_bytes(type), .writes = false});
  work->compute = [=] { return store_nonzero(input, type, elements, number_to, places_to); };
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

/// The integers among the parameters of 4 bytes that sizes may be.
std::vector<Bytes> integers_of(const KernelEffect& effect, const gpemu_cuda_launch& launch) {
  constexpr std::int32_t kMost = 1 << 24;
  std::vector<Bytes> integers;
  for (const std::uint32_t argument : effect.integers) {
    const auto value = read<std::int32_t>(launch.arguments[argument]);
    if (value > 0 && value < kMost) integers.push_back(static_cast<Bytes>(value));
  }
  return integers;
}

/// Matrices whose addresses are known: as many as the grid or the last integer says, each no larger
/// than the product of the two largest integers.
void describe_pointers(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                       const Parameter& parameter, std::uint64_t array, KernelWork* work) {
  constexpr Bytes kMost = Bytes{1} << 16;
  std::vector<Bytes> integers = integers_of(effect, launch);
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

/// How far a kernel whose text is known writes at most: what all its threads write, but no more
/// than the product of its integers, which are sizes, for each block; in loops the product of the
/// two largest.
Bytes written_bytes(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                    const Parameter& parameter) {
  constexpr Bytes kMost = Bytes{1} << 40;
  std::vector<Bytes> integers = integers_of(effect, launch);
  std::ranges::sort(integers, std::greater());
  if (parameter.in_loop && integers.size() > 2) integers.resize(2);
  Bytes elements = 1;
  for (const Bytes integer : integers) elements = std::min(kMost, elements * integer);
  for (const std::uint32_t blocks : launch.grid) elements = std::min(kMost, elements * blocks);
  const Bytes of_threads = threads_of(launch) * parameter.bytes_of_thread;
  const Bytes of_sizes = elements * parameter.element_bytes;
  if (integers.empty()) return of_threads;
  return parameter.in_loop ? std::max(of_threads, of_sizes) : std::min(of_threads, of_sizes);
}

/// A pointer of a kernel whose text is known. What begins there is new, unless it is read as well.
/// Of torch.compile's reductions the first integer counts the results: what lies behind these may
/// have been written or belong to others, so it stays and counts as not updated.
void describe_written(const KernelEffect& effect, const gpemu_cuda_launch& launch,
                      const Parameter& parameter, std::uint64_t address, KernelWork* work) {
  const Bytes most = written_bytes(effect, launch, parameter);
  const bool is_read = std::ranges::any_of(effect.read_pointers, [&](std::uint32_t argument) {
    return read<std::uint64_t>(launch.arguments[argument]) == address;
  });
  if (is_read || parameter.how == Uncomputed::kUpdated) {
    return add_range(work, address, most, Uncomputed::kUpdated);
  }
  const std::vector<Bytes> integers = integers_of(effect, launch);
  const Bytes least =
      integers.empty() ? most : std::min(most, integers.front() * parameter.element_bytes);
  add_range(work, address, most, Uncomputed::kUpdated);
  add_range(work, address, least, Uncomputed::kOpen);
}

void describe_parameters(const KernelEffect& effect, const gpemu_cuda_launch& launch,
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
        if (parameter.bytes_of_thread > 0) {
          describe_written(effect, launch, parameter, read<std::uint64_t>(from), work);
          break;
        }
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
  // What is taken to reach into another parameter's memory must not hide where that begins.
  std::ranges::stable_sort(work->ranges, {}, &KernelWork::Range::address);
}

}  // namespace

KernelEffect kernel_effect(std::string_view mangled_name, const FindCode& find_code) {
  const KernelName name = read_kernel_name(mangled_name);
  const std::string_view function = name.function;
  KernelEffect effect;
  const bool pytorch = function.starts_with("at::native::");
  if (pytorch && name.parameters.size() >= 3 &&
      (contains(function, "vectorized_elementwise_kernel") ||
       contains(function, "unrolled_elementwise_kernel"))) {
    effect = elements_effect(name);
  } else if (function.starts_with("at::native::elementwise_kernel<") &&
             name.parameters.size() == 2) {
    effect = strided_effect(function);
  } else if (function.starts_with("at::native::reduce_kernel<")) {
    effect = reduction_effect(name);
  } else if (pytorch && contains(function, "multi_tensor_apply_kernel") &&
             !name.parameters.empty()) {
    effect = lists_effect(name, find_code);
  } else if (const Motion motion = read_motion(name); motion != Motion::kNone) {
    effect = parameters_effect(name, find_code);
    KernelEffect moved = effect;
    moved.kind = Kind::kMotion;
    moved.motion = motion;
    moved.tensors = static_cast<int>(name.parameters.size());
    if (read_motion_types(name, &moved)) effect = moved;
  } else if (contains(function, "NonZeroOp<")) {
    effect = nonzero_effect(name);
    if (effect.kind == Kind::kNone) effect = parameters_effect(name, find_code);
  } else if (!mangled_name.empty()) {
    if (!name.is_cpp) effect = jitted_effect(mangled_name, find_code);
    if (effect.kind == Kind::kNone) effect = parameters_effect(name, find_code);
  }
  if (effect.kind != Kind::kNone) effect.writer = writer_id(mangled_name);
  return effect;
}

void describe_work(const KernelEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work) {
  work->writer = effect.writer;
  work->ranges.clear();
  work->compute = nullptr;
  work->reads.clear();
  work->fill_address = 0;
  if (effect.kind == Kind::kNone || launch.arguments == nullptr) return;
  switch (effect.kind) {
    case Kind::kFill:
    case Kind::kElements:
      return describe_elements(effect, launch.arguments, work);
    case Kind::kStrided:
      return describe_strided(effect, launch, work);
    case Kind::kReduction:
      return describe_reduction(effect, launch, work);
    case Kind::kMultiTensor:
      return describe_lists(effect, launch, work);
    case Kind::kMotion:
      if (describe_motion(effect, launch, work)) return;
      [[fallthrough]];
    case Kind::kParameters:
      return describe_parameters(effect, launch, work);
    case Kind::kCountNonzero:
    case Kind::kFindNonzero:
      return describe_nonzero(effect, launch, work);
    case Kind::kNone:
      break;
  }
}

KernelWork work_on_anything(WriterId writer) {
  KernelWork work;
  work.writer = writer;
  work.reads.push_back({.start = 0, .bytes = ~Bytes{0}, .writes = true});
  return work;
}

void perform_now(const KernelWork& work) {
  if (work.compute && work.compute()) return;
  for (const KernelWork::Range& range : work.ranges) {
    leave_uncomputed(range.address, range.bytes, range.how, work.writer);
  }
  if (work.fill_address != 0) {
    fill_by_kernel(work.fill_address, work.fill_value.data(), work.fill_value.size(),
                   work.fill_count, work.writer);
  }
}

void perform(const KernelWork& work) {
  if (!mover().busy()) return perform_now(work);
  std::vector<Access> accesses = work.reads;
  for (const KernelWork::Range& range : work.ranges) {
    accesses.push_back({.start = range.address, .bytes = range.bytes, .writes = true});
  }
  if (work.fill_address != 0) {
    accesses.push_back({.start = work.fill_address,
                        .bytes = work.fill_value.size() * work.fill_count,
                        .writes = true});
  }
  mover().in_order(accesses, [work] { perform_now(work); });
}

void perform_launch(const KernelEffect& effect, const gpemu_cuda_launch& launch) {
  if (effect.kind == Kind::kNone || launch.arguments == nullptr) return;
  if (leave_elements(effect, launch.arguments)) return;
  thread_local KernelWork work;  // Its memory is used again.
  work.at_once = !mover().busy();
  describe_work(effect, launch, &work);
  perform(work);
}

}  // namespace gpemu::cuda
