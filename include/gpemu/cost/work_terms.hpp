// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "gpemu/profile/calibration.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

using profile::kOperationParameterCount;
using profile::kOperationParameters;
using profile::OperationParameter;
using profile::Parameter;
using enum profile::OperationParameter;

/// The GPU rates that the cost model uses.
struct GpuRates {
  double fp32_flops = 0;  ///< per second, without tensor cores.
  double bandwidth = 0;   ///< bytes per second.
  double clock_hz = 0;    ///< of the multiprocessors, boosted.
  double multiprocessors = 0;
};

[[nodiscard]] inline GpuRates gpu_rates(const profile::GpuSpec& spec) {
  return {.fp32_flops = spec.fp32_flops,
          .bandwidth = spec.memory_bandwidth_bytes_per_s,
          .clock_hz = spec.boost_clock_mhz * 1e6,
          .multiprocessors = static_cast<double>(spec.multiprocessors)};
}

/// What the work of all kinds of operations has. Arithmetic operations are counted as the hardware
/// does them, including the empty parts of tiles; bytes count each time they are read or written.
struct CommonWork {
  std::uint8_t direction = 0;  ///< 0: forward, 1: to the data, 2: to the filter, or backward.
  bool tensor_cores = false;
  bool half = false;      ///< products and convolutions: of 16 bits or less on tensor cores.
  double peak_flops = 0;  ///< of the arithmetic's type, per second, as long as it lasts.
  double flops = 0;
  double least_flops = 0;  ///< without empty parts of tiles; 0 if an algorithm may need less.
  double bytes = 0;
  double cached = 0;  ///< part of them that the L2 cache serves.
};

/// The most parameters that an operation's time depends on.
inline constexpr int kMostParameters = 10;

/// The parameters that an operation's time depends on.
struct ParameterList {
  std::array<std::uint8_t, kMostParameters> indices{};
  int count = 0;

  void add(auto... some) { ((indices[count++] = static_cast<std::uint8_t>(some)), ...); }
};

/// What the equations of all kinds of work use. `parameters` has kOperationParameterCount entries,
/// not their logarithms. T is double, or a number that carries derivatives.
template <typename T>
struct WorkTerms {
  const CommonWork& work;
  const GpuRates& gpu;
  const T* parameters;

  [[nodiscard]] const T& by_direction(OperationParameter first) const {
    return parameters[first + work.direction];
  }
  /// The time for the bytes at a share of the memory's rate. What is in the L2 cache takes less.
  [[nodiscard]] T moved(const T& share) const {
    T seconds = work.bytes / (share * gpu.bandwidth);
    if (work.cached > 0) seconds *= 1 - work.cached + work.cached / parameters[kCache];
    return seconds;
  }
  [[nodiscard]] T together(const T& arithmetic, const T& memory) const {
    return std::max(arithmetic, memory) + parameters[kApart] * std::min(arithmetic, memory);
  }
};

}  // namespace gpemu::cost
