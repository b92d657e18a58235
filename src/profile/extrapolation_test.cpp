// SPDX-License-Identifier: Apache-2.0
#include "extrapolation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

/// Noise in [-0.5, 0.5), the same for the same seed.
class Noise {
 public:
  explicit Noise(std::uint32_t seed) : state_(seed) {}

  double next() {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<double>(state_ >> 8) / 16777216.0 - 0.5;
  }

 private:
  std::uint32_t state_;
};

double rounded(double value, double scale) {
  return std::round(value * scale) / scale;
}

/// Times of batches 1 to 256 as GPEmu publishes them: noisy up to `measured`, then a straight line.
std::vector<CurvePoint> times(int measured, double scale) {
  Noise noise(11);
  std::vector<CurvePoint> rows;
  for (int batch = 1; batch <= 256; ++batch) {
    const double line = 3.1415926535897 + 1.7320508075688 * batch;
    const double value = batch <= measured ? line * (1 + 0.004 * noise.next()) : line;
    rows.push_back({batch, scale == 0 ? value : rounded(value, scale)});
  }
  return rows;
}

TEST(LinearFill, IsFoundAtFullPrecision) {
  for (const int measured : {1, 58, 200, 250, 253}) {
    EXPECT_EQ(find_linear_fill(times(measured, 0)), static_cast<std::size_t>(measured)) << measured;
  }
}

TEST(LinearFill, IsFoundInRoundedTables) {
  for (const int measured : {58, 200, 250}) {
    EXPECT_EQ(find_linear_fill(times(measured, 1e4)), static_cast<std::size_t>(measured))
        << measured;
  }
}

TEST(LinearFill, IsNotFoundWhereEverythingWasMeasured) {
  EXPECT_EQ(find_linear_fill(times(256, 0)), 256U);
  EXPECT_EQ(find_linear_fill(times(256, 1e4)), 256U);
}

TEST(LinearFill, NeedsThreeRows) {
  EXPECT_EQ(find_linear_fill({}), 0U);
  const std::vector<CurvePoint> two = {{1, 1.5}, {2, 2.5}};
  EXPECT_EQ(find_linear_fill(two), 2U);
  EXPECT_EQ(find_linear_fill(times(254, 0)), 256U);
}

/// Memory of batches 1 to 256: measured, in blocks of 512 bytes, where `measured` says so, else on
/// a polynomial. `scale` of zero is full precision.
template <typename Predicate>
std::vector<MemoryRow> memory(Predicate measured, double scale) {
  Noise noise(23);
  std::vector<MemoryRow> rows;
  for (int batch = 1; batch <= 256; ++batch) {
    MemoryRow row{.batch = batch,
                  .peak = 500.123456789 + 111.6398765 * batch - 1e-4 * batch * batch,
                  .persistent = 1520.123456789 + 0.567891234 * batch - 1.7e-4 * batch * batch};
    if (measured(batch)) {
      row.peak = rounded(row.peak + 4 * noise.next(), 2048);
      row.persistent = rounded(row.persistent + 3 * noise.next(), 2048);
    }
    if (scale != 0) {
      row.peak = rounded(row.peak, scale);
      row.persistent = rounded(row.persistent, scale);
    }
    rows.push_back(row);
  }
  return rows;
}

const auto kEvery16th = [](int batch) { return batch % 16 == 0; };
const auto kUpTo76 = [](int batch) { return batch <= 76 && batch != 65 && batch != 68; };
const auto kUpTo250 = [](int batch) { return batch <= 250; };

template <typename Predicate>
void expect_exact(Predicate measured) {
  const std::vector<bool> filled = find_polynomial_fill(memory(measured, 0));
  for (int batch = 1; batch <= 256; ++batch) {
    EXPECT_EQ(filled[static_cast<std::size_t>(batch - 1)], !measured(batch)) << batch;
  }
}

TEST(PolynomialFill, IsExactAtFullPrecision) {
  expect_exact(kEvery16th);
  expect_exact(kUpTo76);
  expect_exact(kUpTo250);
  expect_exact([](int) { return true; });
  expect_exact([](int) { return false; });
}

/// In rounded tables nothing that was filled in may pass for measured; the reverse may happen, but
/// not often.
template <typename Predicate>
void expect_safe(Predicate measured) {
  const std::vector<bool> filled = find_polynomial_fill(memory(measured, 10));
  int condemned = 0;
  int all = 0;
  for (int batch = 1; batch <= 256; ++batch) {
    const bool is_filled = filled[static_cast<std::size_t>(batch - 1)];
    EXPECT_TRUE(is_filled || measured(batch)) << batch;
    all += measured(batch) ? 1 : 0;
    condemned += is_filled && measured(batch) ? 1 : 0;
  }
  EXPECT_LE(condemned * 10, all);
}

TEST(PolynomialFill, IsSafeInRoundedTables) {
  expect_safe(kEvery16th);
  expect_safe(kUpTo76);
  expect_safe(kUpTo250);
  expect_safe([](int) { return true; });
}

TEST(PolynomialFill, TakesWhatLittleThereIs) {
  EXPECT_TRUE(find_polynomial_fill({}).empty());
  const std::vector<MemoryRow> rows = {{1, 10.5, 5.5}, {2, 20.5, 5.5}};
  EXPECT_EQ(find_polynomial_fill(rows), (std::vector<bool>{false, false}));
}

TEST(RowsOnTail, AreThoseThatFlagsForgot) {
  const std::vector<bool> on = find_rows_on_tail(memory(kUpTo76, 10), 76);
  EXPECT_TRUE(on[64]);
  EXPECT_TRUE(on[67]);
  EXPECT_LE(std::ranges::count(on, true), 5);
  EXPECT_EQ(std::count(on.begin() + 76, on.end(), true), 0);
}

TEST(RowsOnTail, NeedATail) {
  const std::vector<bool> on = find_rows_on_tail(memory(kUpTo76, 10), 251);
  EXPECT_EQ(std::ranges::count(on, true), 0);
}

}  // namespace
}  // namespace gpemu::profile
