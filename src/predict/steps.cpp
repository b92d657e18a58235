// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/steps.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::predict {
namespace {

using kernels::OperationClass;
using Kind = record::WorkEvent::Kind;

/// How many operations a repeating sequence must make up while the program runs. More than the
/// layers of a large network: 100 layers of 40 operations.
constexpr std::size_t kLongEnough = 20'000;

/// How often a sequence must occur to count as repeating.
constexpr std::size_t kFewestRepetitions = 3;

bool is_work(const record::WorkEvent& event) {
  return event.kind <= Kind::kCopyFromDevice;
}

/// Makes a step of the events between each two borders.
FoundSteps between(std::span<const std::size_t> borders, StepSign sign) {
  FoundSteps found{.sign = sign, .steps = {}};
  for (std::size_t i = 1; i < borders.size(); ++i) {
    found.steps.push_back({borders[i - 1], borders[i]});
  }
  return found;
}

// ---- Names

/// Returns a name's first word in lower case: its letters up to the first other character, or, as
/// in "ProfilerStep", all of them.
std::string first_word(std::string_view name) {
  std::string word;
  for (const char c : name) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) break;
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

std::vector<std::size_t> matches(const record::ProgramWork& work, std::size_t from,
                                 const NamePattern& pattern) {
  std::vector<bool> ranges, operations;
  for (const std::string& name : work.names) ranges.push_back(pattern.is_in(name));
  for (const auto& operation : work.operations) operations.push_back(pattern.is_in(operation.name));
  std::vector<std::size_t> borders;
  bool previous = false;  // Consecutive matches count as one.
  for (std::size_t i = from; i < work.events.size(); ++i) {
    const record::WorkEvent& event = work.events[i];
    if (!is_work(event) && event.kind != Kind::kRange) continue;
    const bool match = event.kind == Kind::kRange ? ranges[event.index] : operations[event.index];
    if (match && !previous) borders.push_back(i);
    previous = match;
  }
  return borders;
}

/// Returns where ranges that are named like steps begin. Of several such names, the most frequent
/// counts, and among equals the first: a range around the whole training is not a step.
std::vector<std::size_t> range_borders(const record::ProgramWork& work, std::size_t from) {
  static constexpr std::array<std::string_view, 6> kWords = {"step",  "iter",  "iteration",
                                                             "batch", "train", "profilerstep"};
  std::array<std::vector<std::size_t>, kWords.size()> borders;
  for (std::size_t i = from; i < work.events.size(); ++i) {
    if (work.events[i].kind != Kind::kRange) continue;
    const auto* const word =
        std::ranges::find(kWords, first_word(work.names[work.events[i].index]));
    if (word != kWords.end()) borders.at(word - kWords.begin()).push_back(i);
  }
  const auto most = [](const auto& one, const auto& other) {
    if (one.size() != other.size()) return one.size() > other.size();
    return !one.empty() && one.front() < other.front();
  };
  return *std::ranges::min_element(borders, most);
}

// ---- What recurs

struct Recurrence {
  std::size_t period = 0;  ///< 0: nothing repeats.
  std::size_t begin = 0;   ///< of the repetitions, which go up to the end.
};

/// Finds the longest end of a sequence that is one sequence repeated. It uses the prefix function
/// of Knuth, Morris and Pratt on the reversed sequence: the period of the first L symbols is L
/// minus the function.
Recurrence longest_recurrence(std::span<const std::uint64_t> symbols) {
  const std::size_t n = symbols.size();
  const auto at = [&](std::size_t i) { return symbols[n - 1 - i]; };
  std::vector<std::size_t> prefix(n);
  Recurrence best;
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = prefix[i - 1];
    while (length > 0 && at(i) != at(length)) length = prefix[length - 1];
    if (at(i) == at(length)) ++length;
    prefix[i] = length;
    const std::size_t period = i + 1 - length;
    if (i + 1 >= kFewestRepetitions * period) best = {.period = period, .begin = n - 1 - i};
  }
  return best;
}

// ---- The optimizer

/// Kernels of the optimizer without a layer of the network in between.
struct Group {
  std::uint64_t signature = 0;  ///< the same for the same kernels.
  int operations = 0;
  std::size_t end = 0;  ///< after its last event.
};

std::vector<Group> optimizer_groups(const record::ProgramWork& work, std::size_t from,
                                    bool complete) {
  std::vector<Group> groups;
  bool open = false;
  for (std::size_t i = from; i < work.events.size(); ++i) {
    const record::WorkEvent& event = work.events[i];
    if (event.kind != Kind::kOperation) continue;
    const OperationClass group = work.operations[event.index].operation_class;
    if (group == OperationClass::kOptimizer) {
      if (!open) groups.emplace_back();
      open = true;
      Group& last = groups.back();
      // FNV-1a over the operations.
      last.signature = (last.signature ^ static_cast<std::uint64_t>(event.index + 1)) *
                       std::uint64_t{1099511628211};
      ++last.operations;
      last.end = i + 1;
    } else if (is_layer(group)) {
      open = false;
    }
  }
  if (open && !complete) groups.pop_back();  // More of it may come.
  return groups;
}

std::vector<std::size_t> optimizer_borders(const record::ProgramWork& work, std::size_t from,
                                           bool complete) {
  const std::vector<Group> groups = optimizer_groups(work, from, complete);
  std::vector<std::uint64_t> signatures;
  signatures.reserve(groups.size());
  for (const Group& group : groups) signatures.push_back(group.signature);
  Recurrence recurrence = longest_recurrence(signatures);
  if (recurrence.period == 0) {
    if (!complete) return {};
    recurrence = {.period = 1, .begin = 0};  // As many steps as there are.
  }
  // Of the groups of a step, the largest is its end: others clear gradients.
  std::size_t first = recurrence.begin;
  const std::size_t stop = std::min(recurrence.begin + recurrence.period, groups.size());
  for (std::size_t i = recurrence.begin; i < stop; ++i) {
    if (groups[i].operations > groups[first].operations) first = i;
  }
  std::vector<std::size_t> borders;
  for (std::size_t i = first; i < groups.size(); i += recurrence.period) {
    borders.push_back(groups[i].end);
  }
  return borders;
}

// ---- Sequences of operations

/// Returns the borders of the sequence that repeats in the first `count` of the operations at
/// `places`, if it makes up more than `least` of them.
std::vector<std::size_t> recurring_borders(std::span<const std::uint64_t> symbols,
                                           std::span<const std::size_t> places, std::size_t count,
                                           std::size_t least) {
  const Recurrence recurrence = longest_recurrence(symbols.first(count));
  if (recurrence.period == 0 || count - recurrence.begin <= least) return {};
  std::vector<std::size_t> borders;
  for (std::size_t i = recurrence.begin; i < count; i += recurrence.period) {
    borders.push_back(places[i]);
  }
  return borders;
}

std::vector<std::size_t> sequence_borders(const record::ProgramWork& work, std::size_t from,
                                          bool complete) {
  std::vector<std::uint64_t> symbols;
  std::vector<std::size_t> places;
  for (std::size_t i = from; i < work.events.size(); ++i) {
    if (work.events[i].kind != Kind::kOperation) continue;  // Programs copy results now and then.
    symbols.push_back(static_cast<std::uint64_t>(work.events[i].index));
    places.push_back(i);
  }
  if (!complete) return recurring_borders(symbols, places, symbols.size(), kLongEnough);
  // After the last step there may be other work, so other ends are tried too.
  constexpr std::size_t kEnds = 20;
  std::vector<std::size_t> best;
  for (std::size_t i = kEnds; i > 0; --i) {
    auto borders = recurring_borders(symbols, places, symbols.size() * i / kEnds, 0);
    const auto span = [](const auto& some) {
      return some.empty() ? 0 : some.back() - some.front();
    };
    if (span(borders) > span(best)) best = std::move(borders);
  }
  return best;
}

}  // namespace

Result<FoundSteps> find_steps(const record::ProgramWork& work, const StepSearch& search) {
  std::size_t from = 0;
  for (std::size_t i = 0; i < work.events.size(); ++i) {
    if (work.events[i].kind == Kind::kProfilerStarts) from = i + 1;
  }
  if (search.pattern != nullptr) {
    const auto borders = matches(work, from, *search.pattern);
    if (borders.size() > 1) return between(borders, StepSign::kPattern);
    return fail(ErrorCode::kNotFound,
                "the pattern of --step-pattern matches {} operations or ranges; steps need two or "
                "more; `gpemu run --ops` lists their names",
                borders.size());
  }
  if (const auto borders = range_borders(work, from); borders.size() > 1) {
    return between(borders, StepSign::kRanges);
  }
  if (const auto borders = optimizer_borders(work, from, search.complete); borders.size() > 1) {
    return between(borders, StepSign::kOptimizer);
  }
  // If the optimizer has run only once, the repetitions are layers.
  const bool trains = std::ranges::any_of(work.operations, [](const auto& operation) {
    return operation.operation_class == OperationClass::kOptimizer;
  });
  if (!trains) {
    const auto borders = sequence_borders(work, from, search.complete);
    if (borders.size() > 1) return between(borders, StepSign::kSequence);
  }
  const auto operations = std::ranges::count_if(work.events, is_work);
  return fail(ErrorCode::kNotFound,
              "no training steps found in {} operations: no NVTX range has a name like \"step\", "
              "no optimizer updates lists of tensors twice, and no sequence of operations repeats; "
              "let the program run more steps, put an NVTX range \"step\" around each, or name an "
              "operation that occurs once per step with --step-pattern",
              operations);
}

StepRange typical_step(const record::ProgramWork& work, const FoundSteps& found, int count) {
  GPEMU_CHECK(!found.steps.empty(), "there is a step");
  const std::size_t first = std::min<std::size_t>(kWarmUpSteps, found.steps.size() - 1);
  const std::size_t last =
      std::min(found.steps.size(), first + static_cast<std::size_t>(std::max(count, 1)));
  std::vector<std::pair<Duration, std::size_t>> times;
  for (std::size_t i = first; i < last; ++i) {
    Duration time{};
    for (std::size_t j = found.steps[i].begin; j < found.steps[i].end; ++j) {
      time += work.events[j].duration;
    }
    times.emplace_back(time, i);
  }
  std::ranges::sort(times);
  return found.steps[times[(times.size() - 1) / 2].second];
}

}  // namespace gpemu::predict
