// SPDX-License-Identifier: Apache-2.0
#include "mig/mig_gpus.hpp"

#include <ranges>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/variables.hpp"
#include "gpemu/profile/database.hpp"

namespace gpemu::tools {

Result<profile::GpuSpec> find_gpu_spec(const std::string& gpu, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  const std::string files = world.variable(variable::kGpuFiles).value_or("");
  for (const auto part : std::views::split(files, ':')) {
    const std::string path(std::string_view(part.begin(), part.end()));
    if (path.empty()) continue;
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(path));
    if (spec.name == gpu) return spec;
  }
  return database.gpu(gpu);
}

Result<std::vector<MigGpu>> read_mig_gpus(const device::NodeView& node,
                                          std::span<const std::string> ids, const World& world) {
  if (node.policy() != device::SharingPolicy::kMig) {
    return fail(ErrorCode::kUnsupported,
                "node '{}' does not divide its GPUs: make one with `gpemu node create --sharing "
                "mig`",
                node.name());
  }
  std::vector<std::string> wanted(ids.begin(), ids.end());
  std::vector<MigGpu> gpus;
  bool has_gpu = false;
  for (int index = 0; index < node.device_count(); ++index) {
    GPEMU_ASSIGN(const device::DeviceSnapshot now, node.device_snapshot(index, node.clock().now()));
    const auto named = std::erase_if(wanted, [&](const std::string& id) {
      return id == fmt::to_string(index) || id == now.uuid;
    });
    if (!ids.empty() && named == 0) continue;
    has_gpu = true;
    if (!now.mig.divided) continue;
    GPEMU_ASSIGN(profile::GpuSpec spec, find_gpu_spec(now.gpu, world));
    MigGpu& gpu = gpus.emplace_back();
    gpu.index = index;
    gpu.uuid = now.uuid;
    gpu.product_name = spec.product_name;
    gpu.profiles = std::move(spec.mig_profiles);
    GPEMU_ASSIGN(gpu.layout, node.mig_layout(index, gpu.profiles));
  }
  if (wanted.empty() && has_gpu && gpus.empty()) {
    return fail(ErrorCode::kUnsupported,
                "MIG is off for these GPUs of node '{}': `gpemu nvidia-smi -i GPU -mig 1` switches "
                "it on",
                node.name());
  }
  if (wanted.empty()) return gpus;
  return fail(ErrorCode::kNotFound, "-i {}: node '{}' has no such GPU; its GPUs are 0 to {}",
              wanted.front(), node.name(), node.device_count() - 1);
}

}  // namespace gpemu::tools
