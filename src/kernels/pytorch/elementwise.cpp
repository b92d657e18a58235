// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/elementwise.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/pytorch/offsets.hpp"
#include "gpemu/kernels/pytorch/tensor_work.hpp"

#include "pytorch/unscale.hpp"

namespace gpemu::kernels {
namespace {

constexpr int kMaxTensors = 8;

/// Parts of the names of functors whose results have other types than their arguments. Source: the
/// kernels in PyTorch's native/cuda.
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
  if (is_in("batch_norm_calc_invstd")) return std::max(bytes, 4U);  // The type that sums have.
  return std::ranges::any_of(kComplexFunctors, is_in) ? 2 * bytes : bytes;
}

/// Tensors changed in place, such as weights, keep the values that were copied.
Uncomputed how_written(const std::uint64_t* tensors, int count, int outputs, int output) {
  for (int i = outputs; i < count; ++i) {
    if (tensors[i] == tensors[output]) return Uncomputed::kUpdated;
  }
  return Uncomputed::kWritten;
}

/// Returns the sizes of the elements of three results. Source: frexp_kernel_cuda and
/// fake_quantize_tensor_cachemask_kernel_cuda, whose second results are int and bool;
/// batch_norm_update_stats and batch_norm_update_stats_and_invert, which take two numbers of the
/// type of the third result, and two of that of the others.
std::array<std::uint32_t, 3> result_sizes(std::string_view functor) {
  const std::uint32_t widest = result_bytes(functor);
  if (contains(functor, "frexp")) return {widest, 4, 4};
  if (contains(functor, "cachemask")) return {widest, 1, 1};
  if (contains(functor, "batch_norm_update_stats")) {
    const std::uint32_t own = type_bytes(functor_types(functor).back());
    return {own, own, widest};
  }
  return {widest, widest, widest};
}

/// Reads the types of tensors in memory if the kernel converts them: the loader's and the storer's
/// first members. Source: LoadWithCast and StoreWithCast in MemoryAccess.cuh.
bool read_types(int tensors, const void* loader, const void* storer,
                std::array<NumberType, 4>* types) {
  for (int i = 0; i < tensors && i < 4; ++i) {
    const auto type =
        i == 0 ? read<std::int8_t>(storer) : read<std::int8_t>(loader, static_cast<Bytes>(i) - 1);
    (*types)[static_cast<std::size_t>(i)] = static_cast<NumberType>(type);
    if (number_bytes(static_cast<NumberType>(type)) == 0) return false;
  }
  return true;
}

/// Returns the size of the elements that a storer writes, by the type's number in PyTorch, its
/// first member; the largest size if the number is not known. Source: c10/core/ScalarType.h.
Bytes stored_bytes(const void* storer, int output = 0) {
  constexpr std::array<std::uint8_t, 30> kBytes = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                                                   2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1,  1, 2, 4, 8};
  const auto type = read<std::uint8_t>(storer, static_cast<Bytes>(output));
  return type < kBytes.size() ? kBytes.at(type) : 16;
}

/// Adds the computation of the values, if it is possible.
void add_computation(const ElementWork& elements, const Memory& memory, KernelWork* work) {
  const TensorView& result = elements.tensors[0];
  const Bytes count = result.places.count();
  if (count == 0 || count > Bytes{kMostElements}) return;
  for (int i = 1; i <= elements.formula.tensors; ++i) {
    const TensorView& tensor = elements.tensors[static_cast<std::size_t>(i)];
    const Bytes bytes = tensor.places.extent() + number_bytes(tensor.type);
    if (work->at_once && !memory.is_known(tensor.address, bytes)) return work->reads.clear();
    work->reads.push_back({.start = tensor.address, .bytes = bytes, .writes = false});
  }
  work->compute = [elements](Memory& memory) { return compute_elements(elements, memory); };
}

/// The types of the tensors in memory if the kernel converts nothing.
std::array<NumberType, 4> types_of(const Formula& formula) {
  return {formula.result, formula.types[0], formula.types[1], formula.types[2]};
}

void compute_contiguous(const ElementsEffect& effect, const Formula& formula, const Launch& launch,
                        const std::uint64_t* tensors, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const auto count = static_cast<Bytes>(std::max(read<std::int32_t>(arguments[0]), 0));
  std::array<NumberType, 4> types = types_of(formula);
  if (effect.casts && !read_types(effect.tensors, arguments[5], arguments[6], &types)) return;
  if (count > Bytes{kMostElements}) return;
  ElementWork elements{.formula = formula,
                       .state = read_functor(formula, static_cast<const std::byte*>(arguments[1])),
                       .tensors = {}};
  for (int i = 0; i < effect.tensors && i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    elements.tensors[at] = {tensors[i], types[at], in_a_row(count, number_bytes(types[at]))};
  }
  add_computation(elements, launch.memory, work);
}

/// Number and addresses of the elements that a kernel over contiguous tensors works on.
struct Elements {
  Elements(void* const* arguments, int addresses_at, int number)
      : count(static_cast<Bytes>(std::max(read<std::int32_t>(arguments[0]), 0))) {
    std::memcpy(tensors.data(), arguments[addresses_at], static_cast<std::size_t>(number) * 8);
  }

  Bytes count;
  std::array<std::uint64_t, kMaxTensors> tensors{};
};

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
  [[nodiscard]] Places places(int tensor) const {
    return read_places(sizes - 4, static_cast<Bytes>(tensors), static_cast<Bytes>(tensor));
  }
  [[nodiscard]] Bytes stride(int dimension, int tensor) const {
    return read<std::uint32_t>(strides, static_cast<Bytes>(dimension * tensors + tensor) * 4);
  }
};

/// Reads the lambda for `tensors` tensors; returns false if it does not look like one. Source:
/// gpu_kernel_impl_nocast in CUDALoops.cuh; OffsetCalculator.cuh.
bool read_strided(const Launch& launch, int tensors, Strided* strided) {
  const void* const lambda = launch.arguments[1];
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
                     [&launch](std::uint64_t address) { return launch.memory.on_device(address); });
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

/// Returns the functor in a strided kernel's lambda, which comes after the addresses.
const std::byte* functor_of(const Strided& strided, const Launch& launch) {
  const auto tensors = static_cast<Bytes>(strided.tensors);
  const Bytes functor_at =
      (4 + kMostDimensions * (kDividerBytes + 4 * tensors) + 7) / 8 * 8 + tensors * 8;
  return static_cast<const std::byte*>(launch.arguments[1]) + functor_at;
}

/// Adds the computation of a strided kernel. If the kernel converts, the tensors' types come after
/// the functor. Source: gpu_kernel_impl in CUDALoops.cuh.
void compute_strided(const StridedEffect& effect, const Formula& formula, const std::byte* functor,
                     const Strided& strided, const Memory& memory, KernelWork* work) {
  std::array<NumberType, 4> types = types_of(formula);
  if (effect.casts) {
    const std::byte* const stored = functor + formula.functor_bytes;
    if (!read_types(effect.tensors, stored + 1, stored, &types)) return;
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
  add_computation(elements, memory, work);
}

/// Describes a copy that converts nothing. Returns false for other kernels.
bool describe_copy(const StridedEffect& effect, const Formula& formula, const Strided& strided,
                   KernelWork* work) {
  const Bytes width = number_bytes(formula.result);
  if (formula.operation != Operation::kCopy || formula.tensors != 1 || effect.casts || width == 0 ||
      formula.types[0] != formula.result || strided.addresses[0] == strided.addresses[1]) {
    return false;
  }
  PlainMove move{.element_bytes = width,
                 .to = strided.addresses[0],
                 .from = strided.addresses[1],
                 .to_places = {.dimensions = 0},
                 .from_places = {.dimensions = 0}};
  for (int i = 0; i < strided.dimensions; ++i) {
    for (const int tensor : {0, 1}) {
      const auto stride = static_cast<std::int32_t>(strided.stride(i, tensor));
      (tensor == 0 ? move.to_places : move.from_places)
          .add(strided.size(i), static_cast<Bytes>(std::int64_t{stride}));
    }
  }
  return add_plain_moves({move}, work);
}

}  // namespace

std::variant<std::monostate, FillEffect, ElementsEffect> elements_effect(const KernelName& name) {
  // std::array; in PyTorch 2.5, at::detail::Array.
  const auto array = template_arguments(name.parameters[2], "rray");
  const int tensors = array.size() == 2 ? number_in(array[1]) : 0;
  if (tensors < 1 || tensors > kMaxTensors) return {};
  const std::string& functor = name.parameters[1];
  const auto filled = template_arguments(functor, "FillFunctor");
  const bool casts = contains(name.function, "WithCast") || name.parameters.size() > 6;
  if (!filled.empty() && type_bytes(filled[0]) != 0 && !casts) {
    return FillEffect{.element_bytes = type_bytes(filled[0])};
  }
  ElementsEffect effect{.tensors = tensors};
  effect.results_bytes.fill(result_bytes(functor));
  effect.casts = contains(name.function, "LoadWithCast");
  if (contains(name.function, "StoreWithCast")) effect.storer_at = 6;
  constexpr std::size_t kOutputs = 4;
  if (name.parameters.size() > kOutputs && name.parameters[kOutputs].starts_with("OffsetCalc")) {
    effect.places_at = kOutputs;
  }
  effect.formula = read_formula(functor);
  if (effect.formula && effect.formula->tensors != tensors - 1) effect.formula.reset();
  if (effect.formula) {
    effect.results_bytes.fill(static_cast<std::uint32_t>(number_bytes(effect.formula->result)));
  }
  effect.unscales = contains(functor, kUnscale);
  if (effect.unscales) {
    const auto types = functor_types(functor);
    if (types.size() == 1) effect.gradient_type = number_type(types[0]);
  }
  if (contains(name.function, "for_multi_outputs")) {
    effect.formula.reset();
    effect.results_bytes = result_sizes(functor);
    const auto arguments = template_arguments(name.function, "for_multi_outputs");
    effect.outputs = arguments.empty() ? 1 : std::clamp(number_in(arguments[0]), 1, tensors);
  }
  return effect;
}

std::optional<LeftElements> left_elements(const ElementsEffect& effect, const Launch& launch) {
  if (effect.casts || effect.storer_at != 0 || effect.places_at != 0 || effect.unscales) {
    return std::nullopt;
  }
  const Elements elements(launch.arguments, effect.addresses_at, effect.tensors);
  const auto& tensors = elements.tensors;
  if (effect.formula && elements.count <= Bytes{kMostElements}) {
    const auto known = [&, &formula = *effect.formula](int i) {
      const auto at = static_cast<std::size_t>(i);
      return launch.memory.is_known(tensors[at + 1],
                                    elements.count * number_bytes(formula.types[at]));
    };
    int first_unknown = 0;
    while (first_unknown < effect.tensors - 1 && known(first_unknown)) ++first_unknown;
    if (first_unknown == effect.tensors - 1) return std::nullopt;
  }
  LeftElements left;
  for (int i = 0; i < effect.outputs; ++i) {
    const std::uint64_t address = tensors[static_cast<std::size_t>(i)];
    if (address == 0) continue;
    left.ranges.at(static_cast<std::size_t>(left.count++)) = {
        address, elements.count * effect.result_bytes(i),
        how_written(tensors.data(), effect.tensors, effect.outputs, i)};
  }
  return left;
}

void describe_fill(const FillEffect& effect, const Launch& launch, KernelWork* work) {
  const auto [count, tensors] = Elements(launch.arguments, 2, 1);
  const auto* const value = static_cast<const std::byte*>(launch.arguments[1]);
  work->fill_value.assign(value, value + effect.element_bytes);
  work->fill_address = tensors[0];
  work->fill_count = count;
}

namespace {

/// Returns the places of a result's elements; a calculator of offsets counts in elements.
Places places_of_output(const ElementsEffect& effect, const Launch& launch, int output,
                        Bytes width) {
  if (effect.places_at == 0) {
    return in_a_row(static_cast<Bytes>(std::max(read<std::int32_t>(launch.arguments[0]), 0)),
                    width);
  }
  Places places = read_places(static_cast<const std::byte*>(launch.arguments[effect.places_at]),
                              static_cast<Bytes>(effect.outputs), static_cast<Bytes>(output));
  for (Bytes& stride : places.strides) stride *= width;
  return places;
}

/// Returns the size of the elements that a kernel over any strides stores if it converts them: the
/// types of its tensors follow a functor of unknown size, which mostly is empty or has 4 bytes.
Bytes cast_bytes(const std::byte* functor, int tensors, Bytes guess) {
  constexpr Bytes kWord = 8;  // The lambda is aligned so.
  constexpr std::uint8_t kTypes = 30;
  Bytes most = 0;
  for (const Bytes size : {1, 4}) {
    const auto end = size + static_cast<Bytes>(tensors);
    if (end > kWord || !std::all_of(functor + size, functor + end, [](std::byte type) {
          return static_cast<std::uint8_t>(type) < kTypes;
        })) {
      continue;
    }
    most = std::max(most, stored_bytes(functor + size));
  }
  return most > 0 ? most : guess;
}

}  // namespace

void describe_elements(const ElementsEffect& effect, const Launch& launch, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const std::array tensors = Elements(arguments, effect.addresses_at, effect.tensors).tensors;
  for (int i = 0; i < effect.outputs; ++i) {
    const Bytes width = effect.storer_at == 0 ? effect.result_bytes(i)
                                              : stored_bytes(arguments[effect.storer_at], i);
    add_tensor(work, tensors[static_cast<std::size_t>(i)],
               places_of_output(effect, launch, i, width), width,
               how_written(tensors.data(), effect.tensors, effect.outputs, i));
  }
  if (effect.unscales)
    return describe_unscale(arguments[1], effect.gradient_type, launch.memory, work);
  if (effect.formula && effect.places_at == 0)
    compute_contiguous(effect, *effect.formula, launch, tensors.data(), work);
}

bool describe_strided(const StridedEffect& effect, const Launch& launch, KernelWork* work) {
  Strided strided;
  int tensors = effect.tensors;
  bool known = tensors > 0 && read_strided(launch, tensors, &strided);
  for (int i = kMaxTensors - 1; !known && i > 0; --i) {
    known = read_strided(launch, i, &strided);
    tensors = i;
  }
  if (!known) return false;
  const Formula* const formula =
      effect.formula && tensors == effect.tensors ? &*effect.formula : nullptr;
  if (formula != nullptr && describe_copy(effect, *formula, strided, work)) return true;
  const std::byte* const functor = functor_of(strided, launch);
  const Places places = strided.places(0);
  Bytes width = effect.element_bytes;
  if (effect.casts && formula != nullptr) {
    width = stored_bytes(functor + formula->functor_bytes);
  } else if (formula == nullptr) {  // The functor's type is a guess.
    width = std::min(effect.casts ? cast_bytes(functor, tensors, width) : width, places.closest());
  }
  add_tensor(work, strided.addresses[0], places, width,
             how_written(strided.addresses.data(), tensors, 1, 0));
  if (effect.unscales && tensors == effect.tensors) {
    add_range(work, read<std::uint64_t>(functor), 4, Uncomputed::kUpdated);
  }
  if (formula != nullptr) compute_strided(effect, *formula, functor, strided, launch.memory, work);
  return true;
}

StridedEffect strided_effect(std::string_view function) {
  StridedEffect effect;
  const std::string_view functor = strided_functor(function, &effect.casts);
  effect.element_bytes = result_bytes(functor.empty() ? function : functor);
  effect.tensors = strided_tensors(functor);
  effect.unscales = contains(functor, kUnscale);
  effect.formula = read_formula(functor);
  if (!effect.formula) return effect;
  effect.tensors = effect.formula->tensors + 1;
  if (!effect.casts) {
    effect.element_bytes = static_cast<std::uint32_t>(number_bytes(effect.formula->result));
  }
  return effect;
}

namespace {

/// Returns how many elements the name says that a kernel takes as one, or 0 if it takes each alone.
int vector_of(std::string_view jitted_name) {
  constexpr std::string_view kVectorized = "_vectorized";
  const std::size_t at = jitted_name.find(kVectorized);
  return at == std::string_view::npos ? 0 : number_in(jitted_name.substr(at + kVectorized.size()));
}

/// Returns how many of a kernel's tensors it writes: it loads and stores as many elements of each.
int outputs_of(const MemoryAccess& access, int tensors) {
  const Bytes all = access.loaded + access.stored;
  const auto outputs = (static_cast<Bytes>(tensors) * access.stored + all / 2) / all;
  return std::clamp(static_cast<int>(outputs), 1, tensors);
}

/// Returns the size of the elements that a kernel compiled at run time stores. A thread stores 8
/// elements, or 4 in PyTorch 2.5, each by one instruction or, if they are complex, by two; one that
/// takes vectors also has code that stores these whole, 16 bytes at most by one instruction.
/// Source: thread_work_size, jit_vectorized_code_template and jit_code_template in jit_utils.cpp.
std::uint32_t stored_element_bytes(const CodeFacts& facts, int vector, int outputs) {
  constexpr Bytes kWidest = 16;
  const MemoryAccess& access = facts.access;
  const Bytes elements_of_thread = facts.old_pytorch ? 4 : 8;
  const Bytes times = elements_of_thread * static_cast<Bytes>(outputs);
  Bytes bytes = access.widest;
  if (vector > 0) {
    bytes /= static_cast<Bytes>(vector);
    if (access.widest == kWidest) bytes = std::max(bytes, access.stored / (2 * times));
  } else if (access.stored == 2 * times * access.widest && access.widest > 1) {
    bytes *= 2;
  }
  return static_cast<std::uint32_t>(std::max<Bytes>(bytes, 1));
}

}  // namespace

std::optional<ElementsEffect> jitted_effect(std::string_view name, const FindCode& find_code) {
  if (!find_code || !name.ends_with("_kernel")) return std::nullopt;
  const CodeFacts facts = find_code();
  const auto& places = facts.places;
  // In the kernel for strides, calculators of offsets, the loader and the storer follow.
  constexpr std::size_t kStridedParameters = 7;
  const bool vectorized = vector_of(name) > 0;
  if (!vectorized && places.size() < kStridedParameters) return std::nullopt;
  if (places.size() < 2 || places[0].bytes != 4 || places[1].bytes % 8 != 0) return std::nullopt;
  const Bytes tensors = places[1].bytes / 8;
  if (tensors < 1 || tensors > Bytes{kMaxTensors}) return std::nullopt;
  ElementsEffect effect{
      .results_bytes = {8, 8, 8}, .tensors = static_cast<int>(tensors), .addresses_at = 1};
  if (facts.access.known && facts.access.widest > 0) {
    effect.outputs = outputs_of(facts.access, effect.tensors);
    effect.results_bytes.fill(stored_element_bytes(facts, vector_of(name), effect.outputs));
  }
  if (!vectorized) {
    constexpr std::size_t kOutputs = 3, kStorer = 5;
    constexpr Bytes kStorerBytes = 8;  // A type and the size of its elements, for each result.
    if (places[kOutputs].bytes > kDividerBytes) effect.places_at = kOutputs;
    if (places[kStorer].bytes >= kStorerBytes) effect.storer_at = kStorer;
  }
  return effect;
}

}  // namespace gpemu::kernels
