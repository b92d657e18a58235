// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/container_edits.hpp"

namespace gpemu::containers {

/// A device of the Container Device Interface (CDI): a container that asks for "KIND=NAME" gets its
/// edits.
struct CdiDevice {
  std::string name;  ///< letters, digits, '_', '-', '.' and ':'.
  ContainerEdits edits;
};

/// A command of the host that runtimes execute before a container starts. It gets the container's
/// state as JSON, and no container starts if it fails.
struct CdiHook {
  std::vector<std::string> words;  ///< of which the first is a path.
};

/// The folder of CDI specifications that are made while the machine runs.
inline constexpr const char* kCdiFolder = "/var/run/cdi";

/// Writes a CDI specification with devices of a kind, "VENDOR/CLASS", as a whole. The folder is
/// made.
///
/// Errors: kIo. Source: the CDI specification 0.5.0
/// (github.com/cncf-tags/container-device-interface,
///   SPEC.md), the first whose mounts have types.
[[nodiscard]] Result<void> write_cdi_spec(const std::filesystem::path& path,
                                          const std::string& kind,
                                          std::span<const CdiDevice> devices,
                                          std::span<const CdiHook> hooks = {});

}  // namespace gpemu::containers
