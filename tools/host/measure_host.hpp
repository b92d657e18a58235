// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/host_load.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

struct HostMeasureOptions {
  int images = 400;  ///< that each measurement prepares or reads.
  int rounds = 5;    ///< of preparing; the one that others disturbed least counts.
};

/// What preparing the images of a data set costs gpemu's loader.
struct MeasuredLoader {
  std::string format;  ///< of the data set.
  double image_s = 0;  ///< of processor time, by one worker that is alone.
};

/// Reads that no cache has, from where a data set lies.
struct MeasuredStorage {
  double access_s = 0;
  double bytes_per_s = 0;
  int requests_at_once = 1;
};

/// This machine, as a described host.
struct MeasuredHost {
  report::HostFacts facts;
  std::vector<std::pair<int, double>> speed_by_busy;
  std::vector<MeasuredLoader> loaders;
  MeasuredStorage storage;
  bool in_memory = false;  ///< the first data set lies in memory.
  double image_bytes = 0;  ///< mean, of the first data set.
  report::HostLoad load;   ///< while it was measured.
  std::string date;        ///< of the measurement.
};

/// Measures this machine: preparing the images of each data set, and reading those of the first
/// from storage, which empties the page cache of it.
///
/// Errors: those of the loader; kInvalidArgument for two data sets of one format; kInterrupted
/// after `stop`.
[[nodiscard]] Result<MeasuredHost> measure_host(const std::vector<data::Dataset>& datasets,
                                                const HostMeasureOptions& options,
                                                const World& world, const std::atomic<bool>& stop);

/// A read of so many bytes, and how long it took.
struct TimedRead {
  double bytes = 0, seconds = 0;
};

/// Returns the storage that reads as these did one after the other, and as often as `reads_per_s`
/// when many waited.
///
/// Requires: reads, and a rate above zero.
[[nodiscard]] MeasuredStorage fit_storage(std::vector<TimedRead> reads, double reads_per_s);

/// Returns the host file (docs/reference/host-file.md).
[[nodiscard]] std::string host_file_text(const std::string& name, const MeasuredHost& host);

}  // namespace gpemu::tools
