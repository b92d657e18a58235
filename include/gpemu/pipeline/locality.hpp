// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpemu/pipeline/cache.hpp"

namespace gpemu::pipeline {

/// The node that caches a file; nobody does: kNobody.
using Owner = std::int32_t;
inline constexpr Owner kNobody = -1;

/// Divides a global batch among nodes: to each about equally many files, and as many as possible to
/// the node that caches them. The files are those of the batch, so a step of training is the same;
/// only who prepares and computes which sample differs. No node gets more than one file more than
/// another.
///
/// `owners` has the owner of each file of the data set. Files stay in the order of the batch.
/// Source: Yang and Cong, "Accelerating data loading in deep neural network training", HiPC 2019:
/// locality-aware data loading, with load balancing.
/// Complexity: linear in the batch. Requires: nodes > 0.
[[nodiscard]] std::vector<std::vector<FileId>> assign_by_locality(std::span<const FileId> batch,
                                                                  std::span<const Owner> owners,
                                                                  int nodes);

/// Divides files among nodes, in global batches of up to `batch` files for each node: as
/// assign_by_locality() if there are `owners`, else in turns, as PyTorch's DistributedSampler.
/// Complexity: linear. Requires: nodes > 0, batch > 0.
[[nodiscard]] std::vector<std::vector<FileId>> divide_among_nodes(std::span<const FileId> files,
                                                                  std::span<const Owner> owners,
                                                                  int nodes, std::size_t batch);

}  // namespace gpemu::pipeline
