// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/container_edits.hpp"

#include <string>
#include <system_error>
#include <unistd.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/run/settings.hpp"

namespace gpemu::containers {
namespace {

/// Where the shims are below an installation's folder.
constexpr const char* kShims = "lib/gpemu/shims";
constexpr const char* kSmi = "nvidia-smi";

Result<void> check_installation(const std::filesystem::path& installation) {
  std::error_code ignored;
  if (!std::filesystem::exists(installation / kShims / "libgpemu_audit.so", ignored)) {
    return fail(ErrorCode::kNotFound,
                "{} has no {}/libgpemu_audit.so: install gpemu there, by `cmake --preset package`, "
                "`cmake --build --preset package` and `cmake --install build/package --prefix {}`",
                installation.string(), kShims, installation.string());
  }
  if (std::filesystem::exists(installation / "bin" / "sh", ignored)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} holds other programs, too, which containers must not see: install gpemu into a "
                "folder of its own",
                installation.string());
  }
  return {};
}

}  // namespace

Result<void> write_smi(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSmi;
  GPEMU_TRY(write_file_atomically(
      path, fmt::format("#!/bin/sh\nexec {}/bin/gpemu nvidia-smi \"$@\"\n", kInstallation)));
  std::error_code error;
  constexpr auto kForAll = static_cast<std::filesystem::perms>(0755);
  std::filesystem::permissions(path, kForAll, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
  return {};
}

Result<ContainerEdits> edits_for(const std::filesystem::path& installation,
                                 const std::filesystem::path& node_folder,
                                 const std::filesystem::path& smi_folder) {
  GPEMU_TRY(check_installation(installation));
  const std::filesystem::path shims = std::filesystem::path(kInstallation) / kShims;
  ContainerEdits edits;
  // Programs of other users in the container trust the node of the one who made it.
  const std::string node = fmt::format("{}/{}", ::geteuid(), kNodeName);
  for (auto& [name, value] : run::environment_of({.node = node}, shims, {}).set) {
    // Nobody collects records of containers.
    if (name != variable::kRecordDir) edits.environment.emplace_back(name, std::move(value));
  }
  edits.environment.emplace_back(variable::kNodeDir, kNodeFolder);
  edits.mounts = {{.host = installation, .container = kInstallation},
                  {.host = smi_folder / kSmi, .container = "/usr/bin/nvidia-smi"},
                  {.host = node_folder, .container = kNodeFolder, .read_only = false}};
  return edits;
}

}  // namespace gpemu::containers
