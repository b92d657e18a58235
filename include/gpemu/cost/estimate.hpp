// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "gpemu/base/units.hpp"

namespace gpemu::cost {

/// What a number rests on, best first.
enum class Evidence : std::uint8_t {
  kMeasured,      ///< this very configuration was measured.
  kInterpolated,  ///< between two measured batch sizes.
  kExtrapolated,  ///< beyond the measured batch sizes, within what fits; memory: of another GPU.
  kScaled,        ///< by the model of operations, corrected by another batch that was measured.
  kCalibrated,    ///< of operations, by parameters fitted to this GPU's measurements.
  kTransferred,   ///< the same by another GPU's parameters, or by those of other arithmetic.
  kAnalytic,      ///< from the datasheet's rates.
  kGuessed,       ///< what the work is was guessed, too: kernels that are not recognised.
  kEmulated,      ///< measured, but on an emulated GPU: says nothing of a real one.
};

inline constexpr std::array<std::string_view, 9> kEvidenceNames = {
    "measured",    "interpolated", "extrapolated", "scaled",  "calibrated",
    "transferred", "analytic",     "guessed",      "emulated"};

[[nodiscard]] constexpr std::string_view evidence_name(Evidence evidence) {
  return kEvidenceNames[static_cast<std::size_t>(evidence)];
}

/// A duration with what it rests on.
struct Estimate {
  Duration time{};
  Evidence evidence = Evidence::kMeasured;
  /// In 9 of 10 cases the truth is at most a factor of 1 + relative_error above or below `time`.
  double relative_error = 0;
};

}  // namespace gpemu::cost
