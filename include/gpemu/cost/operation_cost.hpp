// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "gpemu/cost/arithmetic_parameters.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/operation.h"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

struct OperationWork;  ///< operation_work.hpp

/// What limits an operation's speed.
enum class Limit : std::uint8_t { kCompute, kMemory, kLatency };

struct OperationCost {
  Estimate estimate;
  double training_error = 0;  ///< as the estimate's relative_error, in a step that trains.
  kernels::OperationClass operation_class = kernels::OperationClass::kOther;
  /// The part of the time that memory takes at its full rate, whatever the clock of the
  /// multiprocessors is.
  double memory_share = 0;
  /// Of a kernel: the share of the multiprocessors that its blocks reach, and how often its blocks
  /// fill them. Prices do not depend on them; whoever launches it knows them.
  double width = 1;
  int waves = 1;
};

/// Predicts how long an operation takes on one GPU, by operation_seconds(). The parameters are
/// those fitted to this GPU's measured steps, else those of the GPU that its file names, else
/// typical ones. docs/design/operation-costs.md has the equations.
///
/// If those parameters were measured with tensor cores and a convolution or product does not use
/// them, or the other way round, spec.other_arithmetic prices it. In 16 bits, spec.half does.
///
/// A pure function of its inputs; no operation costs nothing. Thread safety: any thread.
class OperationCostModel {
 public:
  explicit OperationCostModel(profile::GpuSpec spec);

  /// Prices an operation. Negative entries of the shape count as 0. A kernel that is not described
  /// yet is analysed and described first, which takes microseconds.
  [[nodiscard]] OperationCost price(const gpemu_operation& operation) const;

  [[nodiscard]] OperationCost price(const kernels::DescribedOperation& described) const;

  /// Returns what takes most of an operation's time: its arithmetic, its bytes, or what remains
  /// without both. Separate from price() because it takes as long, and only predictions need it.
  [[nodiscard]] Limit limit(const kernels::DescribedOperation& described) const;

 private:
  [[nodiscard]] OperationCost price(const gpemu_operation& operation,
                                    kernels::OperationClass operation_class) const;
  [[nodiscard]] const EvidencedParameters& parameters_for(const OperationWork& work) const;
  /// Returns how long work takes, in seconds.
  [[nodiscard]] double seconds_of(const OperationWork& work,
                                  const EvidencedParameters& parameters) const;

  profile::GpuSpec spec_;
  ArithmeticParameters parameters_;
};

}  // namespace gpemu::cost
