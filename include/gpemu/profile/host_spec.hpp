// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::profile {

/// Measured points, with straight lines between them. Constant before the first and after the last.
struct HostCurve {
  struct Point {
    double x = 0, y = 0;
  };
  std::vector<Point> points;  ///< one or more, ascending in x.

  [[nodiscard]] double at(double x) const;
};

/// The processor of a described host.
struct HostCpu {
  std::string model;
  int cores = 0;
  int threads = 0;  ///< of the hardware; more busy processes than these share them.
  /// How fast one of n busy processes computes, relative to one that is alone.
  HostCurve speed_by_busy = {{{1, 1}}};
};

/// What a program that loads data costs on this host.
struct HostLoader {
  std::string name;    ///< e.g. "pytorch-pil".
  double image_s = 0;  ///< of processor time, of a process that is alone, for a sample.
  double batch_s = 0;  ///< for a batch of `batch_of`, in the one thread that pins batches.
  int batch_of = 256;  ///< samples in the batch to which `batch_s` applies.
  double start_s = 0;  ///< to start one worker; workers start one after the other.
  double peer_s = 0;   ///< of a node's time, for each file that it sends to another's cache.
  double send_s = 0;   ///< of processor time, to send a sample that was prepared for another host,
  double receive_s = 0;  ///< and to receive it there.
};

/// A device or a server with files.
struct HostStorage {
  std::string name;        ///< e.g. "hdd".
  bool shared = false;     ///< one server for all nodes, as NFS is.
  double access_s = 0;     ///< of one read that is alone, before its bytes arrive.
  double bytes_per_s = 0;  ///< of one read.
  double parallel = 1;     ///< how many reads it serves at full speed at the same time.
  /// The share of `access_s` that an access takes if so many reads wait: a disk orders them.
  HostCurve access_by_depth = {{{1, 1}}};
};

/// A network between nodes, as a node sees it.
struct HostNetwork {
  double bytes_per_s = 0;
  double request_s = 0;  ///< from a request to the first byte, if nothing else is on the way.
};

/// A computer that trains, without its GPUs, from a TOML file under `hosts/`.
struct HostSpec {
  std::string name;   ///< the file's name too.
  std::string title;  ///< e.g. "Chameleon's node with two P100".
  HostCpu cpu;
  Bytes memory = 0;
  std::vector<HostLoader> loaders;    ///< one or more.
  std::vector<HostStorage> storages;  ///< one or more.
  std::optional<HostNetwork> network;
  std::map<std::string, std::string> sources;  ///< citations by table, e.g. "storage hdd".

  /// Both return the one of that name; an empty name is the first.
  ///
  /// Errors: kNotFound, with the names that there are.
  [[nodiscard]] Result<HostLoader> loader(std::string_view wanted) const;
  [[nodiscard]] Result<HostStorage> storage(std::string_view wanted) const;
};

/// Parses a host file (docs/reference/host-file.md).
///
/// Errors: kCorruptData as "origin:line: field: what is wrong".
[[nodiscard]] Result<HostSpec> parse_host_spec(std::string_view toml, std::string_view origin);

/// Errors: those of read_file() and parse_host_spec().
[[nodiscard]] Result<HostSpec> load_host_spec(const std::filesystem::path& path);

/// Returns the names of the hosts in a folder, in order.
[[nodiscard]] std::vector<std::string> host_names(const std::filesystem::path& folder);

/// Returns a host by name, or by the path of a TOML file (a name with '/' or ending in ".toml").
///
/// Errors: kNotFound, with similar names; for a file those of load_host_spec().
[[nodiscard]] Result<HostSpec> find_host(const std::filesystem::path& folder,
                                         std::string_view name_or_path);

}  // namespace gpemu::profile
