// SPDX-License-Identifier: Apache-2.0
#include "collectives/numbers.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::collectives {
namespace {

std::vector<unsigned> bytes_of(const char* type, double number) {
  std::vector<unsigned> bytes;
  for (const std::byte byte : encode(*find_number_type(type), {number})) {
    bytes.push_back(static_cast<unsigned>(byte));
  }
  return bytes;
}

using Bytes = std::vector<unsigned>;

TEST(Numbers, HaveTheirBits) {
  EXPECT_EQ(bytes_of("half", 1.0), (Bytes{0x00, 0x3c}));
  EXPECT_EQ(bytes_of("half", -2.5), (Bytes{0x00, 0xc1}));
  EXPECT_EQ(bytes_of("half", 65504), (Bytes{0xff, 0x7b}));
  EXPECT_EQ(bytes_of("half", 0x1p-24), (Bytes{0x01, 0x00})) << "the smallest";
  EXPECT_EQ(bytes_of("bfloat16", 1.0), (Bytes{0x80, 0x3f}));
  EXPECT_EQ(bytes_of("f8e4m3", 448), (Bytes{0x7e}));
  EXPECT_EQ(bytes_of("f8e4m3", 1.0), (Bytes{0x38}));
  EXPECT_EQ(bytes_of("f8e5m2", 1.0), (Bytes{0x3c}));
  EXPECT_EQ(bytes_of("f8e5m2", 57344), (Bytes{0x7b}));
  EXPECT_EQ(bytes_of("int8", -2), (Bytes{0xfe}));
  EXPECT_EQ(bytes_of("uint32", 4294967295.0), (Bytes{0xff, 0xff, 0xff, 0xff}));
}

TEST(Numbers, AreRoundedToTheNearestTiesToEven) {
  EXPECT_EQ(bytes_of("f8e5m2", 9), bytes_of("f8e5m2", 8)) << "between 8 and 10";
  EXPECT_EQ(bytes_of("f8e5m2", 11), bytes_of("f8e5m2", 12)) << "between 10 and 12";
  EXPECT_EQ(bytes_of("half", 2049), bytes_of("half", 2048));
  EXPECT_EQ(bytes_of("half", 1e9), (Bytes{0x00, 0x7c})) << "infinity";
}

TEST(Numbers, AreFloatsAndDoublesOfTheHost) {
  for (const double number : {0.0, -0.0, 1.0, 3.25, -1e-40, 1e-45, 3.4e38}) {
    const auto real = static_cast<float>(number);
    Bytes expected(sizeof real);
    std::vector<unsigned char> raw(sizeof real);
    std::memcpy(raw.data(), &real, sizeof real);
    expected.assign(raw.begin(), raw.end());
    EXPECT_EQ(bytes_of("float", number), expected) << number;
    EXPECT_EQ(decode(*find_number_type("double"), encode(*find_number_type("double"), {number})),
              std::vector<double>{number});
  }
}

TEST(Numbers, OfOneByteAllComeBack) {
  for (const char* name : {"f8e4m3", "f8e5m2", "int8", "uint8"}) {
    const NumberType& type = *find_number_type(name);
    for (int bits = 0; bits < 256; ++bits) {
      const std::vector<std::byte> bytes{static_cast<std::byte>(bits)};
      const double number = decode(type, bytes)[0];
      if (!std::isnan(number)) {
        EXPECT_EQ(encode(type, {number}), bytes) << name << ' ' << bits;
      }
    }
  }
}

TEST(Numbers, OfUnknownTypesAreNone) {
  EXPECT_EQ(find_number_type("quarter"), nullptr);
}

}  // namespace
}  // namespace gpemu::collectives
