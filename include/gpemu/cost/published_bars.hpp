// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// The bars of what rests on other GPUs' steps, or on steps that others published, at least. A bar
/// of an operation is that of a step that consists of nothing else. Source: published steps
/// (evidence/published/README.md): scripts/claims/published_bars.py shows how far off nine of ten
/// are, by what takes most of their time; in brackets, as of 2026-11-29. Where these are steps of
/// only one GPU or family, the bar is wider.
///
/// In FP32 and TF32, on GPUs without steps of their own, or predicted without them: convolutions
/// (64 steps, 0.29); products in FP32 (21 steps of language models that infer, 0.12, and 10 that
/// train, 0.32; single ones are off by more, evidence/published/kernels). Steps that train are
/// nearly all products, all of which err alike: what bar_of_mixed() makes of their bar contains
/// them. The rest has the bar that measured steps give.
inline constexpr double kOtherGpuConvolutionBar = 0.3;
inline constexpr double kOtherGpuProductBar = 0.13;
inline constexpr double kOtherGpuTrainedProductBar = 0.43;
/// In 16 bits, on GPUs whose own parameters are for FP32 or TF32, or predicted without their own
/// (517 steps, nearly all on one GPU, 0.22). Those of convolutions depend on the generation:
/// GenerationFacts::half_convolution_bar and others.
inline constexpr double kHalfBar = 0.35;
/// All on GPUs that are like the one whose steps were published (18 steps on the RTX 4090, 0.19).
inline constexpr double kLikeHalfBar = 0.25;
/// In 16 bits, on the GPU whose steps were published: depthwise convolutions (7 steps, 0.27); and
/// those with groups that do not run on tensor cores (43, 0.21).
inline constexpr double kDepthwiseBar = 0.27;
inline constexpr double kDirectBar = 0.24;

}  // namespace gpemu::cost
