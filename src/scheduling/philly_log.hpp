// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table_options.hpp"

namespace gpemu::scheduling {

/// Reads jobs from Philly's own log, a JSON list (docs/reference/job-tables.md); messages call it
/// `name`. Errors: kCorruptData with the job.
[[nodiscard]] Result<std::vector<Job>> parse_philly_log(std::string_view text,
                                                        const std::string& name,
                                                        const JobTableOptions& options);

}  // namespace gpemu::scheduling
