// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpemu/data/dataset.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/data/storage_device.hpp"

namespace gpemu::tools {

/// How a data set is read.
struct ReadOptions {
  std::string order = "auto";           ///< or one of data::kReadOrderNames.
  std::string reading = "sync";         ///< or "async".
  std::optional<std::uint32_t> window;  ///< default: what suits the reading.
  std::string storage;                  ///< a described device; empty: as fast as the files are.
  bool operator==(const ReadOptions&) const = default;
};

/// Puts the options into those of a loader of a data set.
void set_reading(data::LoaderOptions& loader, const ReadOptions& options,
                 const data::Dataset& dataset, data::StorageDevice* storage);

}  // namespace gpemu::tools
