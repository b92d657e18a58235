// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/locality.hpp"

#include <algorithm>
#include <numeric>

namespace gpemu::pipeline {
namespace {

/// Returns how many files each node gets: the nodes that cache the most of them get one more if
/// they cannot all get the same number.
std::vector<std::size_t> sizes_of_shares(const std::vector<std::size_t>& cached,
                                         std::size_t files) {
  const std::size_t nodes = cached.size();
  std::vector<std::size_t> order(nodes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&cached](std::size_t a, std::size_t b) { return cached[a] > cached[b]; });
  std::vector<std::size_t> shares(nodes, files / nodes);
  for (std::size_t i = 0; i < files % nodes; ++i) ++shares[order[i]];
  return shares;
}

}  // namespace

std::vector<std::vector<FileId>> assign_by_locality(std::span<const FileId> batch,
                                                    std::span<const Owner> owners, int nodes) {
  const auto count = static_cast<std::size_t>(nodes);
  std::vector<std::size_t> cached(count, 0);
  for (const FileId file : batch) {
    if (owners[file] != kNobody) ++cached[static_cast<std::size_t>(owners[file])];
  }
  const std::vector<std::size_t> shares = sizes_of_shares(cached, batch.size());
  // What a node caches beyond its share goes to nodes whose share is not full.
  std::vector<std::size_t> taken(count, 0);
  std::vector<Owner> node_of(batch.size(), kNobody);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Owner owner = owners[batch[i]];
    if (owner == kNobody ||
        taken[static_cast<std::size_t>(owner)] == shares[static_cast<std::size_t>(owner)]) {
      continue;
    }
    ++taken[static_cast<std::size_t>(owner)];
    node_of[i] = owner;
  }
  std::vector<std::vector<FileId>> parts(count);
  for (std::size_t node = 0; node < count; ++node) parts[node].reserve(shares[node]);
  std::size_t open = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (node_of[i] == kNobody) {
      while (taken[open] == shares[open]) ++open;
      ++taken[open];
      node_of[i] = static_cast<Owner>(open);
    }
    parts[static_cast<std::size_t>(node_of[i])].push_back(batch[i]);
  }
  return parts;
}

std::vector<std::vector<FileId>> divide_among_nodes(std::span<const FileId> files,
                                                    std::span<const Owner> owners, int nodes,
                                                    std::size_t batch) {
  const auto count = static_cast<std::size_t>(nodes);
  std::vector<std::vector<FileId>> parts(count);
  for (std::vector<FileId>& part : parts) part.reserve(files.size() / count + 1);
  if (owners.empty()) {
    for (std::size_t i = 0; i < files.size(); ++i) parts[i % count].push_back(files[i]);
    return parts;
  }
  const std::size_t global = batch * count;
  for (std::size_t begin = 0; begin < files.size(); begin += global) {
    const auto together = files.subspan(begin, std::min(global, files.size() - begin));
    const auto shares = assign_by_locality(together, owners, nodes);
    for (std::size_t node = 0; node < count; ++node) {
      parts[node].insert(parts[node].end(), shares[node].begin(), shares[node].end());
    }
  }
  return parts;
}

}  // namespace gpemu::pipeline
