// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a step for any batch, from those at some batches.
#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <utility>

#include "condense.hpp"

namespace gpemu::step {
namespace {

/// No step has a larger batch.
constexpr std::int64_t kMostBatch = 1 << 20;

/// Bytes held at the moment with this index.
struct HeldLine {
  AffineEntry bytes;
  std::size_t moment = 0;
};

/// Returns the sizes of the tensors held, in the order of their allocation.
std::vector<std::int64_t> sizes_at(const Moment& moment) {
  std::map<std::uint64_t, std::size_t> taken;  // Address to change.
  for (std::size_t i = 0; i < moment.changes; ++i) {
    const MemoryChange& change = (*moment.history)[i];
    if (change.bytes > 0) {
      taken[change.address] = i;
    } else {
      taken.erase(change.address);
    }
  }
  std::vector<std::size_t> order;
  std::ranges::copy(taken | std::views::values, std::back_inserter(order));
  std::ranges::sort(order);
  std::vector<std::int64_t> sizes;
  std::ranges::transform(order, std::back_inserter(sizes),
                         [&moment](std::size_t change) { return (*moment.history)[change].bytes; });
  return sizes;
}

/// Joins the tensors held at the same moment of a step at several batches.
std::optional<std::vector<TensorGroup>> join_moments(std::span<const int> batches,
                                                     std::span<const Moment> moments) {
  std::vector<std::vector<std::int64_t>> sizes;
  std::ranges::transform(moments, std::back_inserter(sizes), sizes_at);
  const auto length = [](const auto& list) { return list.size(); };
  if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to(), length) != sizes.end()) {
    return std::nullopt;
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts;
  for (std::size_t i = 0; i < sizes.front().size(); ++i) {
    std::vector<std::int64_t> values;
    std::ranges::transform(sizes, std::back_inserter(values),
                           [i](const auto& list) { return list[i]; });
    const std::optional<AffineEntry> bytes = affine(batches, values);
    if (!bytes) return std::nullopt;
    ++counts[{bytes->constant, bytes->slope}];
  }
  std::vector<TensorGroup> groups;
  std::ranges::transform(counts, std::back_inserter(groups), [](const auto& entry) {
    const auto& [bytes, count] = entry;
    return TensorGroup{.count = count, .bytes = {bytes.first, bytes.second}};
  });
  return groups;
}

/// Returns the lines that are above all others at some batch from 1 on; of equal ones, the first.
std::vector<HeldLine> upper_lines(std::span<const HeldLine> lines) {
  std::vector<HeldLine> result;
  std::int64_t batch = 1;
  while (true) {
    const HeldLine* best = &lines.front();
    for (const HeldLine& line : lines) {
      const auto key = [batch](const AffineEntry& bytes) {
        return std::pair(bytes.at(batch), bytes.slope);
      };
      if (key(line.bytes) > key(best->bytes)) best = &line;
    }
    result.push_back(*best);
    std::optional<std::int64_t> next;  // The first batch at which another is above it.
    for (const HeldLine& line : lines) {
      const std::int64_t gain = line.bytes.slope - best->bytes.slope;
      if (gain <= 0) continue;
      const std::int64_t above = (best->bytes.constant - line.bytes.constant) / gain + 1;
      next = std::min(next.value_or(above), above);
    }
    if (!next || *next > kMostBatch) return result;
    batch = *next;
  }
}

/// Returns the lines of those moments that have one.
std::vector<HeldLine> held_lines(std::span<const int> batches, std::span<const HeldMemory> steps) {
  std::vector<HeldLine> lines;
  for (std::size_t i = 0; i < steps.front().moments.size(); ++i) {
    std::vector<std::int64_t> values;
    for (const HeldMemory& step : steps) values.push_back(step.moments[i].held);
    if (const auto line = affine(batches, values)) lines.push_back({*line, i});
  }
  return lines;
}

}  // namespace

std::optional<RecordedMemory> join_memory(std::span<const int> batches,
                                          std::span<const HeldMemory> steps) {
  const std::vector<HeldLine> lines = held_lines(batches, steps);
  if (lines.empty()) return std::nullopt;
  const std::vector<HeldLine> fullest = upper_lines(lines);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto at_batch = [&](const HeldLine& line) { return line.bytes.at(batches[i]); };
    const std::int64_t most = at_batch(std::ranges::max(fullest, {}, at_batch));
    // Short-lived memory that is not a function of the batch is harmless if it is not at the
    // fullest moment.
    if (std::ranges::max(steps[i].moments, {}, &Moment::held).held > most) return std::nullopt;
  }
  const auto join = [&](auto moment_of) {
    std::vector<Moment> moments;
    std::ranges::transform(steps, std::back_inserter(moments), moment_of);
    return join_moments(batches, moments);
  };
  RecordedMemory memory;
  for (const HeldLine& line : fullest) {
    auto groups = join([&line](const HeldMemory& step) { return step.moments[line.moment]; });
    if (!groups) return std::nullopt;
    memory.fullest.push_back(*std::move(groups));
  }
  auto after = join([](const HeldMemory& step) { return step.end; });
  if (!after) return std::nullopt;
  memory.after = *std::move(after);
  return memory;
}

}  // namespace gpemu::step
