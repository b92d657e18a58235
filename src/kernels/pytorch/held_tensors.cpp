// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/held_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/element_count.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/places.hpp"
#include "gpemu/kernels/pytorch/formula.hpp"
#include "gpemu/kernels/pytorch/offsets.hpp"

#include "pytorch/attention_memory.hpp"

namespace gpemu::kernels {
namespace {

/// A calculator that counts in elements; the places are in bytes.
Places element_places(const void* calculator, Bytes tensors, Bytes tensor, Bytes element_bytes) {
  Places places = read_places(static_cast<const std::byte*>(calculator), tensors, tensor);
  for (Bytes& stride : places.strides) stride *= element_bytes;
  return places;
}

/// The number of elements, the state of the generator, a functor, then the lambda: the address and
/// the distance of the elements in bytes, or a calculator of offsets and the address. Source:
/// distribution_nullary_kernel in DistributionTemplates.h.
void describe_random(const HeldEffect& effect, void* const* arguments, KernelWork* work) {
  const void* const lambda = arguments[3];
  const std::int64_t elements =
      effect.count_bytes == 4 ? read<std::int32_t>(arguments[0]) : read<std::int64_t>(arguments[0]);
  const auto count = static_cast<Bytes>(std::max<std::int64_t>(elements, 0));
  if (effect.strided) {
    return add_tensor(work, read<std::uint64_t>(lambda, align(calculator_bytes(1))),
                      read_places(static_cast<const std::byte*>(lambda), 1, 0),
                      effect.element_bytes, Uncomputed::kWritten);
  }
  const auto stride = static_cast<Bytes>(std::int64_t{read<std::int32_t>(lambda, 8)});
  add_tensor(work, read<std::uint64_t>(lambda), in_a_row(count, stride), effect.element_bytes,
             Uncomputed::kWritten);
}

/// The number of elements, then the lambda. Source: _compute_linear_combination_internal_kernel,
/// _unfold_backward_internal_kernel, unpack_pivots_cuda_kernel, whose lambda has the length of a
/// row after two addresses.
void describe_lambda(const HeldEffect& effect, void* const* arguments, KernelWork* work) {
  const void* const lambda = arguments[1];
  const Bytes addresses = align(calculator_bytes(effect.tensors));
  Places places = read_places(static_cast<const std::byte*>(lambda), effect.tensors, 0);
  Uncomputed how = Uncomputed::kWritten;
  if (effect.kind == HeldBy::kPivots) {
    const auto length = read<std::int64_t>(lambda, addresses + 16);
    places.add(static_cast<Bytes>(std::max<std::int64_t>(length, 0)), effect.element_bytes);
    how = Uncomputed::kUpdated;
  }
  add_tensor(work, read<std::uint64_t>(lambda, addresses), places, effect.element_bytes, how);
}

/// The number of elements, the result, two inputs, a calculator in elements, the result's stride.
/// Source: cross_kernel in CrossKernel.cu.
void describe_cross(const HeldEffect& effect, void* const* arguments, bool wide, KernelWork* work) {
  constexpr Bytes kParts = 3;
  Places places = element_places(arguments[4], 3, 0, effect.element_bytes);
  const std::int64_t stride =
      wide ? read<std::int64_t>(arguments[5]) : read<std::int32_t>(arguments[5]);
  places.add(kParts, static_cast<Bytes>(stride) * effect.element_bytes);
  add_tensor(work, read<std::uint64_t>(arguments[1]), places, effect.element_bytes,
             Uncomputed::kWritten);
}

/// As in a cross product, with the distance of the second half in bytes. Source:
/// glu_backward_kernel in ActivationGluKernel.cu.
void describe_gated(const HeldEffect& effect, void* const* arguments, KernelWork* work) {
  Places places = element_places(arguments[4], 3, 0, effect.element_bytes);
  places.add(2, static_cast<Bytes>(read<std::int64_t>(arguments[5])));
  add_tensor(work, read<std::uint64_t>(arguments[1]), places, effect.element_bytes,
             Uncomputed::kWritten);
}

/// The number of elements, the result, the input, its calculator, then a calculator of the result:
/// the number of dimensions, 25 sizes and 25 strides, in elements; of 64 bits, or in PyTorch 2.15
/// of 32 with dividers for the sizes. Source: HermitianSymmetryOffsetCalculator in SpectralOps.cu.
void describe_conjugate(const HeldEffect& effect, void* const* arguments, KernelWork* work) {
  const void* const calculator = arguments[4];
  const bool narrow = effect.count_bytes == 4;
  const Bytes first = narrow ? 4 : 8, apart = narrow ? Bytes{kDividerBytes} : 8;
  const Bytes strides = first + Bytes{kMostDimensions} * apart;
  const auto number = [&](Bytes offset) {
    return static_cast<Bytes>(narrow ? std::int64_t{read<std::int32_t>(calculator, offset)}
                                     : read<std::int64_t>(calculator, offset));
  };
  Places places{.dimensions = 0};
  const int dimensions = std::clamp(read<std::int32_t>(calculator), 0, kMostDimensions);
  for (Bytes i = 0; i < static_cast<Bytes>(dimensions); ++i) {
    places.add(number(first + i * apart), number(strides + i * first) * effect.element_bytes);
  }
  add_tensor(work, read<std::uint64_t>(arguments[1]), places, effect.element_bytes,
             Uncomputed::kWritten);
}

/// The target, whose indexed dimension has the size 1, the source, the indices, the target's
/// dimension; after some sizes, that dimension's size. Source: indexFuncSmallIndex and
/// indexFuncLargeIndex in Indexing.cu.
void describe_indexed(const HeldEffect& effect, const Launch& launch, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const TensorInfo target = read_tensor_info(arguments[0]);
  const auto dimension = static_cast<std::size_t>(read<std::int32_t>(arguments[3]));
  if (dimension >= static_cast<std::size_t>(kMostDimensions)) return;
  Places places = target.places(effect.element_bytes);
  const auto size = read<std::int64_t>(arguments[effect.address_at]);
  if (places.dimensions < kMostDimensions) {
    places.add(static_cast<Bytes>(std::max<std::int64_t>(size, 0)),
               target.strides[dimension] * Bytes{effect.element_bytes});
  }
  add_tensor(work, target.address, places, effect.element_bytes, Uncomputed::kUpdated);
  const TensorInfo indices = read_tensor_info(arguments[2]);
  if (indices.dimensions != 1 || !launch.memory.on_device(indices.address)) return;
  add_check(work, {.address = indices.address,
                   .type = effect.index_type,
                   .places = indices.places(number_bytes(effect.index_type)),
                   .size = size,
                   .ignored = {}});
}

/// The number's address, then a text of at most 256 characters. Source: _assert_async_cuda_kernel
/// in TensorCompare.cu.
void describe_assert(const HeldEffect& effect, void* const* arguments, KernelWork* work) {
  constexpr std::size_t kMostCharacters = 256;
  const auto* const text = static_cast<const char*>(arguments[1]);
  const std::string message(text, ::strnlen(text, kMostCharacters));
  add_check(work, {.address = read<std::uint64_t>(arguments[0]),
                   .type = effect.index_type,
                   .places = in_a_row(1, number_bytes(effect.index_type)),
                   .ignored = {},
                   .message = message.empty() ? "a value is zero" : message});
}

/// Partial results, then the addresses, one for each block. Source: lpnorm_cleanup in
/// ForeachReduceOp.cu.
void describe_norms(const HeldEffect& effect, const Launch& launch, KernelWork* work) {
  for (Bytes i = 0; i < launch.grid[0]; ++i) {
    add_range(work, read<std::uint64_t>(launch.arguments[1], i * 8), effect.element_bytes,
              Uncomputed::kWritten);
  }
}

/// The number of elements, the address of the number of those that are true, the values, the
/// counts: one or two of each. Source: unique_bool_write_output in UniqueCub.cu.
void describe_unique_bool(const Launch& launch, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const auto all = read<std::int32_t>(arguments[0]);
  std::int32_t are_true = 0;
  static_cast<void>(launch.memory.load(read<std::uint64_t>(arguments[1]), &are_true, 4));
  const Bytes values = are_true > 0 && are_true < all ? 2 : 1;
  add_range(work, read<std::uint64_t>(arguments[2]), values, Uncomputed::kWritten);
  add_range(work, read<std::uint64_t>(arguments[3]), values * 8, Uncomputed::kWritten);
}

/// The number of elements, then the functor. Source: static_kernel in dispatch_for.cuh of CUB.
void describe_thrust(const HeldEffect& effect, void* const* arguments, KernelWork* work) {
  const auto count = read<std::int64_t>(arguments[0]);
  if (count <= 0) return;
  add_range(work, read<std::uint64_t>(arguments[1], effect.address_at),
            static_cast<Bytes>(count) * effect.element_bytes, Uncomputed::kWritten);
}

/// The array of addresses, the matrix or the array of matrices, the elements of a column, a row and
/// a column, and the elements of a matrix. A block computes one address. Source: magma_iset_pointer
/// and magma_idisplace_pointers in set_pointer.cu and idisplace_pointers.cu of MAGMA.
void describe_pointers_of(const HeldEffect& effect, const Launch& launch, KernelWork* work) {
  constexpr Bytes kMost = Bytes{1} << 16;
  void* const* const arguments = launch.arguments;
  const bool displaces = effect.kind == HeldBy::kDisplacePointers;
  const auto to = read<std::uint64_t>(arguments[0]), from = read<std::uint64_t>(arguments[1]);
  // As on a GPU, addresses are modulo 2^64.
  const auto integer = [arguments](int i) {
    return static_cast<std::uint64_t>(std::int64_t{read<std::int32_t>(arguments[i])});
  };
  const std::uint64_t width = effect.element_bytes;
  const std::uint64_t first = (integer(3) + integer(4) * integer(2)) * width;
  const std::uint64_t step = displaces ? 0 : integer(5) * width;
  const auto count = std::min<Bytes>(launch.grid[0], kMost);
  add_range(work, to, count * 8, Uncomputed::kWritten);
  if (displaces) work->reads.push_back({.start = from, .bytes = count * 8, .writes = false});
  work->compute = [=](Memory& memory) {
    std::vector<std::uint64_t> addresses(count, from);
    if (displaces && !memory.load(from, addresses.data(), count * 8)) return false;
    for (Bytes i = 0; i < count; ++i) {
      addresses[i] += first + i * step;
    }
    memory.store(to, addresses.data(), count * 8);
    return true;
  };
}

// ---- Names

/// Returns the type to which one of thrust's iterators leads, or "".
std::string_view pointed_to(std::string_view iterator) {
  if (iterator.ends_with('*') && !iterator.ends_with(" const*")) {
    iterator.remove_suffix(1);
    return iterator;
  }
  const auto arguments = template_arguments(iterator, "::device_ptr");
  return arguments.size() == 1 && !arguments[0].ends_with(" const") ? arguments[0] : "";
}

/// Returns the size of one of thrust's iterators, or 0 if it is not known.
Bytes iterator_bytes(std::string_view iterator) {
  if (contains(iterator.substr(0, iterator.find('<')), "permutation_iterator")) return 16;
  if (contains(iterator.substr(0, iterator.find('<')), "counting_iterator")) {
    const auto arguments = template_arguments(iterator, "counting_iterator");
    return !arguments.empty() && type_bytes(arguments[0]) == 8 ? 8 : 0;
  }
  return iterator.ends_with('*') || contains(iterator, "::device_ptr<") ? 8 : 0;
}

/// Functors of thrust's that write through an iterator: tabulate's first member, and transform's
/// second one.
std::optional<HeldEffect> thrust_effect(const KernelName& name) {
  if (name.parameters.size() != 2 || !contains(name.function, "for_each::static_kernel<"))
    return {};
  const std::string_view functor = name.parameters[1];
  HeldEffect effect{.kind = HeldBy::kThrust};
  std::string_view type;
  if (const auto tabulate = template_arguments(functor, "::__tabulate::functor");
      !tabulate.empty()) {
    type = pointed_to(tabulate[0]);
  } else if (const auto transform = template_arguments(functor, "::unary_transform_f");
             transform.size() > 1) {
    type = pointed_to(transform[1]);
    effect.address_at = iterator_bytes(transform[0]);
    if (effect.address_at == 0) return {};
  }
  effect.element_bytes = type_bytes(type);
  return effect.element_bytes > 0 ? std::optional(effect) : std::nullopt;
}

/// Returns the effect if the first argument of a template names a type of known size.
std::optional<HeldEffect> of_type(HeldEffect effect, std::string_view text, std::string_view of,
                                  std::size_t argument = 0) {
  const auto arguments = template_arguments(text, of);
  if (arguments.size() <= argument) return std::nullopt;
  effect.element_bytes = type_bytes(arguments[argument]);
  return effect.element_bytes > 0 ? std::optional(effect) : std::nullopt;
}

/// The template's second argument is the type of the indices.
std::optional<HeldEffect> indexed_effect(HeldEffect effect, std::string_view text,
                                         std::string_view of) {
  const auto arguments = template_arguments(text, of);
  if (arguments.size() > 1) effect.index_type = number_type(arguments[1]);
  return number_bytes(effect.index_type) > 0 ? of_type(effect, text, of) : std::nullopt;
}

/// MAGMA's kernels that compute addresses.
std::optional<HeldEffect> pointers_effect(const KernelName& name) {
  const std::string_view function = name.function;
  const bool sets = function.starts_with("magma_iset_pointer_kernel") ||
                    (function.starts_with("kernel_") && function.ends_with("set_pointer"));
  const bool displaces = function.ends_with("displace_pointers_kernel");
  const std::size_t parameters = sets ? 6 : 5;
  if ((!sets && !displaces) || name.parameters.size() != parameters) return {};
  std::string_view type = name.parameters[0];
  if (!type.ends_with("**")) return {};
  type.remove_suffix(2);
  HeldEffect effect{.kind = sets ? HeldBy::kSetPointers : HeldBy::kDisplacePointers};
  effect.element_bytes = type_bytes(type);
  return effect.element_bytes > 0 ? std::optional(effect) : std::nullopt;
}

std::optional<HeldEffect> attention_effect(const KernelName& name) {
  const std::string_view function = name.function;
  HeldEffect effect;
  if (name.parameters.empty()) return {};
  if (function.starts_with("fmha_cutlassF_") || function.starts_with("fmha_cutlassB_")) {
    effect.kind = function[12] == 'F' ? HeldBy::kEfficient : HeldBy::kEfficientBackward;
    effect.element_bytes = contains(function.substr(0, 20), "_f32_") ? 4 : 2;
    return effect;
  }
  if (!function.starts_with("pytorch_flash::flash_")) return {};
  effect.element_bytes = 2;
  effect.kind = contains(function, "::flash_bwd_") ? HeldBy::kFlashBackward : HeldBy::kFlash;
  return effect;
}

}  // namespace

std::optional<HeldEffect> held_effect(const KernelName& name) {
  const std::string_view function = name.function;
  if (auto attention = attention_effect(name)) return attention;
  if (auto thrust = thrust_effect(name)) return thrust;
  if (auto pointers = pointers_effect(name)) return pointers;
  if (!function.starts_with("at::native::")) return {};
  const auto is = [&](std::string_view part, std::size_t parameters) {
    return name.parameters.size() == parameters &&
           contains(function.substr(0, function.find('<')), part);
  };
  if (is("::distribution_elementwise_grid_stride_kernel", 4)) {
    const std::string_view lambda = name.parameters[3];
    return of_type({.kind = HeldBy::kRandom,
                    .strided = lambda.ends_with("#2}"),
                    .count_bytes = integer_bytes(name.parameters[0])},
                   lambda, "::distribution_nullary_kernel");
  }
  if (is("::_elemwise_kernel", 2)) {
    return of_type({.tensors = 3}, function, "::_compute_linear_combination_internal_kernel");
  }
  if (is("::_unfold_backward_elementwise_kernel", 2)) {
    return of_type({.tensors = 3}, function, "::_unfold_backward_internal_kernel");
  }
  if (is("::_elementwise_kernel", 2) && contains(function, "::unpack_pivots_cuda_kernel(")) {
    return HeldEffect{.kind = HeldBy::kPivots, .element_bytes = 8, .tensors = 2};
  }
  if (is("::cross_kernel", 8)) {
    return of_type({.kind = HeldBy::kCross, .strided = name.parameters[5] == "long"}, function,
                   "::cross_kernel");
  }
  if (is("::glu_backward_kernel", 7)) {
    return of_type({.kind = HeldBy::kGatedBackward}, function, "::glu_backward_kernel");
  }
  if (is("::_fft_conjugate_copy_kernel", 5)) {
    const auto index = template_arguments(name.parameters[4], "HermitianSymmetryOffsetCalculator");
    const std::uint8_t width = index.empty() ? 0 : integer_bytes(index[0]);
    if (width < 4) return {};
    return of_type({.kind = HeldBy::kConjugate, .count_bytes = width}, function,
                   "::_fft_conjugate_copy_kernel");
  }
  if (is("::indexFuncSmallIndex", 10) && contains(name.parameters[0], "unsigned int>")) {
    return indexed_effect({.kind = HeldBy::kIndexed, .address_at = 6}, function,
                          "::indexFuncSmallIndex");
  }
  if (is("::indexFuncLargeIndex", 11) && contains(name.parameters[0], "unsigned int>")) {
    return indexed_effect({.kind = HeldBy::kIndexed, .address_at = 7}, function,
                          "::indexFuncLargeIndex");
  }
  if (is("::unique_bool_write_output", 4)) return HeldEffect{.kind = HeldBy::kUniqueBool};
  if (is("::_assert_async_cuda_kernel", 2)) {
    HeldEffect effect{.kind = HeldBy::kAssert};
    const auto arguments = template_arguments(function, "::_assert_async_cuda_kernel");
    if (!arguments.empty()) effect.index_type = number_type(arguments[0]);
    return number_bytes(effect.index_type) > 0 ? std::optional(effect) : std::nullopt;
  }
  // In PyTorch 2.15, where each tensor's partial results begin comes before their number.
  if (is("::lpnorm_cleanup", 3) || is("::lpnorm_cleanup", 4)) {
    return of_type({.kind = HeldBy::kNorms}, function, "::lpnorm_cleanup", 2);
  }
  if (is("::lpmax_cleanup", 3) || is("::lpmax_cleanup", 4)) {
    return of_type({.kind = HeldBy::kNorms}, function, "::lpmax_cleanup");
  }
  return {};
}

bool describe_held(const HeldEffect& effect, const Launch& launch, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  switch (effect.kind) {
    case HeldBy::kRandom:
      describe_random(effect, arguments, work);
      break;
    case HeldBy::kLambda:
    case HeldBy::kPivots:
      describe_lambda(effect, arguments, work);
      break;
    case HeldBy::kCross:
      describe_cross(effect, arguments, effect.strided, work);
      break;
    case HeldBy::kGatedBackward:
      describe_gated(effect, arguments, work);
      break;
    case HeldBy::kConjugate:
      describe_conjugate(effect, arguments, work);
      break;
    case HeldBy::kIndexed:
      describe_indexed(effect, launch, work);
      break;
    case HeldBy::kAssert:
      describe_assert(effect, arguments, work);
      break;
    case HeldBy::kNorms:
      describe_norms(effect, launch, work);
      break;
    case HeldBy::kUniqueBool:
      describe_unique_bool(launch, work);
      break;
    case HeldBy::kThrust:
      describe_thrust(effect, arguments, work);
      break;
    case HeldBy::kSetPointers:
    case HeldBy::kDisplacePointers:
      describe_pointers_of(effect, launch, work);
      break;
    case HeldBy::kEfficient:
      return describe_efficient(launch, effect.element_bytes, work);
    case HeldBy::kEfficientBackward:
      return describe_efficient_backward(launch, effect.element_bytes, work);
    case HeldBy::kFlash:
      return describe_flash(launch, effect.element_bytes, work);
    case HeldBy::kFlashBackward:
      return describe_flash_backward(launch, effect.element_bytes, work);
  }
  return true;
}

}  // namespace gpemu::kernels
