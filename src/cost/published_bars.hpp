// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// The least bars of what rests on other GPUs' steps, or on steps that others published. Source:
/// published steps (published/README.md), which `gpemu cost eval published --published` compares:
/// with these bars, about nine of ten lie within theirs. A bar of an operation is that of a step
/// that consists of nothing else.
///
/// In FP32 and TF32, on GPUs without steps of their own.
inline constexpr double kOtherGpuBar = 0.35;
/// In 16 bits, on GPUs whose own parameters are for FP32 or TF32: convolutions, those with several
/// groups that run on tensor cores, direct ones, and the rest; convolutions on GPUs before Ampere,
/// which the parameters of later ones made up to twice too fast; and all on GPUs that are like the
/// one whose steps were published.
inline constexpr double kHalfConvolutionBar = 0.5;
inline constexpr double kHalfGroupedBar = 0.8;
inline constexpr double kHalfDirectBar = 1.2;
inline constexpr double kHalfBar = 0.45;
inline constexpr double kOldHalfConvolutionBar = 1.0;
inline constexpr double kOldHalfGroupedBar = 1.5;
inline constexpr double kLikeHalfBar = 0.35;
/// In 16 bits, on the GPU whose steps were published: depthwise convolutions; and those with groups
/// that do not run on tensor cores, whose time depends on the library's version.
inline constexpr double kDepthwiseBar = 0.33;
inline constexpr double kDirectBar = 0.8;

}  // namespace gpemu::cost
