// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"
#include "gpemu/sim/clock.hpp"

#include "cli/read_choice.hpp"

namespace gpemu::tools {

struct DataBenchOptions {
  int workers = 1;
  int epochs = 3;
  int batch = 64;
  std::uint64_t seed = 0;
  bool decode_only = false;  ///< decoding whole files, instead of the loader.
  bool no_decode = false;    ///< the loader reads and checks images, and does not decode them.
  bool cold = false;         ///< each epoch begins with nothing in the page cache.
  ReadOptions read;
};

/// One pass over the data set.
struct DataBenchEpoch {
  std::int64_t images = 0;
  std::int64_t corrupt = 0;
  Duration elapsed{};
  Duration cpu{};  ///< of all threads.
};

/// Measures how fast the host prepares images, without waiting for a GPU: from files in the page
/// cache or, if cold, from storage, as slowly as `storage` describes it if there is one. `cpu_time`
/// returns the CPU time of all threads of the process.
///
/// Errors: those of the loader; kCorruptData or, if the threads cannot be started, kResourceLimit
/// with decode_only; kInterrupted after `stop`.
[[nodiscard]] Result<std::vector<DataBenchEpoch>> run_data_bench(
    const data::Dataset& dataset, const DataBenchOptions& options, data::StorageDevice* storage,
    const sim::Clock& clock, const std::function<Duration()>& cpu_time,
    const std::atomic<bool>& stop);

}  // namespace gpemu::tools
