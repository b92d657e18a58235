// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpemu::calibrate {

/// Returns the GPU whose efficiencies replace those of `gpu` when it is left out: one of the same
/// or the neighbouring generation and kind of memory. Empty for a GPU that was not measured.
[[nodiscard]] std::string_view nearest_gpu(std::string_view gpu);

}  // namespace gpemu::calibrate
