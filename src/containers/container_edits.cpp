// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/container_edits.hpp"

#include <system_error>

#include "gpemu/base/variables.hpp"
#include "gpemu/run/settings.hpp"

namespace gpemu::containers {
namespace {

/// Where the shims are below an installation's folder, and the program that shows the GPUs.
constexpr const char* kShims = "lib/gpemu/shims";
constexpr const char* kSmi = "bin/nvidia-smi";

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

Result<ContainerEdits> edits_for(const std::filesystem::path& installation,
                                 const std::filesystem::path& node_folder) {
  GPEMU_TRY(check_installation(installation));
  const std::filesystem::path shims = std::filesystem::path(kInstallation) / kShims;
  ContainerEdits edits;
  for (auto& [name, value] : run::environment_of({.node = kNodeName}, shims, {}).set) {
    // Nobody collects records of containers.
    if (name != variable::kRecordDir) edits.environment.emplace_back(name, std::move(value));
  }
  edits.environment.emplace_back(variable::kNodeDir, kNodeFolder);
  edits.mounts = {{.host = installation, .container = kInstallation},
                  {.host = installation / kShims / kSmi, .container = "/usr/bin/nvidia-smi"},
                  {.host = node_folder, .container = kNodeFolder, .read_only = false}};
  return edits;
}

}  // namespace gpemu::containers
