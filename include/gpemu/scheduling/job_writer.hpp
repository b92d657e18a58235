// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"

namespace gpemu::scheduling {

/// Returns jobs as a table in gpemu's own format (docs/reference/job-tables.md). Optional columns
/// occur if a job needs them. parse_jobs() returns the same jobs from it. `fleet` has the kinds
/// that jobs name; null: none.
///
/// Requires: the jobs are sorted by arrival. Errors: kInvalidArgument for a name with a comma, a
/// quote or a newline, and for a job whose speed depends on where it runs.
[[nodiscard]] Result<std::string> job_table_text(std::span<const Job> jobs,
                                                 const Fleet* fleet = nullptr);

}  // namespace gpemu::scheduling
