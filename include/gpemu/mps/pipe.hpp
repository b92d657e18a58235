// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gpemu/base/variables.hpp"

namespace gpemu::mps {

/// The folder in which the control daemon has its socket. Source: NVIDIA, "Multi-Process Service",
/// "Environment Variables".
[[nodiscard]] std::filesystem::path pipe_directory(const Lookup& lookup);
/// The folder in which the daemon and its servers log.
[[nodiscard]] std::filesystem::path log_directory(const Lookup& lookup);

[[nodiscard]] inline std::filesystem::path control_socket(const std::filesystem::path& pipe) {
  return pipe / "control";
}

/// Identifies the emulated machine that a daemon and its clients share: a node, or a part of it.
/// `segment`: the node's file. `devices`: GPEMU_DEVICES. Returns "" if there is no such file.
[[nodiscard]] std::string machine_key(const std::filesystem::path& segment,
                                      std::string_view devices);

}  // namespace gpemu::mps
