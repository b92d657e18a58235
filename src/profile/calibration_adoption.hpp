// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::profile {

/// Returns a GPU as its file describes it.
using FindGpu = std::function<Result<GpuSpec>(std::string_view name)>;

/// Gives a specification the calibrations of the GPUs that it names. Errors: kCorruptData when one
/// of them is not there or has no parameters of its own.
[[nodiscard]] Result<void> adopt_calibrations(GpuSpec& spec, const FindGpu& find);

}  // namespace gpemu::profile
