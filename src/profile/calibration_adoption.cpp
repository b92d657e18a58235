// SPDX-License-Identifier: Apache-2.0
#include "calibration_adoption.hpp"

#include <string>
#include <utility>

#include "calibration_reader.hpp"

namespace gpemu::profile {

Result<void> adopt_calibrations(GpuSpec& spec, const FindGpu& find) {
  const auto adopt = [&](const std::string& name, std::string_view key) -> Result<GpuSpec> {
    Result<GpuSpec> other = find(name);
    if (other && other->calibration) return other;
    return fail(ErrorCode::kCorruptData, "{}: {}.{}: there is no GPU \"{}\" with parameters",
                spec.name, kCalibrationTable, key, name);
  };
  if (!spec.calibrated_like.empty()) {
    GPEMU_ASSIGN(GpuSpec like, adopt(spec.calibrated_like, "like"));
    spec.calibration = std::move(like.calibration);
    spec.other_arithmetic_like = like.other_arithmetic_like;
  }
  if (!spec.host_like.empty() && spec.calibration) {
    GPEMU_ASSIGN(const GpuSpec like, adopt(spec.host_like, "host_like"));
    take_host(*like.calibration, *spec.calibration);
  }
  if (!spec.other_arithmetic_like.empty()) {
    GPEMU_ASSIGN(GpuSpec like, adopt(spec.other_arithmetic_like, "other_arithmetic_like"));
    const auto tensor_cores = [](const GpuSpec& gpu) {
      return gpu.calibration && gpu.calibration->tensor_cores;
    };
    if (tensor_cores(like) == tensor_cores(spec)) {
      return fail(ErrorCode::kCorruptData,
                  "{}: {}.other_arithmetic_like: {} has no other arithmetic", spec.name,
                  kCalibrationTable, like.name);
    }
    spec.other_arithmetic = std::move(like.calibration);
  }
  if (spec.calibration && !spec.calibration->half && spec.fp16_tensor_flops) {
    // A database may have no such GPU.
    Result<GpuSpec> half = find(kHalfGpu);
    if (half && half->calibration && half->calibration->half) {
      spec.half = std::move(half->calibration);
    }
  }
  return {};
}

}  // namespace gpemu::profile
