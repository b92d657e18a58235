// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/data/storage_device.hpp"
#include "gpemu/sim/patience.hpp"

#include "cli/command.hpp"
#include "cli/read_choice.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// For how long another party may keep a command waiting.
struct Patience {
  double seconds = to_seconds(sim::kPatience);
  [[nodiscard]] Duration time() const;
};
/// Adds --patience, which has this name in every command that waits for others.
void add_patience_option(Command command, Patience& patience);

/// Add all of the options, and --storage alone.
void add_read_options(Command command, ReadOptions& options);
void add_storage_option(Command command, ReadOptions& options);

/// Opens a data set, and warns about what it leaves out. Errors: those of Dataset::open.
[[nodiscard]] Result<data::Dataset> open_dataset(const std::filesystem::path& folder,
                                                 const World& world, const Patience& patience,
                                                 const std::atomic<bool>* stop = nullptr);

/// Returns where objects are by the environment's variables.
[[nodiscard]] data::ObjectStoreSettings object_settings(const World& world);

/// Makes the described device; null if none is named. Errors: those of find_storage.
[[nodiscard]] Result<std::unique_ptr<data::StorageDevice>> make_storage(
    const ReadOptions& options, const World& world,
    data::PageCache page_cache = data::PageCache::kUsed);

/// Returns whether the data set lies in memory (tmpfs), so that no read of it reaches storage.
[[nodiscard]] bool is_in_memory(const data::Dataset& dataset);

/// Drops the data set from the page cache; warns if that has no effect because the files are in
/// memory.
///
/// Errors: those of Dataset::drop_page_cache().
[[nodiscard]] Result<void> make_cold(const data::Dataset& dataset, const std::atomic<bool>& stop);

/// What a described device did.
struct StorageFacts {
  std::string name;
  data::DeviceTotals totals;
};

/// Returns the facts of a device; nothing if there is none.
[[nodiscard]] std::optional<StorageFacts> storage_facts(data::StorageDevice* storage);

/// Returns what a device did while `elapsed` passed, for people and in JSON.
[[nodiscard]] std::string storage_text(const StorageFacts& facts, Duration elapsed);
[[nodiscard]] nlohmann::ordered_json storage_json(const std::optional<StorageFacts>& facts);
[[nodiscard]] nlohmann::ordered_json read_options_json(const ReadOptions& options);

}  // namespace gpemu::tools
