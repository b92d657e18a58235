// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "gpemu/base/units.hpp"
#include "gpemu/data/data_index.hpp"

namespace gpemu::data {

struct ConvertOptions {
  DataFormat format = DataFormat::kWebDataset;
  /// Samples are stored in random order: formats that are read in parts cannot bring together what
  /// is far apart. Else they keep the order of the source, which is that of its classes.
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// A tar or TFRecord file ends with the sample that brings it to this size.
  Bytes shard_bytes = 256 * kMiB;
  int group = 64;  ///< images of a file group. Source: GPEmu, plots/new/group: more gain nothing.
  /// Called with the number of finished images.
  std::function<void(std::int64_t done)> progress;
  /// Set from outside, e.g. by a signal handler, to stop early.
  const std::atomic<bool>* stop = nullptr;
};

}  // namespace gpemu::data
