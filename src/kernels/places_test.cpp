// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/places.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

std::vector<Bytes> pieces(const Places& places, Bytes element_bytes) {
  std::vector<Bytes> found;
  Walk walk(places, element_bytes);
  for (Bytes left = walk.pieces(); left > 0; --left) {
    found.push_back(walk.offset());
    found.push_back(walk.left());
    walk.advance(walk.left());
  }
  return found;
}

TEST(Places, InOrderBeginAtTheLowestAndNameEachPlaceOnce) {
  Places places{.dimensions = 0};
  places.add(3, 40);            // rows
  places.add(1, 8);             // nothing
  places.add(2, Bytes{0} - 4);  // columns from right to left
  places.add(5, 0);             // the same places again
  EXPECT_EQ(places.before(), 4U);
  const Places order = places.in_order();
  EXPECT_EQ(order.dimensions, 2);
  EXPECT_EQ(order.before(), 0U);
  EXPECT_EQ(places.closest(), 4U);
  EXPECT_EQ(pieces(order, 4), (std::vector<Bytes>{0, 8, 40, 8, 80, 8}));
}

TEST(Places, WithoutGapsAreOnePiece) {
  Places columns{.dimensions = 0};
  columns.add(4, 12);
  columns.add(3, 4);
  EXPECT_EQ(pieces(columns, 4).size(), 2U * 12);
  EXPECT_EQ(pieces(columns.in_order(), 4), (std::vector<Bytes>{0, 48}));
  EXPECT_EQ(pieces(in_a_row(1, 4).in_order(), 4), (std::vector<Bytes>{0, 4}));
}

}  // namespace
}  // namespace gpemu::kernels
