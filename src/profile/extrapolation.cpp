// SPDX-License-Identifier: Apache-2.0
#include "extrapolation.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpemu::profile {
namespace {

/// Rounding of double arithmetic, with a wide margin.
constexpr double kRelativeRounding = 1e-12;

/// Blocks of PyTorch's allocator in one MiB.
constexpr double kBlocksPerMib = 2048;

/// Fewer rows on one polynomial are taken for chance. The shortest fill in GPEmu's memory tables
/// has 6 rows (densenet169 on A100).
constexpr std::size_t kMinPolynomialRows = 6;

/// Returns half of the last printed digit of a column, 0 when it is printed at full precision.
double half_digit(std::span<const double> values) {
  double scale = 1;
  // Ten digits cannot be rounding of a time or a size that somebody measured.
  for (int decimals = 0; decimals < 10; ++decimals, scale *= 10) {
    const auto is_whole = [scale](double value) {
      return std::abs(value * scale - std::round(value * scale)) < 1e-4;
    };
    if (std::ranges::all_of(values, is_whole)) return 0.5 / scale;
  }
  return 0;
}

/// What arithmetic and printing may have done to a value.
double slack(double half_digit, double value) {
  return half_digit * (1 + 1e-6) + kRelativeRounding * std::abs(value);
}

/// The polynomial through three rows, at one batch: how much each row counts.
struct Weights {
  Weights(const std::array<double, 3>& at, double batch) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double other = at[(i + 1) % 3];
      const double another = at[(i + 2) % 3];
      weight[i] = (batch - other) * (batch - another) / ((at[i] - other) * (at[i] - another));
    }
  }

  [[nodiscard]] double value(const std::array<double, 3>& values) const {
    return weight[0] * values[0] + weight[1] * values[1] + weight[2] * values[2];
  }
  /// How many times the rounding of the three rows may appear in the value.
  [[nodiscard]] double amplification() const {
    return std::abs(weight[0]) + std::abs(weight[1]) + std::abs(weight[2]);
  }

  std::array<double, 3> weight{};
};

/// Finds the polynomial that most rows of a rounded table lie on.
class PolynomialSearch {
 public:
  explicit PolynomialSearch(std::span<const MemoryRow> rows) : rows_(rows) {
    std::vector<double> peaks;
    std::vector<double> persistents;
    for (const MemoryRow& row : rows) {
      peaks.push_back(row.peak);
      persistents.push_back(row.persistent);
    }
    half_digits_ = {half_digit(peaks), half_digit(persistents)};
  }

  /// Returns whether the table tells whole blocks of memory from others.
  [[nodiscard]] bool blocks_show() const {
    return half_digits_[0] < 0.5 / kBlocksPerMib && half_digits_[1] < 0.5 / kBlocksPerMib;
  }

  /// Returns which rows lie on the polynomial through three of them. Far from the three their
  /// rounding is amplified until every row seems to; `max_roundings` says how far is too far.
  [[nodiscard]] std::vector<bool> rows_on(const std::array<std::size_t, 3>& triple,
                                          double max_roundings) const {
    std::array<double, 3> at{};
    std::array<double, 3> peaks{};
    std::array<double, 3> persistents{};
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = rows_[triple[i]].batch;
      peaks[i] = rows_[triple[i]].peak;
      persistents[i] = rows_[triple[i]].persistent;
    }
    std::vector<bool> on(rows_.size(), false);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const Weights weights(at, rows_[row].batch);
      const double roundings = 1 + weights.amplification();
      on[row] = roundings <= max_roundings &&
                std::abs(weights.value(peaks) - rows_[row].peak) <=
                    roundings * slack(half_digits_[0], rows_[row].peak) &&
                std::abs(weights.value(persistents) - rows_[row].persistent) <=
                    roundings * slack(half_digits_[1], rows_[row].persistent);
    }
    return on;
  }

  [[nodiscard]] std::vector<bool> run() const {
    const std::vector<std::size_t> anchors = choose_anchors();
    std::size_t best = kMinPolynomialRows - 1;
    std::vector<bool> filled(rows_.size(), false);
    for (std::size_t i = 0; i < anchors.size(); ++i) {
      for (std::size_t j = i + 1; j < anchors.size(); ++j) {
        for (std::size_t k = j + 1; k < anchors.size(); ++k) {
          const std::vector<bool> on = rows_on({anchors[i], anchors[j], anchors[k]}, 8);
          const auto count = static_cast<std::size_t>(std::ranges::count(on, true));
          if (count <= best) continue;
          best = count;
          filled = on;
        }
      }
    }
    return filled;
  }

 private:
  /// Returns rows spread over the table, among them neighbours, because tables were often measured
  /// at every eighth or sixteenth batch only, and the last ones, where short fills are.
  [[nodiscard]] std::vector<std::size_t> choose_anchors() const {
    constexpr std::size_t kPlaces = 8;
    constexpr std::size_t kNeighbours = 3;
    std::vector<std::size_t> anchors;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      for (std::size_t neighbour = 0; neighbour < kNeighbours; ++neighbour) {
        anchors.push_back(place * rows_.size() / kPlaces + neighbour);
      }
    }
    for (std::size_t last = 1; last <= std::min(kMinPolynomialRows, rows_.size()); ++last) {
      anchors.push_back(rows_.size() - last);
    }
    std::erase_if(anchors, [this](std::size_t anchor) { return anchor >= rows_.size(); });
    std::ranges::sort(anchors);
    anchors.erase(std::unique(anchors.begin(), anchors.end()), anchors.end());
    return anchors;
  }

  std::span<const MemoryRow> rows_;
  std::array<double, 2> half_digits_{};  ///< of peaks and of persistent memory.
};

}  // namespace

std::size_t find_linear_fill(std::span<const CurvePoint> rows) {
  constexpr std::size_t kMinRows = 3;
  if (rows.size() < kMinRows) return rows.size();
  std::vector<double> values;
  for (const CurvePoint& row : rows) values.push_back(row.value);
  const double digit = half_digit(values);
  const CurvePoint& last = rows.back();
  std::size_t begin = rows.size() - 2;
  for (std::size_t first = begin; first-- > 0;) {
    bool straight = true;
    for (std::size_t row = first + 1; row + 1 < rows.size() && straight; ++row) {
      const double share = static_cast<double>(rows[row].batch - rows[first].batch) /
                           (last.batch - rows[first].batch);
      const double line = rows[first].value + share * (last.value - rows[first].value);
      straight = std::abs(line - rows[row].value) <= 2 * slack(digit, last.value);
    }
    if (!straight) break;
    begin = first;
  }
  return rows.size() - begin >= kMinRows ? begin : rows.size();
}

std::vector<bool> find_polynomial_fill(std::span<const MemoryRow> rows) {
  const PolynomialSearch search(rows);
  if (!search.blocks_show()) return search.run();
  std::vector<bool> filled;
  for (const MemoryRow& row : rows) {
    const auto is_whole = [](double mib) {
      return mib * kBlocksPerMib == std::floor(mib * kBlocksPerMib);
    };
    filled.push_back(!is_whole(row.peak) || !is_whole(row.persistent));
  }
  return filled;
}

std::vector<bool> find_rows_on_tail(std::span<const MemoryRow> rows, std::size_t tail) {
  if (tail + kMinPolynomialRows > rows.size()) return std::vector<bool>(rows.size(), false);
  const std::array<std::size_t, 3> triple = {tail, (tail + rows.size()) / 2, rows.size() - 1};
  std::vector<bool> on = PolynomialSearch(rows).rows_on(triple, 4);
  std::fill(on.begin() + static_cast<std::ptrdiff_t>(tail), on.end(), false);
  return on;
}

}  // namespace gpemu::profile
