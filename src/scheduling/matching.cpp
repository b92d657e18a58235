// SPDX-License-Identifier: Apache-2.0
#include "matching.hpp"

#include <cmath>
#include <cstdint>
#include <lemon/matching.h>
#include <lemon/smart_graph.h>

namespace gpemu::scheduling {
namespace {

/// LEMON is exact on integers: so many of them are a weight of 1. Below that, a few units decide
/// between equal weights.
constexpr double kUnits = 1e12;

}  // namespace

std::vector<std::optional<std::size_t>> heaviest_pairs(
    std::size_t count, const std::function<double(std::size_t, std::size_t)>& weight) {
  lemon::SmartGraph graph;
  for (std::size_t i = 0; i < count; ++i) graph.addNode();
  lemon::SmartGraph::EdgeMap<std::int64_t> weights(graph);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      const double value = weight(i, j);
      if (!(value > 0)) continue;
      const auto edge = graph.addEdge(lemon::SmartGraph::nodeFromId(static_cast<int>(i)),
                                      lemon::SmartGraph::nodeFromId(static_cast<int>(j)));
      weights[edge] =
          std::llround(value * kUnits) + static_cast<std::int64_t>((count - i) * (count - j));
    }
  }
  lemon::MaxWeightedMatching<lemon::SmartGraph, lemon::SmartGraph::EdgeMap<std::int64_t>> matching(
      graph, weights);
  matching.run();
  std::vector<std::optional<std::size_t>> partners(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mate = matching.mate(lemon::SmartGraph::nodeFromId(static_cast<int>(i)));
    if (mate != lemon::INVALID) partners[i] = static_cast<std::size_t>(graph.id(mate));
  }
  return partners;
}

}  // namespace gpemu::scheduling
