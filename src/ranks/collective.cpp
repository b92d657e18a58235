// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/collective.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "gpemu/kernels/number.hpp"

namespace gpemu::ranks {
namespace {

// ---- Types that the processor does not have. Each converts from and to FP32.

template <kernels::NumberType kType>
struct SmallReal {
  static constexpr Bytes kBytes = 2;
  static float load(const std::byte* from) {
    return static_cast<float>(load_number(from, kType).real);
  }
  static void store(float value, std::byte* to) { store_number({.real = value}, kType, to); }
};

/// FP8 with so many bits of exponent and fraction. Values beyond the largest one become it. Source:
/// cuda_fp8.h, whose conversions saturate (__NV_SATFINITE) in the constructors that NCCL uses.
template <int kExponent, int kFraction>
struct TinyReal {
  static constexpr Bytes kBytes = 1;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  /// E4M3 has no infinities, and only one pattern for NaN.
  static constexpr bool kHasInfinity = kExponent == 5;
  static constexpr unsigned kNan = 0x7f;
  static constexpr unsigned kLargest = kHasInfinity ? 0x7b : 0x7e;

  static float of_bits(unsigned bits) {
    const auto exponent = static_cast<int>(bits >> kFraction & ((1U << kExponent) - 1));
    const auto fraction = static_cast<int>(bits & ((1U << kFraction) - 1));
    const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
    if (kHasInfinity && exponent == (1 << kExponent) - 1) {
      return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                           : std::numeric_limits<float>::quiet_NaN();
    }
    if (!kHasInfinity && (bits & 0x7f) == kNan) return std::numeric_limits<float>::quiet_NaN();
    if (exponent == 0) {
      return sign * std::ldexp(static_cast<float>(fraction), 1 - kBias - kFraction);
    }
    return sign * std::ldexp(static_cast<float>(fraction + (1 << kFraction)),
                             exponent - kBias - kFraction);
  }
  static float load(const std::byte* from) { return of_bits(static_cast<unsigned>(*from)); }
  static void store(float value, std::byte* to) {
    const unsigned sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::abs(value);
    unsigned bits = kNan;
    if (magnitude >= of_bits(kLargest)) {
      bits = kLargest;
    } else if (!std::isnan(value)) {
      const int exponent = magnitude == 0 ? 1 - kBias : std::max(std::ilogb(magnitude), 1 - kBias);
      // A multiple of the step at this size; nearbyint rounds ties to even. A carry goes into the
      // exponent by itself.
      const float steps = std::nearbyint(std::ldexp(magnitude, kFraction - exponent));
      bits =
          static_cast<unsigned>((exponent - 1 + kBias) << kFraction) + static_cast<unsigned>(steps);
    }
    *to = static_cast<std::byte>(std::isnan(value) ? bits : sign | bits);
  }
};

/// The types that the processor has. Whole numbers wrap around, so they are unsigned in between.
template <typename T>
struct Native {
  static constexpr Bytes kBytes = sizeof(T);
  static T load(const std::byte* from) {
    T value{};
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static void store(T value, std::byte* to) { std::memcpy(to, &value, sizeof(value)); }
};

template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return static_cast<T>(a + b);
  }
}

template <typename T>
T product_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return static_cast<T>(a * b);
  }
}

template <typename T>
T extreme_of(bool larger, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return larger ? std::max(a, b) : std::min(a, b);
  } else {
    return larger ? std::fmax(a, b) : std::fmin(a, b);  // A number wins over NaN.
  }
}

template <typename T>
T reduced(gpemu_cuda_comm_reduction reduction, T a, T b) {
  switch (reduction) {
    case GPEMU_CUDA_COMM_PROD:
      return product_of(a, b);
    case GPEMU_CUDA_COMM_MAX:
    case GPEMU_CUDA_COMM_MIN:
      return extreme_of(reduction == GPEMU_CUDA_COMM_MAX, a, b);
    case GPEMU_CUDA_COMM_SUM:
    case GPEMU_CUDA_COMM_AVG:
    case GPEMU_CUDA_COMM_SCALED_SUM:
      break;
  }
  return sum_of(a, b);
}

/// Rounds a value to the type.
template <typename Type, typename T>
T rounded_as(T value) {
  std::array<std::byte, 8> bytes{};
  Type::store(value, bytes.data());
  return Type::load(bytes.data());
}

template <typename Type>
void combine_as(gpemu_cuda_comm_reduction reduction,
                std::span<const std::span<const std::byte>> sources, std::span<std::byte> result) {
  using T = decltype(Type::load(nullptr));
  const bool averages = reduction == GPEMU_CUDA_COMM_AVG;
  // Averages of reals multiply each source by 1/n; those of whole numbers divide the sum.
  const bool scales = averages && !std::is_integral_v<T>;
  const T scale =
      scales ? rounded_as<Type>(static_cast<T>(1.0 / static_cast<double>(sources.size()))) : T{};
  const auto load = [&](std::span<const std::byte> source, Bytes at) {
    const T value = Type::load(&source[at]);
    return scales ? rounded_as<Type>(product_of(value, scale)) : value;
  };
  for (Bytes at = 0; at < result.size(); at += Type::kBytes) {
    T value = load(sources[0], at);
    for (const auto& source : sources.subspan(1)) {
      value = rounded_as<Type>(reduced(reduction, value, load(source, at)));
    }
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      if (averages) {
        value = static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(sources.size()));
      }
    }
    Type::store(value, &result[at]);
  }
}

/// Calls `visit` with the description of a type.
template <typename Visit>
void with_comm_type(gpemu_cuda_comm_type type, Visit visit) {
  switch (type) {
    case GPEMU_CUDA_COMM_INT8:
      return visit(Native<std::int8_t>());
    case GPEMU_CUDA_COMM_UINT8:
      return visit(Native<std::uint8_t>());
    case GPEMU_CUDA_COMM_INT32:
      return visit(Native<std::int32_t>());
    case GPEMU_CUDA_COMM_UINT32:
      return visit(Native<std::uint32_t>());
    case GPEMU_CUDA_COMM_INT64:
      return visit(Native<std::int64_t>());
    case GPEMU_CUDA_COMM_UINT64:
      return visit(Native<std::uint64_t>());
    case GPEMU_CUDA_COMM_FP32:
      return visit(Native<float>());
    case GPEMU_CUDA_COMM_FP64:
      return visit(Native<double>());
    case GPEMU_CUDA_COMM_FP16:
      return visit(SmallReal<kernels::NumberType::kFloat16>());
    case GPEMU_CUDA_COMM_BF16:
      return visit(SmallReal<kernels::NumberType::kBFloat16>());
    case GPEMU_CUDA_COMM_FP8_E4M3:
      return visit(TinyReal<4, 3>());
    case GPEMU_CUDA_COMM_FP8_E5M2:
      return visit(TinyReal<5, 2>());
  }
}

}  // namespace

const char* collective_name(gpemu_cuda_collective kind) {
  static constexpr std::array kNames = {
      "ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather",
      "ncclAlltoAll",  "ncclGather", "ncclScatter",       "ncclSend",      "ncclRecv"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "an unknown collective";
}

const char* comm_type_name(gpemu_cuda_comm_type type) {
  static constexpr std::array kNames = {"int8", "uint8", "int32", "uint32", "int64",    "uint64",
                                        "fp16", "fp32",  "fp64",  "bf16",   "fp8_e4m3", "fp8_e5m2"};
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "an unknown type";
}

Bytes element_bytes(gpemu_cuda_comm_type type) {
  Bytes bytes = 0;
  with_comm_type(type, [&bytes](auto described) { bytes = decltype(described)::kBytes; });
  return bytes;
}

bool reduces(gpemu_cuda_collective kind) {
  return kind == GPEMU_CUDA_ALL_REDUCE || kind == GPEMU_CUDA_REDUCE ||
         kind == GPEMU_CUDA_REDUCE_SCATTER;
}

bool CollectiveCall::resembles(const CollectiveCall& other) const {
  // A send belongs to a receive.
  const auto pair = [](gpemu_cuda_collective one) {
    return one == GPEMU_CUDA_RECEIVE ? GPEMU_CUDA_SEND : one;
  };
  return pair(kind) == pair(other.kind) && root == other.root;
}

bool CollectiveCall::matches(const CollectiveCall& other) const {
  return resembles(other) && type == other.type && reduction == other.reduction &&
         count == other.count;
}

std::string CollectiveCall::to_string() const {
  std::string text = fmt::format("{} of {} elements of type {}", collective_name(kind), count,
                                 static_cast<int>(type));
  if (reduces(kind)) text += fmt::format(", reduction {}", static_cast<int>(reduction));
  if (root != 0) text += fmt::format(", root {}", root);
  return text;
}

Bytes source_bytes(const CollectiveCall& call, Place place) {
  const Bytes one = call.count * element_bytes(call.type);
  const bool is_root = place.rank == call.root;
  switch (call.kind) {
    case GPEMU_CUDA_ALL_REDUCE:
    case GPEMU_CUDA_REDUCE:
    case GPEMU_CUDA_ALL_GATHER:
    case GPEMU_CUDA_GATHER:
      return one;
    case GPEMU_CUDA_REDUCE_SCATTER:
    case GPEMU_CUDA_ALL_TO_ALL:
      return one * static_cast<Bytes>(place.ranks);
    case GPEMU_CUDA_BROADCAST:
      return is_root ? one : 0;
    case GPEMU_CUDA_SCATTER:
      return is_root ? one * static_cast<Bytes>(place.ranks) : 0;
    case GPEMU_CUDA_SEND:
    case GPEMU_CUDA_RECEIVE:
      return place.rank == 0 ? one : 0;
  }
  return 0;
}

Bytes destination_bytes(const CollectiveCall& call, Place place) {
  const Bytes one = call.count * element_bytes(call.type);
  const bool is_root = place.rank == call.root;
  switch (call.kind) {
    case GPEMU_CUDA_ALL_REDUCE:
    case GPEMU_CUDA_REDUCE_SCATTER:
    case GPEMU_CUDA_BROADCAST:
    case GPEMU_CUDA_SCATTER:
      return one;
    case GPEMU_CUDA_REDUCE:
      return is_root ? one : 0;
    case GPEMU_CUDA_ALL_GATHER:
    case GPEMU_CUDA_ALL_TO_ALL:
      return one * static_cast<Bytes>(place.ranks);
    case GPEMU_CUDA_GATHER:
      return is_root ? one * static_cast<Bytes>(place.ranks) : 0;
    case GPEMU_CUDA_SEND:
    case GPEMU_CUDA_RECEIVE:
      return place.rank == 1 ? one : 0;
  }
  return 0;
}

Bytes collective_bytes(const CollectiveCall& call, int ranks) {
  const Bytes one = call.count * element_bytes(call.type);
  switch (call.kind) {
    case GPEMU_CUDA_REDUCE_SCATTER:
    case GPEMU_CUDA_ALL_GATHER:
    case GPEMU_CUDA_ALL_TO_ALL:
    case GPEMU_CUDA_GATHER:
    case GPEMU_CUDA_SCATTER:
      return one * static_cast<Bytes>(ranks);
    case GPEMU_CUDA_ALL_REDUCE:
    case GPEMU_CUDA_REDUCE:
    case GPEMU_CUDA_BROADCAST:
    case GPEMU_CUDA_SEND:
    case GPEMU_CUDA_RECEIVE:
      break;
  }
  return one;
}

bool call_fits(const CollectiveCall& call, int ranks) {
  Bytes whole = 0;
  return !__builtin_mul_overflow(call.count, element_bytes(call.type), &whole) &&
         !__builtin_mul_overflow(whole, static_cast<Bytes>(ranks), &whole);
}

std::vector<Slice> slices_for(const CollectiveCall& call, Place place) {
  std::vector<Slice> slices;
  const Bytes one = call.count * element_bytes(call.type);
  if (destination_bytes(call, place) == 0) return slices;
  switch (call.kind) {
    case GPEMU_CUDA_BROADCAST:
      return {{.from = call.root, .bytes = one}};
    case GPEMU_CUDA_SCATTER:
      return {{.from = call.root, .source = one * static_cast<Bytes>(place.rank), .bytes = one}};
    case GPEMU_CUDA_SEND:
    case GPEMU_CUDA_RECEIVE:
      return {{.from = 0, .bytes = one}};
    default:
      break;
  }
  const bool from_parts =
      call.kind == GPEMU_CUDA_REDUCE_SCATTER || call.kind == GPEMU_CUDA_ALL_TO_ALL;
  for (int rank = 0; rank < place.ranks; ++rank) {
    slices.push_back({.from = rank,
                      .source = from_parts ? one * static_cast<Bytes>(place.rank) : 0,
                      .destination = reduces(call.kind) ? 0 : one * static_cast<Bytes>(rank),
                      .bytes = one});
  }
  return slices;
}

void combine(gpemu_cuda_comm_type type, gpemu_cuda_comm_reduction reduction,
             std::span<const std::span<const std::byte>> sources, std::span<std::byte> result) {
  with_comm_type(
      type, [&](auto described) { combine_as<decltype(described)>(reduction, sources, result); });
}

void scale_elements(gpemu_cuda_comm_type type, std::span<const std::byte> scale,
                    std::span<std::byte> elements) {
  with_comm_type(type, [&](auto described) {
    using Type = decltype(described);
    const auto factor = Type::load(scale.data());
    for (Bytes at = 0; at < elements.size(); at += Type::kBytes) {
      Type::store(product_of(Type::load(&elements[at]), factor), &elements[at]);
    }
  });
}

}  // namespace gpemu::ranks
