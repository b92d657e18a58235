// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

[[nodiscard]] std::unique_ptr<Policy> make_fifo();
[[nodiscard]] std::unique_ptr<Policy> make_muri_l();
[[nodiscard]] std::unique_ptr<Policy> make_muri_l_split();
[[nodiscard]] std::unique_ptr<Policy> make_muri_s();
[[nodiscard]] std::unique_ptr<Policy> make_muri_s_split();
[[nodiscard]] std::unique_ptr<Policy> make_srsf();
[[nodiscard]] std::unique_ptr<Policy> make_srtf();
[[nodiscard]] std::unique_ptr<Policy> make_tiresias();

}  // namespace gpemu::scheduling
