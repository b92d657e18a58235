// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/container_edits.hpp"

namespace gpemu::tools {

/// An OCI bundle: a folder with the config.json of a container that is to be made.
/// Source: the OCI runtime specification, config.md.
class Bundle {
 public:
  /// Errors: kNotFound; kIo; kCorruptData if config.json is no JSON of an object.
  [[nodiscard]] static Result<Bundle> read(const std::filesystem::path& folder);

  /// Returns a variable of the container's environment; nothing if it is not set.
  [[nodiscard]] std::optional<std::string> variable(const std::string& name) const;

  [[nodiscard]] std::filesystem::path rootfs() const;

  /// Adds variables and mounts, in place of what there is, and writes config.json as a whole.
  ///
  /// Errors: kIo.
  [[nodiscard]] Result<void> add(const containers::ContainerEdits& edits);

 private:
  Bundle(std::filesystem::path folder, nlohmann::json config)
      : folder_(std::move(folder)), config_(std::move(config)) {}

  std::filesystem::path folder_;
  nlohmann::json config_;
};

/// Returns an error if the programs of a container cannot find GPUs: its C library is musl, which
/// has no LD_AUDIT, or an older glibc than the shims need. One without a C library passes: what it
/// executes finds none either way.
///
/// Errors: kUnsupported.
[[nodiscard]] Result<void> check_c_library(const std::filesystem::path& rootfs);

}  // namespace gpemu::tools
