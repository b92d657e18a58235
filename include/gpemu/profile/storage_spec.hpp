// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/profile/share_curve.hpp"

namespace gpemu::profile {

/// A storage device, or a server with files, from a TOML file under `catalog/storage/` or a host's
/// table
/// `[[storage]]`.
///
/// A read takes the time of an access (seek, rotation, latency), and then that of its bytes. The
/// accesses of some reads overlap; their bytes pass one after the other.
struct StorageSpec {
  std::string name;          ///< gpemu's name, e.g. "hdd"; the file's name too.
  std::string title;         ///< for people; empty if a host describes it.
  bool shared = false;       ///< one server for all nodes, as NFS is.
  double access_s = 0;       ///< of one read that is alone, before its bytes arrive.
  double bytes_per_s = 0;    ///< of one read, and of all together.
  int requests_at_once = 1;  ///< whose accesses overlap: 1 for a disk with one arm.
  /// The share of `access_s` that an access takes if so many reads wait: a disk orders them.
  ShareCurve access_by_depth;
  std::map<std::string, std::string> sources;  ///< citations by table; empty if a host's.

  /// What a read takes: how long it lasts if it is alone, and for how long it keeps the device from
  /// others.
  struct ReadTime {
    double alone_s = 0, busy_s = 0;
  };
  /// Returns what a read takes while `waiting` reads wait, itself included. One that continues the
  /// read before needs no access.
  [[nodiscard]] ReadTime read_time(double bytes, double waiting, bool continues = false) const;
};

/// Reads the description of a storage device. `origin` names the text in messages.
///
/// Strict: unknown keys and unused sources are faults too.
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
