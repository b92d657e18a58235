// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/collective.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Combines what several ranks have.
template <typename T>
std::vector<T> combined(gpemu_cuda_comm_type type, gpemu_cuda_comm_reduction reduction,
                        const std::vector<std::vector<T>>& ranks) {
  std::vector<std::vector<std::byte>> kept;
  for (const auto& rank : ranks) kept.push_back(bytes_of(rank));
  const std::vector<std::span<const std::byte>> sources(kept.begin(), kept.end());
  std::vector<T> result(ranks.front().size());
  combine(type, reduction, sources, std::as_writable_bytes(std::span(result)));
  return result;
}

template <typename T>
void expect_whole_numbers_of(gpemu_cuda_comm_type type) {
  using Values = std::vector<T>;
  constexpr T kMost = std::numeric_limits<T>::max();
  const std::vector<Values> ranks = {{1, 100, kMost}, {2, 3, 1}, {4, 0, 0}};
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_SUM, ranks),
            (Values{7, 103, std::numeric_limits<T>::min()}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_PROD, ranks), (Values{8, 0, 0}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_MAX, ranks), (Values{4, 100, kMost}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_MIN, ranks), (Values{1, 0, 0}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_AVG, {{1, 100, 9}, {2, 3, 0}}), (Values{1, 51, 4}));
}

TEST(Collective, CombinesWholeNumbersThatWrapAround) {
  expect_whole_numbers_of<std::int8_t>(GPEMU_CUDA_COMM_INT8);
  expect_whole_numbers_of<std::uint8_t>(GPEMU_CUDA_COMM_UINT8);
  expect_whole_numbers_of<std::int32_t>(GPEMU_CUDA_COMM_INT32);
  expect_whole_numbers_of<std::uint32_t>(GPEMU_CUDA_COMM_UINT32);
  expect_whole_numbers_of<std::int64_t>(GPEMU_CUDA_COMM_INT64);
  expect_whole_numbers_of<std::uint64_t>(GPEMU_CUDA_COMM_UINT64);
}

TEST(Collective, AveragesOfNegativeNumbersAreRoundedTowardsZero) {
  EXPECT_EQ(combined<std::int32_t>(GPEMU_CUDA_COMM_INT32, GPEMU_CUDA_COMM_AVG, {{-3}, {-4}}),
            std::vector<std::int32_t>{-3});
  const std::vector<std::vector<std::int8_t>> many(200, {1});
  EXPECT_EQ(combined<std::int8_t>(GPEMU_CUDA_COMM_INT8, GPEMU_CUDA_COMM_AVG, many),
            std::vector<std::int8_t>{0});
}

template <typename T>
void expect_reals_of(gpemu_cuda_comm_type type) {
  using Values = std::vector<T>;
  const std::vector<Values> ranks = {{1.5, -2, 0.1F}, {2.5, 8, 0.2F}};
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_SUM, ranks),
            (Values{4, 6, static_cast<T>(0.1F) + static_cast<T>(0.2F)}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_PROD, ranks),
            (Values{3.75, -16, static_cast<T>(0.1F) * static_cast<T>(0.2F)}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_MAX, ranks), (Values{2.5, 8, 0.2F}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_MIN, ranks), (Values{1.5, -2, 0.1F}));
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_AVG, {{1, 3, 5}, {2, -3, 0}}), (Values{1.5, 0, 2.5}));
  const T nan = std::numeric_limits<T>::quiet_NaN();
  EXPECT_EQ(combined<T>(type, GPEMU_CUDA_COMM_MAX, {{nan, 1}, {1, nan}}), (Values{1, 1}));
  EXPECT_TRUE(std::isnan(combined<T>(type, GPEMU_CUDA_COMM_SUM, {{nan}, {1}})[0]));
}

TEST(Collective, CombinesRealsInTheOrderOfRanks) {
  expect_reals_of<float>(GPEMU_CUDA_COMM_FP32);
  expect_reals_of<double>(GPEMU_CUDA_COMM_FP64);
  EXPECT_EQ(combined<float>(GPEMU_CUDA_COMM_FP32, GPEMU_CUDA_COMM_SUM, {{1e8F}, {1}, {-1e8F}}),
            std::vector<float>{0});
  EXPECT_EQ(combined<float>(GPEMU_CUDA_COMM_FP32, GPEMU_CUDA_COMM_SUM, {{1e8F}, {-1e8F}, {1}}),
            std::vector<float>{1});
}

TEST(Collective, RoundsSmallRealsAfterEachStep) {
  using Halves = std::vector<std::uint16_t>;
  // FP16 has no number between 2048 and 2050.
  EXPECT_EQ(combined<std::uint16_t>(GPEMU_CUDA_COMM_FP16, GPEMU_CUDA_COMM_SUM,
                                    {{0x6800}, {0x3c00}, {0x3c00}}),
            Halves{0x6800});
  EXPECT_EQ(
      combined<std::uint16_t>(GPEMU_CUDA_COMM_FP16, GPEMU_CUDA_COMM_AVG, {{0x3c00}, {0x4200}}),
      Halves{0x4000});
  EXPECT_EQ(
      combined<std::uint16_t>(GPEMU_CUDA_COMM_FP16, GPEMU_CUDA_COMM_PROD, {{0x7bff}, {0x4000}}),
      Halves{0x7c00});
  // BF16: 256 + 1.
  EXPECT_EQ(combined<std::uint16_t>(GPEMU_CUDA_COMM_BF16, GPEMU_CUDA_COMM_SUM,
                                    {{0x4380}, {0x3f80}, {0x3f80}}),
            Halves{0x4380});
  EXPECT_EQ(
      combined<std::uint16_t>(GPEMU_CUDA_COMM_BF16, GPEMU_CUDA_COMM_MIN, {{0x4380}, {0xbf80}}),
      Halves{0xbf80});
}

TEST(Collective, TinyRealsSaturate) {
  using Tiny = std::vector<std::uint8_t>;
  const auto sum = [](gpemu_cuda_comm_type type, std::uint8_t a, std::uint8_t b) {
    return combined<std::uint8_t>(type, GPEMU_CUDA_COMM_SUM, {{a}, {b}});
  };
  // E4M3: 1 is 0x38, 2 is 0x40, 16 is 0x58, 448 is 0x7e, the smallest is 1/512.
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0x38, 0x38), Tiny{0x40});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0x7e, 0x38), Tiny{0x7e});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0xfe, 0xfe), Tiny{0xfe});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0x58, 0x38), Tiny{0x58}) << "17 is rounded to even";
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0x01, 0x01), Tiny{0x02});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0x07, 0x01), Tiny{0x08});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E4M3, 0x7f, 0x38), Tiny{0x7f});
  // E5M2: 1 is 0x3c, 2 is 0x40, the largest is 0x7b, infinity 0x7c.
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E5M2, 0x3c, 0x3c), Tiny{0x40});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E5M2, 0x7b, 0x7b), Tiny{0x7b});
  EXPECT_EQ(sum(GPEMU_CUDA_COMM_FP8_E5M2, 0x7d, 0x3c), Tiny{0x7f});
}

/// Converting a value and back must give its bits.
TEST(Collective, KnowsEveryTinyReal) {
  for (const auto type : {GPEMU_CUDA_COMM_FP8_E4M3, GPEMU_CUDA_COMM_FP8_E5M2}) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto value = static_cast<std::uint8_t>(bits);
      const bool is_special = (bits & 0x7f) >= (type == GPEMU_CUDA_COMM_FP8_E4M3 ? 0x7f : 0x7c);
      if (is_special) continue;
      const auto result = combined<std::uint8_t>(type, GPEMU_CUDA_COMM_MAX, {{value}, {value}});
      EXPECT_EQ(result[0], value);
    }
  }
}

TEST(Collective, ScalesElements) {
  std::vector<float> elements = {1, -2, 0.5};
  const float scale = 0.25;
  scale_elements(GPEMU_CUDA_COMM_FP32, std::as_bytes(std::span(&scale, 1)),
                 std::as_writable_bytes(std::span(elements)));
  EXPECT_EQ(elements, (std::vector<float>{0.25, -0.5, 0.125}));
}

constexpr CollectiveCall call_of(gpemu_cuda_collective kind, std::int32_t root = 0) {
  return {.kind = kind, .type = GPEMU_CUDA_COMM_INT32, .root = root, .count = 5};
}

/// The source and destination of rank 1 of 3, which is the root or not.
TEST(Collective, SizesFollowTheCall) {
  const struct {
    gpemu_cuda_collective kind;
    std::int32_t root;
    Bytes source, destination;
  } expected[] = {
      {GPEMU_CUDA_ALL_REDUCE, 0, 20, 20}, {GPEMU_CUDA_REDUCE, 0, 20, 0},
      {GPEMU_CUDA_REDUCE, 1, 20, 20},     {GPEMU_CUDA_REDUCE_SCATTER, 0, 60, 20},
      {GPEMU_CUDA_BROADCAST, 0, 0, 20},   {GPEMU_CUDA_BROADCAST, 1, 20, 20},
      {GPEMU_CUDA_ALL_GATHER, 0, 20, 60}, {GPEMU_CUDA_ALL_TO_ALL, 0, 60, 60},
      {GPEMU_CUDA_GATHER, 0, 20, 0},      {GPEMU_CUDA_GATHER, 1, 20, 60},
      {GPEMU_CUDA_SCATTER, 0, 0, 20},     {GPEMU_CUDA_SCATTER, 1, 60, 20},
      {GPEMU_CUDA_SEND, 0, 0, 20},        {GPEMU_CUDA_RECEIVE, 0, 0, 20},
  };
  for (const auto& [kind, root, source, destination] : expected) {
    const CollectiveCall call = call_of(kind, root);
    EXPECT_EQ(source_bytes(call, {1, 3}), source) << call.to_string();
    EXPECT_EQ(destination_bytes(call, {1, 3}), destination) << call.to_string();
  }
  // Rank 0 of a pair sends, whichever of the two asks.
  EXPECT_EQ(source_bytes(call_of(GPEMU_CUDA_RECEIVE), {0, 2}), 20U);
  EXPECT_EQ(destination_bytes(call_of(GPEMU_CUDA_SEND), {0, 2}), 0U);
}

TEST(Collective, SlicesSayWhoseBytesGoWhere) {
  using Slices = std::vector<Slice>;
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_ALL_GATHER), {1, 2}),
            (Slices{{0, 0, 0, 20}, {1, 0, 20, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_ALL_TO_ALL), {1, 2}),
            (Slices{{0, 20, 0, 20}, {1, 20, 20, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_REDUCE_SCATTER), {1, 2}),
            (Slices{{0, 20, 0, 20}, {1, 20, 0, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_ALL_REDUCE), {1, 2}),
            (Slices{{0, 0, 0, 20}, {1, 0, 0, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_SCATTER, 2), {1, 3}), (Slices{{2, 20, 0, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_BROADCAST, 2), {1, 3}), (Slices{{2, 0, 0, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_GATHER, 2), {1, 3}), Slices{});
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_GATHER, 1), {1, 2}),
            (Slices{{0, 0, 0, 20}, {1, 0, 20, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_RECEIVE), {1, 2}), (Slices{{0, 0, 0, 20}}));
  EXPECT_EQ(slices_for(call_of(GPEMU_CUDA_SEND), {0, 2}), Slices{});
}

TEST(Collective, CallsMatchWhateverTheirAddresses) {
  CollectiveCall call = call_of(GPEMU_CUDA_REDUCE, 1), other = call;
  other.source = 8;
  EXPECT_TRUE(call.matches(other));
  other.count = 4;
  EXPECT_FALSE(call.matches(other));
  EXPECT_EQ(call.to_string(), "ncclReduce of 5 elements of type 2, reduction 0, root 1");
  EXPECT_TRUE(call_of(GPEMU_CUDA_SEND).matches(call_of(GPEMU_CUDA_RECEIVE)));
  EXPECT_FALSE(call_of(GPEMU_CUDA_SEND).matches(call_of(GPEMU_CUDA_GATHER)));
}

TEST(Collective, SizesBeyond64BitsDoNotFit) {
  CollectiveCall call = call_of(GPEMU_CUDA_ALL_GATHER);
  EXPECT_TRUE(call_fits(call, 1024));
  call.count = ~std::uint64_t{0} / 8;
  EXPECT_TRUE(call_fits(call, 2));
  EXPECT_FALSE(call_fits(call, 3));
}

}  // namespace
}  // namespace gpemu::ranks
