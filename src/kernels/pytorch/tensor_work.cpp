// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/tensor_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace gpemu::kernels {
namespace {

/// The most bytes between the first and the last element of a tensor.
constexpr Bytes kMostBytes = Bytes{kMostElements} * 16;

/// The memory from a tensor's start to its end.
struct Loaded {
  std::vector<std::byte> bytes;

  [[nodiscard]] Number at(Bytes offset, NumberType type) const {
    return load_number(&bytes[offset], type);
  }
  /// Reads the elements of a tensor as numbers of another type.
  void read(const Places& places, NumberType type, NumberType as, std::span<Number> to) const {
    if (places.dimensions == 1) {
      return load_numbers(bytes.data(), places.strides[0], type, as, to);
    }
    for (Bytes i = 0; i < to.size(); ++i) to[i] = at(places.offset(i), type);
    convert_numbers(type, as, to);
  }
};

bool load(const Memory& memory, std::uint64_t address, const Places& places, NumberType type,
          Loaded* loaded) {
  const Bytes extent = places.extent() + number_bytes(type);
  if (extent > kMostBytes || places.before() != 0) return false;
  loaded->bytes.resize(extent);
  return memory.load(address, loaded->bytes.data(), extent);
}

/// Stores results, one piece for each run of adjacent elements.
void store(const std::vector<std::byte>& values, const TensorView& to, Bytes width,
           Memory& memory) {
  const Bytes count = to.places.count();
  if (to.places.dimensions == 1 && to.places.strides[0] == width) {
    return memory.store(to.address, values.data(), values.size());
  }
  for (Bytes start = 0, end = 0; start < count; start = end) {
    const Bytes first = to.places.offset(start);
    for (end = start + 1; end < count; ++end) {
      if (to.places.offset(end) != first + (end - start) * width) break;
    }
    memory.store(to.address + first, &values[start * width], (end - start) * width);
  }
}

}  // namespace

bool compute_elements(const ElementWork& work, Memory& memory) {
  const Formula& formula = work.formula;
  const TensorView& result = work.tensors[0];
  const Bytes count = result.places.count();
  const Bytes width = number_bytes(result.type);
  const auto inputs = static_cast<std::size_t>(formula.tensors);
  if (count == 0 || count > Bytes{kMostElements} || width == 0) return false;
  std::array<std::vector<Number>, 3> numbers;
  for (std::size_t i = 0; i < inputs; ++i) {
    const TensorView& input = work.tensors[i + 1];
    Loaded loaded;
    if (number_bytes(input.type) == 0 ||
        !load(memory, input.address, input.places, input.type, &loaded)) {
      return false;
    }
    numbers[i].resize(count);
    loaded.read(input.places, input.type, formula.types[i], numbers[i]);
  }
  std::vector<Number> results(count);
  if (!evaluate(formula, work.state, std::span(numbers).first(inputs), results)) return false;
  std::vector<std::byte> values(count * std::max(width, number_bytes(formula.result)));
  if (formula.result != result.type) {
    // Through the functor's own type, which may be smaller than that of the arithmetic.
    store_numbers(results, formula.result, values.data());
    load_numbers(values.data(), number_bytes(formula.result), formula.result, result.type, results);
  }
  values.resize(count * width);
  store_numbers(results, result.type, values.data());
  store(values, result, width, memory);
  return true;
}

namespace {

/// Adds the shifts by a tensor of indices to offsets. Returns whether all indices are known and
/// allowed.
bool shift(const ElementMove::Index& index, const Memory& memory,
           std::vector<std::int64_t>* offsets) {
  Loaded loaded;
  if (index.places.count() != offsets->size() ||
      !load(memory, index.address, index.places, index.type, &loaded)) {
    return false;
  }
  for (std::size_t i = 0; i < offsets->size(); ++i) {
    std::int64_t place = loaded.at(index.places.offset(i), index.type).whole;
    if (place < 0 && index.wraps) place += index.size;
    if (place < 0 || place >= index.size) return false;
    (*offsets)[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>((*offsets)[i]) +
                                              static_cast<std::uint64_t>(place) * index.step);
  }
  return true;
}

std::vector<std::int64_t> offsets_of(const Places& places) {
  std::vector<std::int64_t> offsets(places.count());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = static_cast<std::int64_t>(places.offset(i));
  }
  return offsets;
}

/// Reads the elements at these offsets from an address, side by side.
bool gather(std::uint64_t address, const std::vector<std::int64_t>& offsets, Bytes width,
            const Memory& memory, std::vector<std::byte>* values) {
  const auto [least, most] = std::ranges::minmax(offsets);
  const Bytes distance = static_cast<Bytes>(most) - static_cast<Bytes>(least);
  if (distance > kMostBytes) return false;
  const Bytes extent = distance + width;
  std::vector<std::byte> window(extent);
  if (!memory.load(address + static_cast<Bytes>(least), window.data(), extent)) return false;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    std::memcpy(&(*values)[i * width],
                &window[static_cast<Bytes>(offsets[i]) - static_cast<Bytes>(least)], width);
  }
  return true;
}

}  // namespace

bool compute_move(const ElementMove& move, Memory& memory) {
  const Bytes count = move.to_places.count(), width = move.element_bytes;
  if (count == 0 || count > Bytes{kMostElements} || width == 0) return false;
  if (move.from != 0 ? move.from_places.count() != count : move.value.size() != width) return false;
  std::vector<std::int64_t> to = offsets_of(move.to_places), from;
  if (move.from != 0) from = offsets_of(move.from_places);
  for (const ElementMove::Index& index : move.indices) {
    if (!shift(index, memory, move.shifts_target ? &to : &from)) return false;
  }
  std::vector<std::byte> values(count * width);
  if (move.from != 0) {
    if (!gather(move.from, from, width, memory, &values)) return false;
  } else {
    for (Bytes i = 0; i < count; ++i) std::ranges::copy(move.value, &values[i * width]);
  }
  // Adjacent elements are stored at once.
  for (std::size_t start = 0, end = 0; start < count; start = end) {
    for (end = start + 1; end < count; ++end) {
      if (static_cast<Bytes>(to[end]) - static_cast<Bytes>(to[end - 1]) != width) break;
    }
    memory.store(move.to + static_cast<Bytes>(to[start]), &values[start * width],
                 (end - start) * width);
  }
  return true;
}

bool compute_sequence(const Sequence& sequence, Memory& memory) {
  const Bytes width = number_bytes(sequence.type);
  if (sequence.count == 0 || sequence.count > Bytes{kMostElements} || width == 0) return false;
  std::vector<std::byte> values(sequence.count * width);
  for (Bytes i = 0; i < sequence.count; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    // The compiler fuses product and sum.
    Number value{
        .real = sequence.work_type == NumberType::kFloat32
                    ? std::fma(static_cast<float>(sequence.step.real), static_cast<float>(at),
                               static_cast<float>(sequence.first.real))
                    : std::fma(sequence.step.real, static_cast<double>(at), sequence.first.real),
        // As on a GPU, integers are modulo 2^64.
        .whole = static_cast<std::int64_t>(static_cast<std::uint64_t>(sequence.first.whole) +
                                           static_cast<std::uint64_t>(sequence.step.whole) * i)};
    store_number(convert_number(value, sequence.work_type, sequence.type), sequence.type,
                 &values[i * width]);
  }
  memory.store(sequence.address, values.data(), values.size());
  return true;
}

bool compute_unscale(const Unscale& unscale, Memory& memory) {
  const Bytes width = number_bytes(unscale.type);
  float factor = 0, found = 0;
  if (!is_real(unscale.type) || !memory.load(unscale.factor, &factor, sizeof(factor)) ||
      !memory.load(unscale.found, &found, sizeof(found))) {
    return false;
  }
  Bytes left = Bytes{kMostElements};
  std::vector<std::vector<std::byte>> results;
  for (const Unscale::Piece& piece : unscale.gradients) {
    if (piece.bytes / width > left) return false;
    left -= piece.bytes / width;
    auto& bytes = results.emplace_back(piece.bytes);
    if (!memory.load(piece.address, bytes.data(), bytes.size())) return false;
    for (Bytes at = 0; at < bytes.size(); at += width) {
      Number number = load_number(&bytes[at], unscale.type);
      if (!std::isfinite(number.real)) found = 1;
      if (factor == 1) continue;
      number.real *= factor;
      store_number(number, unscale.type, &bytes[at]);
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    memory.store(unscale.gradients[i].address, results[i].data(), results[i].size());
  }
  memory.store(unscale.found, &found, sizeof(found));
  return true;
}

Reduction read_reduction(std::string_view operations) {
  struct Named {
    std::string_view part;
    Reduction reduction = Reduction::kUnknown;
  };
  constexpr std::array kNames = {
      Named{"::ArgMaxOps<", Reduction::kArgMaximum},
      Named{"::ArgMinOps<", Reduction::kArgMinimum},
      Named{"::MaxOps<", Reduction::kMaximumWithPlace},
      Named{"::MinOps<", Reduction::kMinimumWithPlace},
      Named{"::MinMaxOps<", Reduction::kMinimumAndMaximum},
      Named{"::MeanOps<", Reduction::kMean},
      Named{"::MaxNanFunctor<", Reduction::kMaximum},
      Named{"::MinNanFunctor<", Reduction::kMinimum},
      Named{"::sum_functor<", Reduction::kSum},
      Named{"::prod_functor<", Reduction::kProduct},
      Named{"::and_kernel_cuda", Reduction::kAll},
      Named{"::or_kernel_cuda", Reduction::kAny},
  };
  for (const Named& named : kNames) {
    if (operations.find(named.part) != std::string_view::npos) return named.reduction;
  }
  return Reduction::kUnknown;
}

namespace {

/// The state of a reduction.
struct Accumulator {
  Number value;
  Bytes place = 0;
};

bool is_greater(const Number& a, const Number& b, bool real) {
  if (!real) return a.whole > b.whole;
  // NaN is the largest and the smallest: the first one stays.
  return std::isnan(a.real) ? !std::isnan(b.real) : a.real > b.real;
}

bool is_less(const Number& a, const Number& b, bool real) {
  if (!real) return a.whole < b.whole;
  return std::isnan(a.real) ? !std::isnan(b.real) : a.real < b.real;
}

void take(Reduction reduction, bool real, const Number& number, Bytes place, Accumulator* sum) {
  const bool truth = real ? number.real != 0 : number.whole != 0;
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      sum->value.real += number.real;
      sum->value.whole = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum->value.whole) +
                                                   static_cast<std::uint64_t>(number.whole));
      break;
    case Reduction::kProduct:
      sum->value.real *= number.real;
      sum->value.whole = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum->value.whole) *
                                                   static_cast<std::uint64_t>(number.whole));
      break;
    case Reduction::kAll:
      sum->value.whole = sum->value.whole != 0 && truth;
      break;
    case Reduction::kAny:
      sum->value.whole = sum->value.whole != 0 || truth;
      break;
    case Reduction::kMaximum:
    case Reduction::kArgMaximum:
    case Reduction::kMaximumWithPlace:
      if (place == 0 || is_greater(number, sum->value, real)) *sum = {number, place};
      break;
    case Reduction::kMinimum:
    case Reduction::kArgMinimum:
    case Reduction::kMinimumWithPlace:
      if (place == 0 || is_less(number, sum->value, real)) *sum = {number, place};
      break;
    case Reduction::kMinimumAndMaximum:
    case Reduction::kUnknown:
      break;
  }
}

Accumulator first_of(Reduction reduction) {
  const bool one = reduction == Reduction::kProduct || reduction == Reduction::kAll;
  return {.value = one ? Number{.real = 1, .whole = 1} : Number{}};
}

}  // namespace

bool compute_reduction(const ReductionWork& work, Memory& memory) {
  if (work.reduction == Reduction::kMinimumAndMaximum) {
    ReductionWork least = work, greatest = work;
    least.reduction = Reduction::kMinimum;
    greatest.reduction = Reduction::kMaximum;
    greatest.outputs[0] = work.outputs[1];
    return compute_reduction(least, memory) && compute_reduction(greatest, memory);
  }
  const Bytes outputs = work.output_places.count(), each = work.within.count();
  const Bytes in_width = number_bytes(work.input_type), out_width = number_bytes(work.output_type);
  if (work.reduction == Reduction::kUnknown || in_width == 0 || out_width == 0 || outputs == 0 ||
      each == 0 || outputs > Bytes{kMostElements} || each > Bytes{kMostElements} / outputs) {
    return false;
  }
  const Bytes extent = work.input_places.extent() + work.within.extent() + in_width;
  if (extent > kMostBytes || work.input_places.before() != 0 || work.within.before() != 0) {
    return false;
  }
  Loaded loaded{.bytes = std::vector<std::byte>(extent)};
  if (!memory.load(work.input, loaded.bytes.data(), extent)) return false;
  const bool real = is_real(work.input_type);
  const bool places_only =
      work.reduction == Reduction::kArgMaximum || work.reduction == Reduction::kArgMinimum;
  const bool truth = work.reduction == Reduction::kAll || work.reduction == Reduction::kAny;
  std::vector<std::byte> values(outputs * out_width), places(outputs * 8);
  for (Bytes i = 0; i < outputs; ++i) {
    const Bytes start = work.input_places.offset(i);
    Accumulator sum = first_of(work.reduction);
    for (Bytes j = 0; j < each; ++j) {
      take(work.reduction, real, loaded.at(start + work.within.offset(j), work.input_type), j,
           &sum);
    }
    if (work.reduction == Reduction::kMean) sum.value.real *= work.factor;
    const Number place{.whole = static_cast<std::int64_t>(sum.place)};
    const NumberType from = truth || places_only ? NumberType::kInt64 : work.input_type;
    store_number(convert_number(places_only ? place : sum.value, from, work.output_type),
                 work.output_type, &values[i * out_width]);
    store_number(place, NumberType::kInt64, &places[i * 8]);
  }
  const TensorView result{work.outputs[0], work.output_type, work.output_places};
  store(values, result, out_width, memory);
  const bool two = work.reduction == Reduction::kMaximumWithPlace ||
                   work.reduction == Reduction::kMinimumWithPlace;
  if (two) {  // The places have the layout of the values, with wider elements.
    TensorView second{work.outputs[1], NumberType::kInt64, work.output_places};
    for (Bytes& stride : second.places.strides) stride = stride / out_width * 8;
    store(places, second, 8, memory);
  }
  return true;
}

}  // namespace gpemu::kernels
