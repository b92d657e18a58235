// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/gpu_spec.hpp"

#include "toml_parser.hpp"

namespace gpemu::profile {

/// Reads the table `calibration` of a GPU's file, if it has one, into its specification. Errors:
/// kCorruptData for the first fault, with file, line and field.
[[nodiscard]] Result<void> read_calibration(const toml::table& root, std::string_view origin,
                                            GpuSpec& spec);

/// Returns a GPU as its file describes it.
using FindGpu = std::function<Result<GpuSpec>(std::string_view name)>;

/// Gives a specification the calibrations of the GPUs that it names. Errors: kCorruptData when one
/// of them is not there or has no parameters of its own.
[[nodiscard]] Result<void> adopt_calibrations(GpuSpec& spec, const FindGpu& find);

}  // namespace gpemu::profile
