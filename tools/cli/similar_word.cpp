// SPDX-License-Identifier: Apache-2.0
#include "cli/similar_word.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gpemu::tools {
namespace {

/// Returns how many letters must be changed, added, removed or swapped with their neighbour to turn
/// one word into the other, with each place changed once. Source: L. Boytsov, Indexing methods for
/// approximate dictionary searching, 2011: optimal string alignment.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::vector<std::size_t> row(to.size() + 1, i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t changed = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = std::exchange(last, std::move(row));
  }
  return last.back();
}

}  // namespace

std::string similar_word(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;  // No command or option is half as long.
  if (word.size() > kLongest) return {};
  std::size_t least = word.size() / 3 + 1;
  std::string best;
  for (const std::string& candidate : known) {
    const std::size_t changes = distance(word, candidate);
    if (changes >= least) continue;
    least = changes;
    best = candidate;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string similar = similar_word(word, known);
  return similar.empty() ? "" : "; did you mean '" + similar + "'?";
}

}  // namespace gpemu::tools
