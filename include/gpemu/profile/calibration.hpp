// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpemu/profile/generation.hpp"

namespace gpemu::profile {

/// A positive number of a model that a fit chooses. Fits work with its natural logarithm: expected
/// deviations, bounds and derivatives are relative.
struct Parameter {
  std::string_view name;
  double typical = 1;  ///< the value expected without any data, in the parameter's own unit.
  /// Standard deviations of logarithms: of the value shared by all GPUs from `typical`, and of one
  /// GPU's value from the shared value.
  double shared_spread = 1;
  double own_spread = 1;
  double least = 0;  ///< physical bounds, 0 < least < most.
  double most = 0;
};

/// Indices of the parameters of cost::operation_seconds() and of the host that launches operations.
enum OperationParameter : std::uint8_t {
#define X(index, ...) index,
#include "gpemu/profile/operation_parameters.def"
#undef X
};

/// The parameters by index, with their expected values and physical bounds.
inline constexpr auto kOperationParameters = std::to_array<Parameter>({
#define X(index, ...) Parameter{__VA_ARGS__},
#include "gpemu/profile/operation_parameters.def"
#undef X
});

inline constexpr int kOperationParameterCount = static_cast<int>(kOperationParameters.size());

/// Parameters in the order of kOperationParameters, not their logarithms.
using OperationParameters = std::array<double, kOperationParameterCount>;

/// The host's parameters come after the device's.
inline constexpr int kFirstHostParameter = kHostConvolution;
/// The parameters before this one belong to products, convolutions and attention, and depend on
/// their arithmetic.
inline constexpr int kFirstCommonParameter = kNormalizationForward;

/// Bars of a step's time, cost::Estimate::relative_error, found by `gpemu cost eval` on steps that
/// the parameters were not fitted to.
struct CalibrationBars {
  double unseen_model = 0;  ///< of a model that was not measured on this GPU.
  double known_batch = 0;   ///< of a model that was, corrected by another batch.
  double other_gpu = 0;     ///< of another GPU that uses these parameters.
  /// As `unseen_model`, where all kinds of arithmetic were measured and that is for 16 bits: for
  /// convolutions, products and attention in TF32 and in FP32. Absent if too few steps tell.
  std::optional<double> tf32, fp32;
};

/// What measured training steps show about a GPU and its host: parameters, and how they were
/// obtained.
struct Calibration {
  std::string gpu;      ///< that was measured, GpuSpec::name.
  std::string command;  ///< that fitted the parameters.
  std::string pack;     ///< of the measurements.
  int models = 0;
  int steps = 0;
  double error = 0;  ///< mean absolute error of a step among those, as a share.
  /// Whether convolutions and products ran on tensor cores.
  bool tensor_cores = false;
  bool half = false;  ///< whether their numbers had 16 bits.
  /// What the tensor cores of the measured GPU do in 16 bits, in operations per clock of a
  /// multiprocessor; 0 without tensor cores.
  double tensor_rate = 0;
  /// Of the measured GPU, as compute_capability() and bytes_per_clock() tell them.
  int compute_capability = 0;
  double bytes_per_clock = 0;
  GenerationFacts generation;           ///< of the measured GPU.
  std::optional<CalibrationBars> bars;  ///< absent if the parameters were not evaluated.
  OperationParameters parameters{};
  /// The same for products, convolutions and attention in TF32 and in FP32, on a GPU on which all
  /// kinds of arithmetic were measured; `parameters` are for 16 bits then. Others are not read.
  /// GPUs without TF32 have none for it.
  std::optional<OperationParameters> tf32, fp32;
  /// The host's time for each tensor in an optimizer's lists, in s. Absent if the programs in that
  /// host have no such lists and update one tensor after the other.
  std::optional<double> listed_tensor;
  bool other_host = false;  ///< whether the host's parameters are those of another GPU's host.

  [[nodiscard]] bool has_all_arithmetic() const { return half && fp32; }
};

/// Replaces a calibration's parameters of the host by those of another calibration.
inline void take_host(const Calibration& from, Calibration& to) {
  std::copy(from.parameters.begin() + kFirstHostParameter, from.parameters.end(),
            to.parameters.begin() + kFirstHostParameter);
  to.listed_tensor = from.listed_tensor;
  to.other_host = from.gpu != to.gpu;
}

}  // namespace gpemu::profile
