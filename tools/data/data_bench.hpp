// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::tools {

struct DataBenchOptions {
  int workers = 1;
  int epochs = 3;
  int batch = 64;
  std::uint64_t seed = 0;
  bool decode_only = false;  ///< libjpeg-turbo decoding whole files, instead of the loader.
};

/// One pass over the data set.
struct DataBenchEpoch {
  std::int64_t images = 0;
  std::int64_t corrupt = 0;
  Duration elapsed{};
  Duration cpu{};  ///< of all threads.
};

/// Measures how fast the host prepares images from files in the page cache, without waiting for a
/// GPU. `cpu_time` returns the CPU time of all threads of the process.
///
/// Errors: those of the loader; kCorruptData or, if the threads cannot be started, kResourceLimit
/// with decode_only; kInterrupted after `stop`.
[[nodiscard]] Result<std::vector<DataBenchEpoch>> run_data_bench(
    const data::FolderDataset& dataset, const DataBenchOptions& options, const sim::Clock& clock,
    const std::function<Duration()>& cpu_time, const std::atomic<bool>& stop);

}  // namespace gpemu::tools
