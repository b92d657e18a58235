// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/run_report.hpp"

namespace gpemu::tools {

/// Returns the result of a run as a self-contained HTML page with plots.
[[nodiscard]] std::string run_page(const RunReport& report);

}  // namespace gpemu::tools
