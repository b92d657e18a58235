// SPDX-License-Identifier: Apache-2.0
#include "cli/read_choice.hpp"

#include <algorithm>
#include <cstddef>

namespace gpemu::tools {
namespace {

/// Units that are read ahead and shuffled together: 64 MiB of tar or TFRecord files, as many images
/// as the shuffle buffers of some thousand that WebDataset's documents use, within a factor of ten.
constexpr std::size_t kUnitWindow = 16;
/// Single samples that are read at once. Source: GPEmu, plots/new/superbatch: 16 batches of 64 give
/// most of what more would.
constexpr std::size_t kSampleWindow = 1024;

std::optional<data::ReadOrder> order_of(const std::string& name) {
  const auto found = std::ranges::find(data::kReadOrderNames, name);
  if (found == data::kReadOrderNames.end()) return std::nullopt;
  return static_cast<data::ReadOrder>(found - data::kReadOrderNames.begin());
}

}  // namespace

void set_reading(data::LoaderOptions& loader, const ReadOptions& options,
                 const data::Dataset& dataset, data::StorageDevice* storage) {
  loader.order = order_of(options.order);
  loader.async = options.reading == "async";
  const bool by_sample =
      loader.order.value_or(dataset.natural_order()) == data::ReadOrder::kRandom ||
      dataset.format() == data::DataFormat::kFolder;
  loader.window = options.window.value_or(by_sample ? kSampleWindow : kUnitWindow);
  loader.storage = storage;
}

}  // namespace gpemu::tools
