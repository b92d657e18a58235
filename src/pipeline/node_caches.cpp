// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/node_caches.hpp"

namespace gpemu::pipeline {

NodeCaches::NodeCaches(const Options& options, std::span<const std::uint32_t> sizes) {
  for (int node = 0; node < options.nodes; ++node) {
    caches_.push_back(options.make ? options.make(options.capacity, sizes)
                                   : make_cache(options.policy, options.capacity, sizes,
                                                options.seed + static_cast<std::uint64_t>(node)));
  }
  if (options.peers != Peers::kNone) owners_.assign(sizes.size(), kNobody);
}

int NodeCaches::read(int node, FileId file) {
  Cache& cache = *caches_[static_cast<std::size_t>(node)];
  if (owners_.empty()) return cache.read(file) ? kHere : kStorage;
  const Owner owner = owners_[file];
  // Some policies give files up again.
  if (owner != kNobody && owner != node && caches_[static_cast<std::size_t>(owner)]->holds(file)) {
    return owner;
  }
  if (cache.read(file)) return kHere;
  owners_[file] = cache.holds(file) ? static_cast<Owner>(node) : kNobody;
  return kStorage;
}

}  // namespace gpemu::pipeline
