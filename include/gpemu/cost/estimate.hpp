// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/units.hpp"

namespace gpemu::cost {

/// The evidence on which a number rests: best first, but for the last one, which lies between
/// scaled and calibrated. The C interface has the same numbers.
enum class Evidence : std::uint8_t {
  kMeasured,      ///< this very configuration was measured.
  kInterpolated,  ///< between two measured batch sizes.
  kExtrapolated,  ///< beyond the measured batch sizes, within what fits; memory: of another GPU.
  kScaled,        ///< from the operation model, corrected by another batch that was measured.
  kCalibrated,    ///< from the operation model, with parameters fitted to this GPU's measurements.
  kTransferred,   ///< the same with parameters of another GPU or of other arithmetic.
  kAnalytic,      ///< from the datasheet's rates.
  kGuessed,       ///< the work was guessed too: kernels that are not recognised.
  kEmulated,      ///< measured, but on an emulated GPU: says nothing about a real one.
  kPublished,     ///< as calibrated, but fitted to steps that others measured on this GPU.
};

inline constexpr std::array<std::string_view, 10> kEvidenceNames = {
    "measured",    "interpolated", "extrapolated", "scaled",   "calibrated",
    "transferred", "analytic",     "guessed",      "emulated", "published"};

[[nodiscard]] constexpr std::string_view evidence_name(Evidence evidence) {
  return kEvidenceNames[static_cast<std::size_t>(evidence)];
}

/// A duration with its evidence.
struct Estimate {
  Duration time{};
  Evidence evidence = Evidence::kMeasured;
  /// In 9 of 10 cases the truth is at most a factor of 1 + relative_error above or below `time`.
  double relative_error = 0;
};

}  // namespace gpemu::cost
