// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/sweep_cells.hpp"
#include "gpemu/profile/sweep_spec.hpp"

#include "cli/world.hpp"
#include "sweep/cell_store.hpp"

namespace gpemu::tools {

using Cells = std::vector<const profile::SweepCell*>;

/// Returns the words of a cell with `--json -`, which stands before a program's words, unless the
/// sweep's command has its own `--json`.
[[nodiscard]] std::vector<std::string> printing_words(const std::vector<std::string>& words);

/// How cells are run.
struct CellWork {
  std::size_t at_once = 1;
  const std::atomic<bool>& stop;
  /// Called several times a second with the number of cells that have been run.
  std::function<void(std::size_t)> progress;
};

/// Runs those of the cells that have not been run, and waits for those that other workers run.
/// Returns how many this call has run.
///
/// Errors: those of CellStore; kInterrupted after `stop`, which ends the commands; those of
/// starting gpemu. A command that fails is no error.
[[nodiscard]] Result<std::size_t> run_cells(const profile::SweepSpec& spec, const Cells& cells,
                                            const CellStore& store, const World& world,
                                            const CellWork& work);

}  // namespace gpemu::tools
