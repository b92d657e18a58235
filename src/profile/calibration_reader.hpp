// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/calibration.hpp"

#include "toml_parser.hpp"

namespace gpemu::profile {

/// The tables of a calibration in a GPU's file: of the device, and in it of the host.
inline constexpr std::string_view kCalibrationTable = "calibration";
inline constexpr std::string_view kCalibrationHostTable = "host";
/// A key of the host's table: Calibration::listed_tensor.
inline constexpr Parameter kListedTensor{.name = "host_listed_tensor", .least = 1e-7, .most = 1e-3};
/// In it too: products in another arithmetic, on a GPU on which all were measured.
inline constexpr std::string_view kCalibrationTf32Table = "tf32";
inline constexpr std::string_view kCalibrationFp32Table = "fp32";

/// What a GPU's file says of its calibration.
struct FileCalibration {
  std::optional<Calibration> own;
  std::string like;       ///< the GPU whose calibration stands for this one's, or empty.
  std::string host_like;  ///< then the GPU whose host this one's is like, or empty for the same.
  std::string other_arithmetic_like;  ///< the GPU of the other arithmetic's calibration, or empty.
};

/// Reads the table of the calibration of the GPU `gpu` from its file, if that has one. Errors:
/// kCorruptData for the first fault, with file, line and field.
[[nodiscard]] Result<FileCalibration> read_calibration(const toml::table& root,
                                                       std::string_view origin,
                                                       std::string_view gpu);

}  // namespace gpemu::profile
