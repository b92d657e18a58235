// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// The bar of the time in which a GPU waits for its host's launches. Source: 62 training steps on
/// five hosts in which the GPU waits for a tenth of the time or more (published/ and
/// measured/h200): all but one were within 0.5, and four of these hosts had not been measured.
inline constexpr double kHostError = 0.6;

}  // namespace gpemu::cost
