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
#include "gpemu/profile/share_curve.hpp"
#include "gpemu/profile/storage_spec.hpp"

namespace gpemu::profile {

/// The processor of a described host.
struct HostCpu {
  std::string model;
  int cores = 0;
  int threads = 0;  ///< of the hardware; more busy processes than these share them.
  /// How fast one of n busy processes computes, relative to one that is alone.
  ShareCurve speed_by_busy;
};

/// What a program that loads data costs on this host.
struct HostLoader {
  std::string name;  ///< e.g. "pytorch-pil".
  /// Whether workers share a batch, as threads of gpemu's loader do, instead of preparing one each.
  bool shared_batches = false;
  double image_s = 0;  ///< of processor time, of a process that is alone, for a sample.
  double batch_s = 0;  ///< for a batch of `batch_of`, in the one thread that pins batches.
  int batch_of = 256;  ///< samples in the batch to which `batch_s` applies.
  double start_s = 0;  ///< to start one worker; workers start one after the other.
  double peer_s = 0;   ///< of a node's time, for each file that it sends to another's cache.
  double send_s = 0;   ///< of processor time, to send a sample that was prepared for another host,
  double receive_s = 0;  ///< and to receive it there.
  double gpu_s = 0;  ///< of one GPU, for its part of the preprocessing of a batch of `batch_of`.
};

/// A network between nodes, as a node sees it.
struct HostNetwork {
  double bytes_per_s = 0;
  double request_s = 0;  ///< from a request to the first byte, if nothing else is on the way.
};

/// A computer that trains, without its GPUs, from a TOML file under `catalog/hosts/`.
struct HostSpec {
  std::string name;   ///< the file's name too.
  std::string title;  ///< e.g. "Chameleon's node with two P100".
  HostCpu cpu;
  Bytes memory = 0;
  std::vector<HostLoader> loaders;    ///< one or more.
  std::vector<StorageSpec> storages;  ///< one or more.
  std::optional<HostNetwork> network;
  std::map<std::string, std::string> sources;  ///< citations by table, e.g. "storage hdd".

  /// Both return the one of that name; an empty name is the first.
  ///
  /// Errors: kNotFound, with the names that there are.
  [[nodiscard]] Result<HostLoader> loader(std::string_view wanted) const;
  [[nodiscard]] Result<StorageSpec> storage(std::string_view wanted) const;
};

/// Parses a host file (docs/reference/host-file.md). `storage` is the folder of the storage files
/// that it may name.
///
/// Errors: kCorruptData as "origin:line: field: what is wrong".
[[nodiscard]] Result<HostSpec> parse_host_spec(std::string_view toml, std::string_view origin,
                                               const std::filesystem::path& storage);

/// Returns the names of the hosts in a folder, in order.
[[nodiscard]] std::vector<std::string> host_names(const std::filesystem::path& folder);

/// The folders of host files, and of the storage files that they name.
struct HostFolders {
  std::filesystem::path hosts, storage;
};

/// Returns a host by name, or by the path of a TOML file (a name with '/' or ending in ".toml").
///
/// Errors: kNotFound, with similar names; those of read_file() and parse_host_spec().
[[nodiscard]] Result<HostSpec> find_host(const HostFolders& folders, std::string_view name_or_path);

}  // namespace gpemu::profile
