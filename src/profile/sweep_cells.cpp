// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/sweep_cells.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpemu::profile {
namespace {

bool matches_rule(const CellRule& rule, const std::vector<std::size_t>& values) {
  return std::ranges::all_of(rule.conditions, [&values](const CellRule::Condition& condition) {
    return std::ranges::find(condition.values, values[condition.factor]) != condition.values.end();
  });
}

bool is_wanted(const SweepSpec& spec, const std::vector<std::size_t>& values) {
  const auto matches = [&values](const CellRule& rule) { return matches_rule(rule, values); };
  return (spec.only.empty() || std::ranges::any_of(spec.only, matches)) &&
         std::ranges::none_of(spec.exclude, matches);
}

/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/.
std::uint64_t hash_of_words(const std::vector<std::string>& words) {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&hash](char byte) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  };
  for (const std::string& word : words) {
    std::ranges::for_each(word, add);
    add('\0');
  }
  return hash;
}

Result<SweepCell> cell_of(const SweepSpec& spec, std::vector<std::size_t> values) {
  SweepCell cell{.number = 0, .values = std::move(values), .words = {}, .key = 0};
  const WordsOf words_of = [&](std::string_view name) -> std::optional<std::vector<std::string>> {
    const auto factor = std::ranges::find(spec.factors, name, &Factor::name);
    if (factor == spec.factors.end()) return std::nullopt;
    const auto index = static_cast<std::size_t>(factor - spec.factors.begin());
    return factor->values[cell.values[index]].words;
  };
  for (const std::string& word : spec.command) {
    GPEMU_ASSIGN(const std::vector<std::string> words, filled_in(word, words_of));
    cell.words.insert(cell.words.end(), words.begin(), words.end());
  }
  std::vector<std::string> identity = cell.words;
  if (!spec.factors.empty() && spec.factors.back().name == kRepeatFactor &&
      cell.values.back() > 0) {
    identity.push_back(fmt::format("repeat {}", cell.values.back() + 1));
  }
  cell.key = hash_of_words(identity);
  return cell;
}

/// Changes the last value that has a next one, and those after it to their first; false at the end.
bool advance(const SweepSpec& spec, std::vector<std::size_t>& values) {
  for (std::size_t i = values.size(); i-- > 0;) {
    if (++values[i] < spec.factors[i].values.size()) return true;
    values[i] = 0;
  }
  return false;
}

}  // namespace

Result<std::vector<SweepCell>> sweep_cells(const SweepSpec& spec) {
  std::size_t combinations = 1;
  for (const Factor& factor : spec.factors) {
    combinations *= factor.values.size();
    if (combinations > kMostCells) {
      return fail(ErrorCode::kInvalidArgument, "{} has more than {} cells", spec.name, kMostCells);
    }
  }
  std::vector<SweepCell> cells;
  std::map<std::uint64_t, std::size_t> numbers;
  std::vector<std::size_t> values(spec.factors.size());
  do {
    if (!is_wanted(spec, values)) continue;
    GPEMU_ASSIGN(SweepCell cell, cell_of(spec, values));
    cell.number = cells.size() + 1;
    const auto [other, is_new] = numbers.emplace(cell.key, cell.number);
    if (!is_new) {
      return fail(ErrorCode::kInvalidArgument, "cells {} and {} are the same: gpemu {}",
                  other->second, cell.number, fmt::join(cell.words, " "));
    }
    cells.push_back(std::move(cell));
  } while (advance(spec, values));
  if (cells.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the rules of {} leave no cell", spec.name);
  }
  return cells;
}

}  // namespace gpemu::profile
