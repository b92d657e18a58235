// SPDX-License-Identifier: Apache-2.0
#include "cli/read_options.hpp"

#include <chrono>
#include <cstddef>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/log.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/profile/storage_spec.hpp"
#include "gpemu/report/number_text.hpp"

namespace gpemu::tools {

Duration Patience::time() const {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

void add_patience_option(Command command, Patience& patience) {
  constexpr double kLeastS = 0.1, kMostS = 86400;
  command
      .option("--patience", patience.seconds,
              "Seconds for which another party, e.g. a node, dispatcher or object store, may keep "
              "this command waiting")
      .real_range(kLeastS, kMostS)
      .show_default();
}

void add_read_options(Command command, ReadOptions& options) {
  command
      .option("--order", options.order,
              "Order of an epoch: random; quasi-random: parts of files in random order, and the "
              "images of a window of them shuffled; sequential; auto: random for a folder of "
              "images, else quasi-random")
      .one_of({"auto", "random", "quasi-random", "sequential"})
      .show_default();
  command
      .option("--read", options.reading,
              "sync: one part of a file at a time; async: a window at once by io_uring, in the "
              "order of their places on the disk")
      .one_of({"sync", "async"})
      .show_default();
  command.option("--window", options.window,
                 "Parts of files to read ahead, and to shuffle together in quasi-random order; "
                 "default: 16, or 1024 single images with --read async");
  add_storage_option(command, options);
}

void add_storage_option(Command command, ReadOptions& options) {
  command.option("--storage", options.storage,
                 "Read what the page cache does not have as slowly as this device, e.g. hdd, or "
                 "the one that a TOML file describes (docs/reference/storage-file.md)");
}

data::ObjectStoreSettings object_settings(const World& world) {
  std::string value;
  return data::object_store_settings([&](const char* name) -> const char* {
    const std::optional<std::string> found = world.variable(name);
    if (!found) return nullptr;
    value = *found;
    return value.c_str();
  });
}

Result<data::Dataset> open_dataset(const std::filesystem::path& folder, const World& world,
                                   const Patience& patience, const std::atomic<bool>* stop) {
  data::ObjectStoreSettings objects = object_settings(world);
  objects.patience = patience.time();
  GPEMU_ASSIGN(data::Dataset dataset, data::Dataset::open(folder, stop, objects));
  if (dataset.skipped_count() > 0) {
    log(LogLevel::kWarning, "{} file{} or folder{} of {} left out, e.g. {}",
        dataset.skipped_count(), report::plural(static_cast<std::int64_t>(dataset.skipped_count())),
        report::plural(static_cast<std::int64_t>(dataset.skipped_count())),
        printable(dataset.root().string()), printable(dataset.skipped().front()));
  }
  return dataset;
}

Result<std::unique_ptr<data::StorageDevice>> make_storage(const ReadOptions& options,
                                                          const World& world,
                                                          data::PageCache page_cache) {
  if (options.storage.empty()) return nullptr;
  GPEMU_ASSIGN(profile::StorageSpec spec, profile::find_storage(world.storage, options.storage));
  return std::make_unique<data::StorageDevice>(std::move(spec), world.clock, page_cache);
}

bool is_in_memory(const data::Dataset& dataset) {
  struct statfs system{};
  return ::statfs(dataset.root().c_str(), &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

Result<void> make_cold(const data::Dataset& dataset, const std::atomic<bool>& stop) {
  if (is_in_memory(dataset)) {
    log(LogLevel::kWarning,
        "{} lies in memory (tmpfs): reading it cold is as fast as reading it cached",
        printable(dataset.root().string()));
  }
  return dataset.drop_page_cache(&stop);
}

std::optional<StorageFacts> storage_facts(data::StorageDevice* storage) {
  if (storage == nullptr) return std::nullopt;
  return StorageFacts{.name = storage->spec().name, .totals = storage->totals()};
}

std::string storage_text(const StorageFacts& facts, Duration elapsed) {
  const double elapsed_s = to_seconds(elapsed);
  const double megabytes = static_cast<double>(facts.totals.bytes) / 1e6;
  return fmt::format("{}: {} read{}, {:.1f} MB at {} MB/s, busy {:.1f} % of the time",
                     printable(facts.name), facts.totals.reads, report::plural(facts.totals.reads),
                     megabytes, report::rounded(elapsed_s > 0 ? megabytes / elapsed_s : 0),
                     elapsed_s > 0 ? 100 * to_seconds(facts.totals.busy) / elapsed_s : 0);
}

nlohmann::ordered_json storage_json(const std::optional<StorageFacts>& facts) {
  if (!facts) return nullptr;
  return {{"name", facts->name},
          {"reads", facts->totals.reads},
          {"bytes", facts->totals.bytes},
          {"busy_s", to_seconds(facts->totals.busy)}};
}

nlohmann::ordered_json read_options_json(const ReadOptions& options) {
  return {{"order", options.order},
          {"read", options.reading},
          {"window", options.window ? nlohmann::ordered_json(*options.window)
                                    : nlohmann::ordered_json(nullptr)},
          {"storage", options.storage}};
}

}  // namespace gpemu::tools
