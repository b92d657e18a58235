// SPDX-License-Identifier: Apache-2.0
#include "nearest_names.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace gpemu::profile {
namespace {

constexpr std::size_t kMostSuggestions = 3;

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Levenshtein distance, one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view name, std::span<const std::string> names) {
  const std::string wanted = lower_case(name);
  const std::size_t most_edits = std::max<std::size_t>(1, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : names) {
    const std::string other = lower_case(candidate);
    const bool contains = !wanted.empty() && other.find(wanted) != std::string::npos;
    const std::size_t distance = contains ? 0 : edit_distance(wanted, other);
    if (distance <= most_edits) near.emplace_back(distance, candidate);
  }
  std::ranges::sort(near);
  near.resize(std::min(near.size(), kMostSuggestions));
  if (near.empty()) return {};
  std::string list = near.front().second;
  for (std::size_t i = 1; i < near.size(); ++i) {
    list += (i + 1 == near.size() ? " or " : ", ") + near[i].second;
  }
  return fmt::format(" (did you mean {}?)", list);
}

}  // namespace gpemu::profile
