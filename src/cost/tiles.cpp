// SPDX-License-Identifier: Apache-2.0
#include "tiles.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

namespace gpemu::cost {
namespace {

/// Sizes of the output tiles of a block of threads, and the share of the peak rate that a tile of
/// this size allows: smaller ones reuse loaded values less often. Source: tile sizes of cutlass and
/// cuBLAS; the shares are the reuse of a tile, rows * columns / (rows + columns), damped to match
/// NVIDIA's "Matrix Multiplication Background User's Guide".
struct Tile {
  double rows, columns, share;
  /// Multiplying by the inverse takes half the time of a division.
  double per_row = 1 / rows, per_column = 1 / columns;
  /// The least multiply-adds for each one that is needed, less a margin for rounding errors.
  double least = (1 - 1e-9) / share;
};
constexpr std::array kTiles = {Tile{128, 128, 1},  Tile{128, 64, 0.92}, Tile{64, 64, 0.8},
                               Tile{128, 32, 0.7}, Tile{64, 32, 0.6},   Tile{32, 32, 0.45}};
// tiled() stops at the first tile that cannot be better.
static_assert(std::ranges::is_sorted(kTiles, std::ranges::greater{}, &Tile::share));
// Else inverses would be rounded.
static_assert(std::ranges::all_of(kTiles, [](const Tile& tile) {
  return std::has_single_bit(static_cast<unsigned>(tile.rows)) &&
         std::has_single_bit(static_cast<unsigned>(tile.columns));
}));

/// With more waves of tiles than this, blocks start as others end, and the last wave is half full
/// on average.
constexpr double kWholeWaves = 4;
/// If there are few tiles, a sum is split over blocks, into parts of at least so many terms, until
/// there are four blocks per multiprocessor. Source: grids in published kernel times (NeuSight).
constexpr double kLeastSplit = 256;
constexpr double kSplitBlocks = 4;

}  // namespace

double tiled(const Product& product, double multiprocessors, bool split) {
  const double wanted = product.rows * product.columns * product.batch;
  double best = INFINITY;
  for (const Tile& tile : kTiles) {
    if (wanted * tile.least > best) break;  // The next ones are even worse.
    double blocks = round_up(product.rows * tile.per_row) *
                    round_up(product.columns * tile.per_column) * product.batch;
    double parts = 1;
    if (split) {
      parts = std::clamp(round_down(kSplitBlocks * multiprocessors / blocks), 1.0,
                         std::max(round_down(product.depth / kLeastSplit), 1.0));
      blocks *= parts;
    }
    double waves = round_up(blocks / multiprocessors);
    if (waves > kWholeWaves) waves = blocks / multiprocessors + 0.5;
    double made = waves * multiprocessors * tile.rows * tile.columns;
    if (split) made /= parts;
    best = std::min(best, made / tile.share);
  }
  return best * product.depth;
}

}  // namespace gpemu::cost
