// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "gpemu/profile/sweep_spec.hpp"
#include "gpemu/report/provenance.hpp"

#include "sweep/sweep_table.hpp"

namespace gpemu::tools {

struct SweepCounts {
  std::size_t cells = 0, done = 0, failed = 0;  ///< done: without those that failed.
};
[[nodiscard]] SweepCounts count_rows(std::span<const SweepRow> rows);

/// Returns e.g. "2000 cells: 1998 done, 2 failed".
[[nodiscard]] std::string sweep_counts_text(const SweepCounts& counts);

/// Returns the values of a cell's factors, e.g. "gpu T4, batch 8".
[[nodiscard]] std::string factors_text(const profile::SweepSpec& spec, const SweepRow& row);

/// Returns a page with the sweep's plots, its table, the cells that failed, and how they were run.
[[nodiscard]] std::string sweep_page(const profile::SweepSpec& spec, std::span<const SweepRow> rows,
                                     const report::Provenance& provenance);

}  // namespace gpemu::tools
