// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpemu::profile {

/// The quantity that a curve gives as a function of the batch size.
enum class Quantity : std::uint8_t {
  kForward,            ///< ms of one forward pass.
  kBackwardOptimizer,  ///< ms of loss, backward pass and optimizer step, measured as one.
  kInputCopyPageable,  ///< ms of copying one batch from pageable host memory to the GPU.
  kPeakMemory,         ///< the most MiB that the framework's allocator holds during a step.
  kPersistentMemory,   ///< MiB that it holds between steps.
};

inline constexpr std::array<std::string_view, 5> kQuantityNames = {
    "forward", "backward_optimizer", "input_copy_pageable", "peak_memory", "persistent_memory"};

[[nodiscard]] constexpr std::string_view quantity_name(Quantity quantity) {
  return kQuantityNames[static_cast<std::size_t>(quantity)];
}

/// Unit of each quantity's values, as in the tables of a pack.
inline constexpr std::array<std::string_view, 5> kQuantityUnits = {"ms", "ms", "ms", "mib", "mib"};

[[nodiscard]] constexpr std::string_view quantity_unit(Quantity quantity) {
  return kQuantityUnits[static_cast<std::size_t>(quantity)];
}

/// Which measurement a curve belongs to.
struct CurveKey {
  std::string model;      ///< e.g. "resnet50", torchvision's name.
  std::string gpu;        ///< GpuSpec::name.
  std::string precision;  ///< e.g. "fp32", "tf32", "bf16-amp".
  Quantity quantity = Quantity::kForward;

  friend auto operator<=>(const CurveKey&, const CurveKey&) = default;
};

/// One measured point, never an extrapolated one.
struct CurvePoint {
  int batch = 0;
  double value = 0;  ///< ms or MiB, by the curve's quantity.
};

/// Measured points of one quantity, in ascending batch order, and how well straight lines between
/// them reproduce all measurements.
struct Curve {
  CurveKey key;
  std::string pack;       ///< name of the pack it comes from.
  bool emulated = false;  ///< whether that was measured on emulated GPUs.
  std::vector<CurvePoint> points;
  int measured_rows = 0;  ///< how many rows the points represent.
  /// |interpolated / measured - 1| over those rows: mean, 90th and 95th percentile, largest. If
  /// each row is a point, an estimate for the batches between them.
  double mean_relative_error = 0;
  double p90_relative_error = 0;
  double p95_relative_error = 0;
  double max_relative_error = 0;
};

/// The batch sizes up to which a model was measured to fit.
struct MemoryLimit {
  std::string model;
  std::string gpu;
  std::string precision;
  std::string pack;
  int largest_batch_measured = 0;                ///< the largest batch that ran.
  std::optional<int> first_batch_out_of_memory;  ///< absent if every batch that was tried ran.
};

/// The properties of a model that do not depend on a GPU.
struct ModelInfo {
  std::string name;
  std::uint64_t parameters = 0;
  std::array<int, 3> input_shape{};  ///< channels, height, width of one FP32 sample.
  std::string pack;
};

}  // namespace gpemu::profile
