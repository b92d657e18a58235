// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/calibration.hpp"

namespace gpemu::profile {

/// Returns a GPU's file with this calibration in place of the one that it has, or at its end; every
/// other byte stays. `other_arithmetic` names the GPU whose parameters hold for convolutions and
/// products of the other arithmetic, with tensor cores or without; empty: none does.
///
/// Errors: those of parse_gpu_spec(), of the old text and of the new.
[[nodiscard]] Result<std::string> replace_calibration(std::string_view toml,
                                                      std::string_view origin,
                                                      const Calibration& calibration,
                                                      std::string_view other_arithmetic);

}  // namespace gpemu::profile
