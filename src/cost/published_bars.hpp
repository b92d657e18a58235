// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// The least bars of what no fit rests on: other GPUs, and arithmetic of 16 bits and less, of which
/// nothing was measured for the fits. Source: published steps (tests/data/published), which
/// scripts/claims/check_published.py compares; with the bars that the fits' own evaluation gave,
/// 64 % of them were held. A convolution's is larger than that of a network's step, for what lies
/// between the convolutions has the bar of the rest. Depthwise convolutions have that of dense
/// ones.
inline constexpr double kOtherGpuBar = 0.44;
inline constexpr double kHalfBar = 0.45;
inline constexpr double kHalfConvolutionBar = 1.1;
inline constexpr double kHalfGroupedBar = 2.0;

}  // namespace gpemu::cost
