// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/calibration.hpp"

namespace gpemu::profile {

/// Returns a GPU's file with this calibration in place of its own, or at its end; no other byte
/// changes. `other_arithmetic` names the GPU whose parameters apply to convolutions and products in
/// the other arithmetic (with or without tensor cores); empty: none does.
///
/// Errors: those of parse_gpu_spec() for the old text and for the new one.
[[nodiscard]] Result<std::string> replace_calibration(std::string_view toml,
                                                      std::string_view origin,
                                                      const Calibration& calibration,
                                                      std::string_view other_arithmetic);

}  // namespace gpemu::profile
