// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/operation_time.hpp"

#include <algorithm>
#include <cmath>

#include "count_work.hpp"
#include "hardware.hpp"

namespace gpemu::cost {
namespace {

/// Shares of the peak that other arithmetic reaches: transforms, whose steps depend on each other,
/// and work of which only the amount is known. Chosen by hand, without measurements.
constexpr double kTransformShare = 0.5;
constexpr double kOtherShare = 0.3;
/// The share that a product in an unknown kernel reaches. Chosen by hand, below that of libraries.
constexpr double kGuessedShare = 0.5;

/// Other work whose amount is known.
OperationWork other_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const gpemu_data_type type = arithmetic_type(operation);
  OperationWork work{{.peak_flops = sustained_peak_of(type, spec).flops}, OtherWork{}};
  switch (operation.kind) {
    case GPEMU_OPERATION_FFT: {
      const double batch = entry(operation, 0);
      const double points = std::max(entry(operation, 1), 1.0) *
                            std::max(entry(operation, 2), 1.0) * std::max(entry(operation, 3), 1.0);
      // Cooley and Tukey: 5 n log2 n. Source: the convention of FFTW's benchmarks.
      work.flops = 5 * batch * points * std::log2(std::max(points, 2.0));
      work.peak_flops *= kTransformShare;
      work.bytes = 4 * batch * points * gpemu_data_type_bytes(operation.type);
      break;
    }
    case GPEMU_OPERATION_WAIT:
      work.flops = entry(operation, 0);
      work.peak_flops = spec.boost_clock_mhz * 1e6;
      break;
    default:
      work.flops = entry(operation, 0) * arithmetic_factor(operation.type);
      work.peak_flops *= kOtherShare;
      work.bytes = entry(operation, 1);
      break;
  }
  return work;
}

/// A product of matrices in a kernel that is not known.
OperationWork guessed_work(const gpemu_operation& operation, const profile::GpuSpec& spec) {
  const double peak = sustained_peak_of(arithmetic_type(operation), spec).flops;
  const double flops = entry(operation, kernels::kKernelFlops);
  return {{.peak_flops = peak * kGuessedShare,
           .flops = flops,
           .bytes = entry(operation, kernels::kKernelBytes)},
          OtherWork{}};
}

}  // namespace

ParameterList parameters_of(const OperationWork& work) {
  ParameterList list;
  if (work.cached > 0) list.add(kCache);
  std::visit([&](const auto& kind) { kind.add_parameters(work, list); }, work.kind);
  return list;
}

OperationWork operation_work(const gpemu_operation& operation,
                             kernels::OperationClass operation_class,
                             const profile::GpuSpec& spec) {
  switch (operation.kind) {
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
      return convolution_work(operation, spec);
    case GPEMU_OPERATION_MATMUL:
      return matmul_work(operation, spec);
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
      return normalization_work(operation, spec);
    case GPEMU_OPERATION_POOLING:
    case GPEMU_OPERATION_POOLING_BACKWARD:
      return pooling_work(operation, spec);
    case GPEMU_OPERATION_ELEMENTWISE:
      return elementwise_work(operation, operation_class, spec);
    case GPEMU_OPERATION_REDUCTION:
      return reduction_work(operation, spec);
    case GPEMU_OPERATION_COPY_ON_DEVICE:
      return moving_work(2 * entry(operation, 0), spec);
    case GPEMU_OPERATION_SET:
      return moving_work(entry(operation, 0), spec);
    case GPEMU_OPERATION_KERNEL:
      return entry(operation, kernels::kKernelFlops) > 0
                 ? guessed_work(operation, spec)
                 : kernel_work(operation, operation_class, spec);
    case GPEMU_OPERATION_ATTENTION_FORWARD:
    case GPEMU_OPERATION_ATTENTION_BACKWARD:
      return attention_work(operation, spec);
    case GPEMU_OPERATION_RNN_FORWARD:
    case GPEMU_OPERATION_RNN_BACKWARD:
      return recurrent_work(operation, spec);
    default:
      return other_work(operation, spec);
  }
}

}  // namespace gpemu::cost
