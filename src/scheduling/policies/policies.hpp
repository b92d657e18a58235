// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// How long a round is. Source: Synergy (OSDI'22), whose simulator takes 300 s for all policies.
inline constexpr double kSynergyRoundS = 300;

[[nodiscard]] std::unique_ptr<Policy> make_allox(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_antman(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_conservative(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_drf_fifo(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_drf_sjf(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_easy(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_equal_share(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_fifo(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_gavel_fifo(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_gavel_makespan(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_gavel_max_min(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_gittins(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_las(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_las_proportional(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_las_synergy(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_max_min(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_muri_l(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_muri_l_split(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_muri_s(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_muri_s_split(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_sjf(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_srsf(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_srtf(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_srtf_proportional(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_srtf_synergy(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_themis(const PolicySettings& settings);
[[nodiscard]] std::unique_ptr<Policy> make_tiresias(const PolicySettings& settings);

}  // namespace gpemu::scheduling
