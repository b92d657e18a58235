// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "gpemu/cost/operation_time.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/step/listed_tensors.hpp"
#include "gpemu/step/recorded_operation.hpp"

namespace gpemu::step {

/// The operations before and after one; null if there is none, or if the order is not known.
struct Neighbours {
  const RecordedOperation* previous = nullptr;
  const RecordedOperation* next = nullptr;
};

/// Returns the parameter with the host's time to launch an operation.
[[nodiscard]] cost::OperationParameter host_cost(const RecordedOperation& operation,
                                                 const Neighbours& neighbours, bool forward);

/// How long a GPU's host takes for what a step asks it for. Units: seconds.
class HostTimes {
 public:
  /// The times of the host in which the GPU's steps were measured, or typical ones.
  explicit HostTimes(const profile::GpuSpec& gpu);

  /// The times of the parameters of a fit.
  HostTimes(const profile::OperationParameters& parameters, std::optional<double> listed_tensor)
      : parameters_(parameters), listed_tensor_(listed_tensor) {}

  /// To launch what has the given parameter, as host_cost() returns it.
  [[nodiscard]] double launch(int host_cost) const {
    return parameters_[cost::kHostLaunch] * parameters_.at(static_cast<std::size_t>(host_cost));
  }
  [[nodiscard]] double launch(const RecordedOperation& operation, const Neighbours& neighbours,
                              bool forward) const {
    return launch(host_cost(operation, neighbours, forward));
  }

  /// To start a phase of a step, and to notice its end.
  [[nodiscard]] double wait(bool forward) const {
    return parameters_[forward ? cost::kHostForward : cost::kHostBackward];
  }

  /// To launch each of an optimizer's kernels over lists of tensors: it depends on the tensors, not
  /// on the kernels. Absent where neither host nor lists are known.
  [[nodiscard]] std::optional<double> listed_launch(const ListedTensors& listed) const;

  /// For each tensor that an optimizer updates in lists, if that is known.
  [[nodiscard]] std::optional<double> listed_tensor() const { return listed_tensor_; }

 private:
  profile::OperationParameters parameters_{};
  std::optional<double> listed_tensor_;
};

}  // namespace gpemu::step
