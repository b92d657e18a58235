// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <variant>

#include "gpemu/cost/operation_work.hpp"
#include "gpemu/cost/work_terms.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/operation.h"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

/// Returns the work of an operation on a GPU. Complexity: constant, no allocation.
[[nodiscard]] OperationWork operation_work(const gpemu_operation& operation,
                                           kernels::OperationClass operation_class,
                                           const profile::GpuSpec& spec);

[[nodiscard]] inline OperationWork operation_work(const kernels::DescribedOperation& described,
                                                  const profile::GpuSpec& spec) {
  return operation_work(described.operation, described.operation_class, spec);
}

/// Returns the time that no parameters make shorter: nothing is faster than the datasheet. Shares
/// of the peak above 1 compensate for tiles of small products whose price is too high, but large
/// products have none of these; and work limited by multiprocessors on one GPU may be limited by
/// memory on another.
[[nodiscard]] inline double least_seconds(const CommonWork& work, const GpuRates& gpu) {
  const double cached = work.cached / kOperationParameters[kCache].most;
  return std::max(work.least_flops > 0 ? work.least_flops / work.peak_flops : 0,
                  work.bytes * (1 - work.cached + cached) / gpu.bandwidth);
}

/// Returns the parameters that operation_seconds() reads for some work.
[[nodiscard]] ParameterList parameters_of(const OperationWork& work);

/// Returns how long an operation takes, in seconds, by the equation of its kind. `parameters` has
/// kOperationParameterCount entries, not their logarithms. T is double, or a number that carries
/// derivatives. docs/design/operation-costs.md has the equations.
template <typename T>
[[nodiscard]] T operation_seconds(const OperationWork& work, const GpuRates& gpu,
                                  const T* parameters) {
  const WorkTerms<T> terms{work, gpu, parameters};
  return std::visit([&terms](const auto& kind) { return kind.seconds(terms); }, work.kind);
}

}  // namespace gpemu::cost
