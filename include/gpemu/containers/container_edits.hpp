// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::containers {

/// A file or folder of the host that a container sees.
struct Mount {
  std::filesystem::path host;
  std::string container;
  bool read_only = true;
};

/// Returns the options of a mount, in the words of OCI runtimes and of CDI.
[[nodiscard]] inline std::vector<std::string> mount_options(const Mount& mount) {
  return {mount.read_only ? "ro" : "rw", "rbind", "nosuid", "nodev"};
}

/// What is added to a container so that its programs find emulated GPUs, in the words of the
/// Container Device Interface (CDI).
struct ContainerEdits {
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<Mount> mounts;
};

/// Where containers find gpemu, and the node whose GPUs are theirs.
inline constexpr const char* kInstallation = "/opt/gpemu";
inline constexpr const char* kNodeFolder = "/run/gpemu";
/// The node's name.
inline constexpr const char* kNodeName = "gpus";

/// Makes nvidia-smi for containers, a script, in a folder of the host.
[[nodiscard]] Result<void> write_smi(const std::filesystem::path& folder);

/// Returns what a container needs to use the GPUs of the node kNodeName in a folder of the host.
/// `installation`: the host's folder with gpemu alone, as `cmake --install --prefix` makes it.
/// `smi_folder`: that of write_smi().
///
/// Errors: kNotFound if gpemu is not installed there; kInvalidArgument for a folder that holds
///   other programs, too, such as /usr.
[[nodiscard]] Result<ContainerEdits> edits_for(const std::filesystem::path& installation,
                                               const std::filesystem::path& node_folder,
                                               const std::filesystem::path& smi_folder);

}  // namespace gpemu::containers
