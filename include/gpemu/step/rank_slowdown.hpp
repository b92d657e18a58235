// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::step {

/// How much longer kernels take beside a collective, as a share of the time of both, and the most
/// that was measured. Source: training of GPT and LLaMA on A100 and H100 (arXiv 2507.03114).
inline constexpr double kSlowedBeside = 0.189;
inline constexpr double kMostSlowedBeside = 0.40;

/// The range from the fastest to the slowest of many GPUs of one kind without outliers, as a share
/// of the median time: the mean of the applications that were measured on five clusters, and the
/// most. Source: Sinha et al., "Not All GPUs Are Created Equal" (SC 2022, arXiv 2208.11035).
inline constexpr double kGpuVariation = 0.08;
inline constexpr double kMostGpuVariation = 0.22;

/// Returns how much longer the slowest of `ranks` GPUs is expected to take than one GPU, as a
/// share: they wait for it in each step. `variation` is such a range. The times are taken as
/// normally distributed, and the range as that between the whiskers of a box plot, 1.5 times the
/// distance between the quartiles beyond each of them. Requires: at least one rank.
[[nodiscard]] double slowest_of(int ranks, double variation = kGpuVariation);

}  // namespace gpemu::step
