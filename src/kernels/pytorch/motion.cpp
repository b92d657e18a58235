// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/motion.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/pytorch/concatenation.hpp"
#include "gpemu/kernels/pytorch/offsets.hpp"

namespace gpemu::kernels {
namespace {

/// Returns the most that the indices of a move may add to an address.
Bytes reach(const ElementMove& move) {
  Bytes bytes = 0;
  for (const ElementMove::Index& index : move.indices) {
    bytes += static_cast<Bytes>(std::max<std::int64_t>(index.size, 1) - 1) * index.step;
  }
  return bytes;
}

/// Adds what a move may write. If indices choose the places, all other places stay as they are.
void add_target(const ElementMove& move, bool combines, KernelWork* work) {
  if (!move.shifts_target) {
    return add_tensor(work, move.to, move.to_places, move.element_bytes,
                      combines ? Uncomputed::kUpdated : Uncomputed::kWritten);
  }
  Places places = move.to_places;
  for (const ElementMove::Index& index : move.indices) {
    if (places.dimensions == kMostDimensions) return;
    places.add(static_cast<Bytes>(std::max<std::int64_t>(index.size, 1)), index.step);
  }
  add_tensor(work, move.to, places, move.element_bytes, Uncomputed::kUpdated);
}

void add_reads(const ElementMove& move, KernelWork* work) {
  const Bytes reached = reach(move);
  if (move.from != 0) {
    work->reads.push_back({.start = move.from - move.from_places.before(),
                           .bytes = move.from_places.before() + move.from_places.extent() +
                                    (move.shifts_target ? 0 : reached) + move.element_bytes,
                           .writes = false});
  }
}

/// Adds a move to the work, with its reads and writes.
void add_move(ElementMove move, bool combines, KernelWork* work) {
  add_target(move, combines, work);
  for (const ElementMove::Index& index : move.indices) {
    add_check(work, {.address = index.address,
                     .type = index.type,
                     .places = index.places,
                     .size = index.size,
                     .wraps = index.wraps,
                     .ignored = {}});
  }
  if (combines || move.to_places.count() > Bytes{kMostElements}) return;
  add_reads(move, work);
  work->compute = [move = std::move(move)](Memory& memory) { return compute_move(move, memory); };
}

// ---- Lambdas over a calculator of offsets: what they hold follows it in the order of its use

/// The content of a lambda after its calculator.
class Held {
 public:
  Held(const void* lambda, Bytes tensors)
      : lambda_(static_cast<const std::byte*>(lambda)),
        tensors_(tensors),
        start_(align(calculator_bytes(tensors))) {}

  template <typename T>
  [[nodiscard]] T at(Bytes offset) const {
    return read<T>(lambda_, start_ + offset);
  }
  [[nodiscard]] const std::byte* bytes_at(Bytes offset) const { return lambda_ + start_ + offset; }
  [[nodiscard]] Places places(Bytes tensor) const { return read_places(lambda_, tensors_, tensor); }

 private:
  const std::byte* lambda_;
  Bytes tensors_;
  Bytes start_;
};

/// The target and the source. Source: flip_kernel_impl in IndexKernel.cu.
bool describe_flip(const MotionEffect& effect, const Held& held, const Memory& memory,
                   KernelWork* work) {
  ElementMove move{.element_bytes = effect.element_bytes,
                   .to = held.at<std::uint64_t>(0),
                   .from = held.at<std::uint64_t>(8),
                   .to_places = held.places(0),
                   .from_places = held.places(1)};
  if (!memory.on_device(move.to) || !memory.on_device(move.from)) return false;
  add_move(std::move(move), false, work);
  return true;
}

/// The target and the source, the number of indices, then 25 of each: the indices' addresses, the
/// sizes and the strides of what they index. Source: gpu_index_kernel in IndexKernel.cu.
bool describe_index(const MotionEffect& effect, const Held& held, const Memory& memory,
                    KernelWork* work) {
  constexpr Bytes kNumber = 16, kAddresses = 24, kSizes = kAddresses + Bytes{kMostDimensions} * 8;
  constexpr Bytes kStrides = kSizes + Bytes{kMostDimensions} * 8;
  const auto indices = held.at<std::uint64_t>(kNumber);
  const bool puts = effect.motion == Motion::kIndexPut;
  ElementMove move{.element_bytes = effect.element_bytes,
                   .to = held.at<std::uint64_t>(0),
                   .from = held.at<std::uint64_t>(8),
                   .to_places = held.places(0),
                   .from_places = held.places(1),
                   .shifts_target = puts};
  if (!memory.on_device(move.to) || !memory.on_device(move.from) || indices == 0 ||
      indices > Bytes{kMostDimensions}) {
    return false;
  }
  for (Bytes i = 0; i < indices; ++i) {
    move.indices.push_back({.address = held.at<std::uint64_t>(kAddresses + i * 8),
                            .places = held.places(2),
                            .size = held.at<std::int64_t>(kSizes + i * 8),
                            .step = held.at<std::uint64_t>(kStrides + i * 8)});
    if (!memory.on_device(move.indices.back().address)) return false;
  }
  add_move(std::move(move), false, work);
  return true;
}

/// The target, the indices, for copies the source, then the size and the stride of the dimension
/// in elements, for fills the value. Source: index_fill_kernel_impl and index_copy_kernel_impl in
/// IndexKernel.cu.
bool describe_index_fill(const MotionEffect& effect, const Held& held, const Memory& memory,
                         KernelWork* work) {
  const bool copies = effect.motion == Motion::kIndexCopy;
  const Bytes size_at = copies ? 24 : 16;
  ElementMove move{.element_bytes = effect.element_bytes,
                   .to = held.at<std::uint64_t>(0),
                   .to_places = held.places(0),
                   .shifts_target = true};
  move.indices.push_back(
      {.address = held.at<std::uint64_t>(8),
       .places = held.places(1),
       .size = held.at<std::int64_t>(size_at),
       .wraps = !copies,
       .step = held.at<std::uint64_t>(size_at + 8) * Bytes{effect.element_bytes}});
  if (copies) {
    move.from = held.at<std::uint64_t>(16);
    move.from_places = held.places(2);
  } else {
    const std::byte* const value = held.bytes_at(size_at + 16);
    move.value.assign(value, value + effect.element_bytes);
  }
  if (!memory.on_device(move.to) || !memory.on_device(move.indices[0].address) ||
      (copies && !memory.on_device(move.from))) {
    return false;
  }
  add_move(std::move(move), false, work);
  return true;
}

/// What is iterated over, the indices, the number of elements indexed, whether they are contiguous,
/// the calculator of their offsets, and their address, before which atomic sums have the number
/// again. Source: cuda_take_put_kernel in IndexKernel.cu.
bool describe_take(const MotionEffect& effect, const Held& held, const Memory& memory,
                   KernelWork* work) {
  constexpr Bytes kCalculator = 28;
  const bool puts = effect.motion == Motion::kPut;
  const bool contiguous = held.at<std::uint8_t>(24) != 0;
  const Bytes address_at =
      align(calculator_bytes(2) + kCalculator + calculator_bytes(1)) - align(calculator_bytes(2));
  const auto elements = held.at<std::int64_t>(16);
  const auto iterated = held.at<std::uint64_t>(0), indices = held.at<std::uint64_t>(8);
  const auto indexed = held.at<std::uint64_t>(address_at + (effect.combines ? 8 : 0));
  if (elements <= 0 || !memory.on_device(iterated) || !memory.on_device(indices) ||
      !memory.on_device(indexed)) {
    return false;
  }
  const Bytes width = effect.element_bytes;
  if (!contiguous) {  // Strides are in elements.
    const Places places = read_places(held.bytes_at(kCalculator), 1, 0);
    if (!puts) {
      add_tensor(work, iterated, held.places(0), width, Uncomputed::kWritten);
      return true;
    }
    Places bytes = places;
    for (Bytes& stride : bytes.strides) stride *= width;
    add_tensor(work, indexed, bytes, width, Uncomputed::kUpdated);
    return true;
  }
  ElementMove move{.element_bytes = width,
                   .to = puts ? indexed : iterated,
                   .from = puts ? iterated : indexed,
                   .to_places = held.places(0),
                   .from_places = held.places(0),
                   .shifts_target = puts};
  Places& shifted = puts ? move.to_places : move.from_places;
  shifted.strides.fill(0);
  move.indices.push_back(
      {.address = indices, .places = held.places(1), .size = elements, .step = width});
  add_move(std::move(move), effect.combines, work);
  return true;
}

/// The indices, the size of the dimension, the functor, the target, the dimension's stride in
/// elements, the number of elements, then the source or the value. Source:
/// _cuda_scatter_gather_internal_kernel and _cuda_scatter_fill_internal_kernel in
/// ScatterGatherKernel.cu.
bool describe_scatter(const MotionEffect& effect, const Held& held, const Memory& memory,
                      KernelWork* work) {
  const bool gathers = effect.motion == Motion::kGather;
  const bool fills = effect.motion == Motion::kScatterFill;
  const Bytes width = effect.element_bytes;
  ElementMove move{.element_bytes = width,
                   .to = held.at<std::uint64_t>(24),
                   .to_places = held.places(0),
                   .shifts_target = !gathers};
  move.indices.push_back({.address = held.at<std::uint64_t>(0),
                          .type = effect.index_type,
                          .places = held.places(fills ? 1 : 2),
                          .size = held.at<std::int64_t>(8),
                          .wraps = false,
                          .step = held.at<std::uint64_t>(32) * width});
  if (fills) {
    move.value.assign(held.bytes_at(48), held.bytes_at(48) + width);
  } else {
    move.from = held.at<std::uint64_t>(48);
    move.from_places = held.places(1);
  }
  if (!memory.on_device(move.to) || !memory.on_device(move.indices[0].address) ||
      (!fills && !memory.on_device(move.from))) {
    return false;
  }
  add_move(std::move(move), effect.combines, work);
  return true;
}

// ---- Kernels with arguments of their own

/// The target, the source, the indices, their number, the bytes of a row, the rows of the source,
/// the strides of source and target in bytes. Source: vectorized_gather_kernel in
/// IndexKernelUtils.cu.
bool describe_rows(const MotionEffect& effect, const Launch& launch, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const auto count = static_cast<Bytes>(std::max(read<std::int32_t>(arguments[3]), 0));
  const auto row = read<std::uint64_t>(arguments[4]);
  const Bytes width = effect.element_bytes;
  ElementMove move{.element_bytes = width,
                   .to = read<std::uint64_t>(arguments[0]),
                   .from = read<std::uint64_t>(arguments[1])};
  if (row % width != 0 || !launch.memory.on_device(move.to) || !launch.memory.on_device(move.from))
    return false;
  for (Places* const places : {&move.to_places, &move.from_places}) {
    *places = in_a_row(row / width, width);
    places->add(count, places == &move.to_places ? read<std::uint64_t>(arguments[7]) : 0);
  }
  ElementMove::Index index{.address = read<std::uint64_t>(arguments[2]),
                           .type = effect.index_type,
                           .places = in_a_row(row / width, 0),
                           .size = read<std::int64_t>(arguments[5]),
                           .wraps = read<std::uint8_t>(arguments[8]) != 0,
                           .step = read<std::uint64_t>(arguments[6])};
  index.places.add(count, number_bytes(index.type));
  if (!launch.memory.on_device(index.address)) return false;
  move.indices.push_back(index);
  add_move(std::move(move), false, work);
  return true;
}

bool fits(const TensorInfo& tensor, const Memory& memory) {
  return memory.on_device(tensor.address) && tensor.dimensions >= 0 &&
         tensor.dimensions < kMostDimensions;
}

/// The target, the source, both with the selected dimension of size 1, the indices, the selected
/// dimensions of target and source; last the size of the latter. Source: indexSelectSmallIndex and
/// indexSelectLargeIndex in Indexing.cu.
bool describe_select(const MotionEffect& effect, const Launch& launch, Bytes argument_count,
                     KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const auto to = read_tensor_info(arguments[0]), from = read_tensor_info(arguments[1]);
  const auto indices = read_tensor_info(arguments[2]);
  const auto to_dimension = static_cast<Bytes>(read<std::int32_t>(arguments[3]));
  const auto from_dimension = static_cast<Bytes>(read<std::int32_t>(arguments[4]));
  if (!fits(to, launch.memory) || !fits(from, launch.memory) || !fits(indices, launch.memory) ||
      indices.dimensions != 1 || to_dimension >= Bytes{kMostDimensions} ||
      from_dimension >= Bytes{kMostDimensions}) {
    return false;
  }
  const Bytes width = effect.element_bytes, count = indices.sizes[0];
  ElementMove move{.element_bytes = width,
                   .to = to.address,
                   .from = from.address,
                   .to_places = to.places(width),
                   .from_places = from.places(width)};
  ElementMove::Index index{.address = indices.address,
                           .type = effect.index_type,
                           .places = in_a_row(move.to_places.count(), 0),
                           .size = read<std::int64_t>(arguments[argument_count - 1]),
                           .wraps = false,
                           .step = from.strides[from_dimension] * width};
  move.to_places.add(count, to.strides[to_dimension] * width);
  move.from_places.add(count, 0);
  index.places.add(count, indices.strides[0] * number_bytes(index.type));
  move.indices.push_back(index);
  add_move(std::move(move), false, work);
  return true;
}

Places cat_places(const ConcatenatedShape& shape, int dimensions, int along, Bytes size,
                  Bytes width) {
  Places places{.dimensions = 0};
  for (int i = dimensions - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    places.add(i == along ? size : shape.sizes[at], shape.strides[at] * width);
  }
  return places;
}

/// The target; the sources; the target's shape, the dimension and its stride. The vectorized kernel
/// counts elements of its alignment, and has the elements behind the dimension for the stride.
/// Source: CatArrayBatchedCopy in Shape.cu.
bool describe_cat(const CatEffect& effect, const Launch& launch, KernelWork* work) {
  const auto to = read<std::uint64_t>(launch.arguments[0]);
  const ConcatenatedInputs sources(launch.arguments[1], effect.most_tensors);
  const auto shape = read<ConcatenatedShape>(launch.arguments[2]);
  const auto along = read<std::int32_t>(launch.arguments[3]);
  const auto most = static_cast<Bytes>(effect.most_tensors), count = Bytes{launch.grid[1]};
  const auto vector = static_cast<Bytes>(effect.vector);  // Elements that are taken as one.
  if (!launch.memory.on_device(to) || along < 0 || along >= effect.dimensions || count > most)
    return false;
  const Bytes width = effect.element_bytes * vector;
  const Bytes stride = read<std::uint32_t>(launch.arguments[4]);
  std::vector<PlainMove> moves;
  for (Bytes i = 0; i < count; ++i) {
    const std::uint64_t from = sources.address(i);
    const Bytes elements = sources.elements(i) / vector;
    if (elements == 0) continue;
    const Bytes scale = vector > 1 ? stride : 1;
    const Bytes size = sources.size(i) * scale / vector;
    const Bytes offset =
        vector > 1 ? sources.offset(i) * scale / vector : sources.offset(i) * stride;
    PlainMove move{.element_bytes = width,
                   .to = to + offset * width,
                   .from = from,
                   .to_places = cat_places(shape, effect.dimensions, along, size, width),
                   .from_places = in_a_row(elements, width)};
    if (effect.strided_tensors > 1) {
      move.from_places = cat_places(sources.shape(i), effect.dimensions, along, size, width);
    }
    if (move.to_places.count() != elements || !launch.memory.on_device(from)) return false;
    moves.push_back(move);
  }
  return add_plain_moves(std::move(moves), work);
}

/// The number of elements, a lambda that holds the first and the step, the target. Source:
/// arange_cuda_out and range_cuda_out in RangeFactories.cu.
bool describe_sequence(const SequenceEffect& effect, void* const* arguments, KernelWork* work) {
  const auto count =
      effect.count_bytes == 4
          ? static_cast<Bytes>(std::max(read<std::int32_t>(arguments[0]), 0))
          : static_cast<Bytes>(std::max<std::int64_t>(read<std::int64_t>(arguments[0]), 0));
  const auto* const lambda = static_cast<const std::byte*>(arguments[1]);
  const Sequence sequence{
      .address = read<std::uint64_t>(arguments[2]),
      .count = count,
      .type = effect.type,
      .work_type = effect.work_type,
      .first = load_number(lambda, effect.work_type),
      .step = load_number(lambda + number_bytes(effect.work_type), effect.work_type)};
  add_range(work, sequence.address, count * number_bytes(sequence.type), Uncomputed::kWritten);
  work->compute = [sequence](Memory& memory) { return compute_sequence(sequence, memory); };
  return true;
}

// ---- Names

struct NamedMotion {
  std::string_view part;
  Motion motion = Motion::kNone;
};

/// By parts of the functions' names; an earlier name may be part of a later one.
constexpr std::array kMotions = {
    NamedMotion{"index_elementwise_kernel<128, 4, at::native::flip_kernel_impl<", Motion::kFlip},
    NamedMotion{"::index_put_kernel_impl<", Motion::kIndexPut},
    NamedMotion{"::index_fill_kernel_impl<", Motion::kIndexFill},
    NamedMotion{"::index_copy_kernel_impl<", Motion::kIndexCopy},
    NamedMotion{"::index_kernel_impl<", Motion::kIndex},
    NamedMotion{"::put_kernel(", Motion::kPut},
    NamedMotion{"::take_kernel(", Motion::kTake},
    NamedMotion{"::_cuda_scatter_gather_internal_kernel<false", Motion::kGather},
    NamedMotion{"::_cuda_scatter_gather_internal_kernel<true", Motion::kScatter},
    NamedMotion{"::_cuda_scatter_fill_internal_kernel<", Motion::kScatterFill},
};

constexpr std::array kKernels = {
    NamedMotion{"at::native::vectorized_gather_kernel<", Motion::kGatherRows},
    NamedMotion{"at::native::(anonymous namespace)::indexSelectSmallIndex<", Motion::kSelect},
    NamedMotion{"at::native::(anonymous namespace)::indexSelectLargeIndex<", Motion::kSelect},
    NamedMotion{"at::native::(anonymous namespace)::CatArrayBatchedCopy", Motion::kConcatenate},
    NamedMotion{"(anonymous namespace)::elementwise_kernel_with_index<", Motion::kSequence},
};

/// The size of an element's type: of OpaqueType<N> the number.
std::uint32_t element_bytes_of(std::string_view type) {
  const auto opaque = template_arguments(type, "OpaqueType");
  if (opaque.size() == 1) return static_cast<std::uint32_t>(number_in(opaque[0]));
  return type_bytes(type);
}

/// arange and range: lambdas by the type of the result, in the order of PyTorch's dispatch. Source:
/// AT_DISPATCH_ALL_TYPES_AND2 in Dispatch.h.
bool read_sequence(const KernelName& name, SequenceEffect* effect) {
  const std::string_view function = name.function;
  const bool known =
      contains(function, "::arange_cuda_out(") || contains(function, "::range_cuda_out(");
  if (!known || name.parameters.size() != 3) return false;
  constexpr std::array kTypes = {NumberType::kUint8,   NumberType::kInt8,    NumberType::kInt32,
                                 NumberType::kInt64,   NumberType::kInt16,   NumberType::kFloat64,
                                 NumberType::kFloat32, NumberType::kFloat16, NumberType::kBFloat16};
  constexpr std::string_view kLambda = "operator()() const::{lambda()#";
  const std::size_t lambda = function.find(kLambda);
  if (lambda == std::string_view::npos) return false;
  const int number = number_in(function.substr(lambda + kLambda.size()));
  if (number < 1 || number > static_cast<int>(kTypes.size())) return false;
  effect->type = kTypes[static_cast<std::size_t>(number) - 1];
  // Source: acc_type for GPUs in AccumulateType.h.
  effect->work_type = effect->type == NumberType::kFloat64 ? NumberType::kFloat64
                      : is_real(effect->type)              ? NumberType::kFloat32
                                                           : NumberType::kInt64;
  effect->count_bytes = static_cast<std::uint8_t>(type_bytes(name.parameters[0]));
  return effect->count_bytes == 4 || effect->count_bytes == 8;
}

/// CatArrayBatchedCopy<element, index, dimensions, tensors, of these strided, ...>; the vectorized
/// one ends with the alignment and the elements in it.
bool read_cat(const KernelName& name, CatEffect* effect) {
  const auto arguments = template_arguments(
      name.function, std::string_view(name.function).substr(0, name.function.find('<')));
  if (arguments.size() < 5 || arguments[1] != "unsigned int" || name.parameters.size() != 5) {
    return false;
  }
  effect->element_bytes = element_bytes_of(arguments[0]);
  effect->dimensions = number_in(arguments[2]);
  effect->most_tensors = number_in(arguments[3]);
  effect->strided_tensors = number_in(arguments[4]);
  if (contains(name.function, "CatArrayBatchedCopy_vectorized<")) {
    if (arguments.size() != 7) return false;
    effect->vector = number_in(arguments[6]);
  }
  return effect->dimensions >= 1 && effect->dimensions <= ConcatenatedShape::kMostDimensions &&
         effect->element_bytes > 0 && effect->vector > 0;
}

/// Recognises the kernel.
Motion read_motion(const KernelName& name) {
  const std::string_view function = name.function;
  for (const NamedMotion& named : kKernels) {
    if (function.starts_with(named.part)) return named.motion;
  }
  if (!function.starts_with("at::native::index_elementwise_kernel<") &&
      !function.starts_with("at::native::_scatter_gather_elementwise_kernel<")) {
    return Motion::kNone;
  }
  for (const NamedMotion& named : kMotions) {
    if (contains(function, named.part)) return named.motion;
  }
  return Motion::kNone;
}

/// Reads the template arguments that a motion needs. Returns false if they are not as expected.
bool read_motion_types(const KernelName& name, MotionEffect* effect) {
  const std::string_view function = name.function;
  const auto arguments_of = [function](std::string_view of) {
    return template_arguments(function, of);
  };
  const auto take = [effect](const std::vector<std::string_view>& arguments, std::size_t element,
                             std::size_t index) {
    if (arguments.size() <= element) return false;
    effect->element_bytes = element_bytes_of(arguments[element]);
    if (arguments.size() > index) effect->index_type = number_type(arguments[index]);
    return effect->element_bytes > 0 && number_bytes(effect->index_type) > 0;
  };
  constexpr std::size_t kNoIndex = 9;
  switch (effect->motion) {
    case Motion::kFlip:
      return take(arguments_of("::flip_kernel_impl"), 0, kNoIndex);
    case Motion::kIndex:
      return take(arguments_of("::index_kernel_impl"), 0, kNoIndex);
    case Motion::kIndexPut:
      return take(arguments_of("::index_put_kernel_impl"), 0, kNoIndex);
    case Motion::kIndexFill:
      return take(arguments_of("::index_fill_kernel_impl"), 0, kNoIndex);
    case Motion::kIndexCopy:
      return take(arguments_of("::index_copy_kernel_impl"), 0, kNoIndex);
    case Motion::kPut:
      effect->combines = contains(function, "&, int)#1}>") || contains(function, "&, long)#1}>");
      [[fallthrough]];
    case Motion::kTake:
      return take(arguments_of("::cuda_take_put_kernel"), 0, kNoIndex);
    case Motion::kGather:
    case Motion::kScatter:
      effect->combines = !contains(function, "operator()<at::native::TensorAssign>");
      return take(arguments_of("::_cuda_scatter_gather_internal_kernel"), 1, 2);
    case Motion::kScatterFill:
      effect->combines = !contains(function, "operator()<at::native::TensorAssign>");
      return take(arguments_of("::_cuda_scatter_fill_internal_kernel"), 0, 1);
    case Motion::kGatherRows: {
      const auto arguments = arguments_of("vectorized_gather_kernel");
      if (arguments.size() != 2 || name.parameters.size() < 8) return false;
      effect->element_bytes = static_cast<std::uint32_t>(number_in(arguments[0]));
      effect->index_type = number_type(arguments[1]);
      return effect->element_bytes > 0 && number_bytes(effect->index_type) > 0;
    }
    case Motion::kSelect: {
      const std::string_view of =
          contains(function, "Small") ? "indexSelectSmallIndex" : "indexSelectLargeIndex";
      const auto arguments = arguments_of(of);
      return arguments.size() > 2 && arguments[2] == "unsigned int" && take(arguments, 0, 1) &&
             name.parameters.size() >= 7;
    }
    case Motion::kConcatenate:
      return read_cat(name, &effect->cat);
    case Motion::kSequence:
      return read_sequence(name, &effect->sequence);
    case Motion::kNone:
      break;
  }
  return false;
}

}  // namespace

std::optional<MotionEffect> motion_effect(const KernelName& name) {
  MotionEffect effect{.motion = read_motion(name), .arguments = name.parameters.size()};
  if (effect.motion == Motion::kNone || !read_motion_types(name, &effect)) return std::nullopt;
  return effect;
}

bool describe_motion(const MotionEffect& effect, const Launch& launch, KernelWork* work) {
  void* const* const arguments = launch.arguments;
  const auto held = [&](Bytes tensors) { return Held(arguments[1], tensors); };
  switch (effect.motion) {
    case Motion::kFlip:
      return describe_flip(effect, held(2), launch.memory, work);
    case Motion::kIndex:
    case Motion::kIndexPut:
      return describe_index(effect, held(3), launch.memory, work);
    case Motion::kIndexFill:
      return describe_index_fill(effect, held(2), launch.memory, work);
    case Motion::kIndexCopy:
      return describe_index_fill(effect, held(3), launch.memory, work);
    case Motion::kTake:
    case Motion::kPut:
      return describe_take(effect, held(2), launch.memory, work);
    case Motion::kGather:
    case Motion::kScatter:
      return describe_scatter(effect, held(3), launch.memory, work);
    case Motion::kScatterFill:
      return describe_scatter(effect, held(2), launch.memory, work);
    case Motion::kGatherRows:
      return describe_rows(effect, launch, work);
    case Motion::kSelect:
      return describe_select(effect, launch, effect.arguments, work);
    case Motion::kConcatenate:
      return describe_cat(effect.cat, launch, work);
    case Motion::kSequence:
      return describe_sequence(effect.sequence, arguments, work);
    case Motion::kNone:
      break;
  }
  return false;
}

}  // namespace gpemu::kernels
