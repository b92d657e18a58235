// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/cdi_spec.hpp"

#include <system_error>

#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

namespace gpemu::containers {
namespace {

nlohmann::json json_of(const ContainerEdits& edits) {
  nlohmann::json variables = nlohmann::json::array();
  for (const auto& [name, value] : edits.environment) variables.push_back(name + '=' + value);
  nlohmann::json mounts = nlohmann::json::array();
  for (const Mount& mount : edits.mounts) {
    mounts.push_back({{"hostPath", mount.host.string()},
                      {"containerPath", mount.container},
                      {"options", mount_options(mount)}});
  }
  return {{"env", variables}, {"mounts", mounts}};
}

}  // namespace

Result<void> write_cdi_spec(const std::filesystem::path& path, const std::string& kind,
                            std::span<const CdiDevice> devices, std::span<const CdiHook> hooks) {
  nlohmann::json list = nlohmann::json::array();
  for (const CdiDevice& device : devices) {
    list.push_back({{"name", device.name}, {"containerEdits", json_of(device.edits)}});
  }
  nlohmann::json spec = {{"cdiVersion", "0.5.0"}, {"kind", kind}, {"devices", list}};
  for (const CdiHook& hook : hooks) {
    spec["containerEdits"]["hooks"].push_back(
        {{"hookName", "createRuntime"}, {"path", hook.words.front()}, {"args", hook.words}});
  }
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", path.parent_path().string(), error.message());
  return write_file_atomically(path, spec.dump(2) + '\n');
}

}  // namespace gpemu::containers
