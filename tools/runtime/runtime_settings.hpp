// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/gpu_pool.hpp"

namespace gpemu::tools {

/// What gpemu-runtime is set to: runtimes get no options of their own, so that a file has them.
struct RuntimeSettings {
  std::vector<std::string> gpus;  ///< "NAME" or "NAME:COUNT".
  std::string machine;            ///< from which the UUIDs follow.
  std::filesystem::path installation = containers::kInstallation;
  std::filesystem::path state = "/run/gpemu-runtime";  ///< the folder of the containers' nodes.
  std::string runtime = "runc";  ///< the real one; searched for in PATH if it is no path.
};

/// Reads a file of settings (docs/how-to/kubernetes.md). `origin` names it in messages.
///
/// Errors: kCorruptData with the line and the key.
[[nodiscard]] Result<RuntimeSettings> parse_runtime_settings(std::string_view text,
                                                             std::string_view origin);

/// Where the settings are, unless GPEMU_RUNTIME_SETTINGS names another file.
inline constexpr const char* kRuntimeSettings = "/etc/gpemu/runtime.toml";

/// Reads the file of settings; without one, returns settings without GPUs.
///
/// Errors: kIo; those of parse_runtime_settings().
[[nodiscard]] Result<RuntimeSettings> read_runtime_settings();

}  // namespace gpemu::tools
