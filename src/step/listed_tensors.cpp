// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/listed_tensors.hpp"

#include <algorithm>
#include <numeric>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::step {

void ListedTensors::add(const RecordedOperation& operation, std::int64_t times) {
  if (operation.operation_class != kernels::OperationClass::kOptimizer) return;
  launches_ += times;
  const std::int64_t tensors = operation.shape[kernels::kListedTensors].constant;
  if (tensors <= 0) return;
  const std::int64_t read = operation.shape[0].constant, written = operation.shape[1].constant;
  const std::int64_t part = std::max<std::int64_t>(std::gcd(read, written), 1);
  finished_[operation.type][{operation.name, {read / part, written / part}}] += times * tensors;
}

std::int64_t ListedTensors::tensors() const {
  // Some kernels serve several passes; another one serves a single one. Lists of several types have
  // kernels of their own.
  std::int64_t sum = 0;
  for (const auto& [type, kernels] : finished_) {
    std::int64_t least = kernels.begin()->second;
    for (const auto& [kernel, tensors] : kernels) least = std::min(least, tensors);
    sum += least;
  }
  return sum;
}

}  // namespace gpemu::step
