// SPDX-License-Identifier: Apache-2.0
#include "assignment.hpp"

#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

namespace gpemu::scheduling {

std::vector<std::size_t> cheapest_assignment(
    std::size_t rows, std::size_t columns,
    const std::function<std::int64_t(std::size_t row, std::size_t column)>& cost) {
  using Graph = lemon::SmartDigraph;
  Graph graph;
  graph.reserveNode(static_cast<int>(rows + columns));
  graph.reserveArc(static_cast<int>(rows * columns));
  for (std::size_t i = 0; i < rows + columns; ++i) graph.addNode();
  const auto node = [](std::size_t index) { return Graph::nodeFromId(static_cast<int>(index)); };
  Graph::ArcMap<std::int64_t> costs(graph);
  Graph::NodeMap<int> supplies(graph, -1);
  for (std::size_t row = 0; row < rows; ++row) {
    supplies[node(row)] = 1;
    for (std::size_t column = 0; column < columns; ++column) {
      costs[graph.addArc(node(row), node(rows + column))] = cost(row, column);
    }
  }
  lemon::NetworkSimplex<Graph, int, std::int64_t> simplex(graph);
  // Each row sends one unit, and a column takes at most one: "greater or equal" to -1.
  simplex.costMap(costs).supplyMap(supplies);
  simplex.run();
  std::vector<std::size_t> chosen(rows);
  for (Graph::ArcIt arc(graph); arc != lemon::INVALID; ++arc) {
    if (simplex.flow(arc) == 0) continue;
    chosen[static_cast<std::size_t>(Graph::id(graph.source(arc)))] =
        static_cast<std::size_t>(Graph::id(graph.target(arc))) - rows;
  }
  return chosen;
}

}  // namespace gpemu::scheduling
