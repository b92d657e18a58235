// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/number.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

using enum NumberType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Reads an element of these bits and writes it again.
std::uint64_t written_again(std::uint64_t bits, NumberType type) {
  std::array<std::byte, 8> from{}, to{};
  std::memcpy(from.data(), &bits, sizeof(bits));
  store_number(load_number(from.data(), type), type, to.data());
  std::memcpy(&bits, to.data(), sizeof(bits));
  return bits;
}

std::uint64_t bits_of(Number number, NumberType type) {
  std::uint64_t bits = 0;
  store_number(number, type, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

double real_of(std::int64_t whole, NumberType to) {
  return convert_number({.whole = whole}, kInt64, to).real;
}

std::int64_t whole_of(double real, NumberType to, NumberType from = kFloat32) {
  return convert_number({.real = real}, from, to).whole;
}

TEST(Number, NansKeepTheirBits) {
  for (const std::uint64_t bits : {0x7c01U, 0x7e00U, 0x7fffU, 0xfc01U, 0xfe00U, 0xffffU}) {
    EXPECT_EQ(written_again(bits, kFloat16), bits);
  }
  for (const std::uint64_t bits : {0x7f81U, 0x7fc0U, 0x7fffU, 0xff81U, 0xffc0U, 0xffffU}) {
    EXPECT_EQ(written_again(bits, kBFloat16), bits);
  }
  for (const std::uint64_t bits : {0x7f800001U, 0x7fc00000U, 0xff812345U, 0xffffffffU}) {
    EXPECT_EQ(written_again(bits, kFloat32), bits);
  }
  EXPECT_EQ(written_again(0x7ff0000000000001, kFloat64), 0x7ff0000000000001);
}

TEST(Number, ConversionsMakeOneNan) {
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  const auto bits = [nan](NumberType from, NumberType to) {
    return bits_of(convert_number({.real = nan}, from, to), to);
  };
  EXPECT_EQ(bits(kFloat64, kFloat32), 0x7fffffffU);
  EXPECT_EQ(bits(kFloat32, kFloat16), 0x7fffU);
}

TEST(Number, RealsAreRoundedToTheOtherType) {
  EXPECT_EQ(convert_number({.real = 0.1}, kFloat64, kFloat32).real, 0.1F);
  EXPECT_EQ(convert_number({.real = 2049}, kFloat32, kFloat16).real, 2048);
  EXPECT_EQ(convert_number({.real = 1e5}, kFloat32, kFloat16).real, kInfinity);
  EXPECT_EQ(convert_number({.real = 257}, kFloat32, kBFloat16).real, 256);
  EXPECT_EQ(convert_number({.real = 1.5}, kFloat16, kFloat64).real, 1.5);
}

TEST(Number, WholeNumbersAreRoundedOnce) {
  EXPECT_EQ(real_of(16777217, kFloat32), 16777216);
  // To FP64 it would first become 2^60 + 2^36, a tie.
  EXPECT_EQ(real_of(1152921573326323713, kFloat32), 0x1p60 + 0x1p37);
  EXPECT_EQ(real_of(16777217, kFloat64), 16777217);
  EXPECT_EQ(real_of(2049, kFloat16), 2048);
  EXPECT_EQ(real_of(-257, kBFloat16), -256);
}

TEST(Number, WholeNumbersAreCutOff) {
  const auto cut = [](std::int64_t whole, NumberType to) {
    return convert_number({.whole = whole}, kInt64, to).whole;
  };
  EXPECT_EQ(cut(300, kUint8), 44);
  EXPECT_EQ(cut(200, kInt8), -56);
  EXPECT_EQ(cut(70000, kInt16), 4464);
  EXPECT_EQ(cut((std::int64_t{1} << 32) + 5, kInt32), 5);
  EXPECT_EQ(cut(256, kBool), 1);
}

TEST(Number, RealsBeyondTheRangeBecomeTheNearestOfTheTypeConvertedBy) {
  using Limits32 = std::numeric_limits<std::int32_t>;
  using Limits64 = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(whole_of(3e9, kInt32), Limits32::max());
  EXPECT_EQ(whole_of(-kInfinity, kInt32), Limits32::min());
  EXPECT_EQ(whole_of(2147483646.9, kInt32, kFloat64), 2147483646);
  EXPECT_EQ(whole_of(kInfinity, kInt64), Limits64::max());
  EXPECT_EQ(whole_of(-1e30, kInt64), Limits64::min());
  // By way of 32 bits.
  EXPECT_EQ(whole_of(kInfinity, kInt8), -1);
  EXPECT_EQ(whole_of(300, kInt8), 44);
  EXPECT_EQ(whole_of(1e6, kInt16), 16960);
  EXPECT_EQ(whole_of(-kInfinity, kInt16), 0);
  // By way of 64 bits.
  EXPECT_EQ(whole_of(-1, kUint8), 255);
  EXPECT_EQ(whole_of(5e9, kUint8), 5000000000 % 256);
  EXPECT_EQ(whole_of(kInfinity, kUint8), 255);
}

TEST(Number, NansBecomeTheWholeNumbersThatTheInstructionsMake) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(whole_of(nan, kInt32), 0);
  EXPECT_EQ(whole_of(nan, kInt32, kFloat64), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(whole_of(nan, kInt64), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(whole_of(nan, kUint8), 0);
  EXPECT_EQ(whole_of(nan, kBool), 1);
}

}  // namespace
}  // namespace gpemu::kernels
