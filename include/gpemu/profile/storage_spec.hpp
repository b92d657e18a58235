// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::profile {

/// The rate at which requests of one size are read, one at a time and from anywhere.
struct RequestRate {
  Bytes bytes = 0;
  double bytes_per_s = 0;
};

/// Which share of its time positioning takes while so many requests wait.
struct QueueShare {
  double waiting = 0;
  double positioning = 0;
};

/// A storage device, from a TOML file under `storage/`.
///
/// A request takes the time for positioning (seek, rotation, latency) and the time for its bytes at
/// the sequential rate. `random` gives both together by size.
struct StorageSpec {
  std::string name;   ///< gpemu's name, e.g. "hdd"; the file's name too.
  std::string title;  ///< for people.
  double sequential_bytes_per_s = 0;
  std::vector<RequestRate> random;  ///< by ascending size, at least one.
  std::vector<QueueShare> queue;    ///< by ascending number; empty: the queue does not matter.
  int requests_at_once = 1;         ///< whose positioning can overlap.

  /// The source of each table of the file, e.g. "random", as a citation.
  std::map<std::string, std::string> sources;

  /// Returns how long positioning takes for a request of a size while `waiting` requests wait,
  /// itself included: from the two nearest sizes, by time; beyond the sizes, that of the nearest.
  [[nodiscard]] Duration positioning(Bytes bytes, double waiting) const;
  /// Returns how long it takes to read so many bytes that follow those before.
  [[nodiscard]] Duration transfer(Bytes bytes) const;
};

/// Reads the description of a storage device. `origin` names the text in messages.
///
/// Strict: unknown keys, sizes that do not ascend, larger requests that take less time than smaller
/// ones, and unused sources are faults too.
///
/// Errors: kCorruptData for the first fault, as "origin:line: field: what is wrong".
[[nodiscard]] Result<StorageSpec> parse_storage_spec(std::string_view toml,
                                                     std::string_view origin);

/// Returns the names of the devices that a folder describes, in order.
[[nodiscard]] std::vector<std::string> storage_names(const std::filesystem::path& folder);

/// Returns a device by its name in a folder, or by the path of a TOML file (a name with '/' or
/// ending in ".toml").
///
/// Errors: kNotFound, with similar names; those of read_file and parse_storage_spec.
[[nodiscard]] Result<StorageSpec> find_storage(const std::filesystem::path& folder,
                                               std::string_view name_or_path);

}  // namespace gpemu::profile
