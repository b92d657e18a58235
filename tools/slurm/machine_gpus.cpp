// SPDX-License-Identifier: Apache-2.0
#include "slurm/machine_gpus.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "cli/device_list.hpp"

namespace gpemu::tools {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return text;
}

/// Returns Slurm's types of GPUs: the family, e.g. "h100", or where several kinds of it are there,
/// all of the name.
std::map<std::string, std::string> types_of(const std::vector<device::DeviceConfig>& gpus) {
  std::map<std::string, std::set<std::string>> of_family;
  const auto family = [](const std::string& name) {
    return lower(name.substr(0, std::min(name.find('-'), name.size())));
  };
  for (const device::DeviceConfig& gpu : gpus) of_family[family(gpu.gpu)].insert(gpu.gpu);
  std::map<std::string, std::string> types;
  for (const auto& [name, kinds] : of_family) {
    for (const std::string& kind : kinds) types[kind] = kinds.size() == 1 ? name : lower(kind);
  }
  return types;
}

/// Puts devices of a type beside each other: Slurm numbers them by type, whatever gres.conf says.
void group_by_type(std::vector<GresDevice>& devices) {
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < devices.size(); ++i) first.try_emplace(devices[i].type, i);
  std::ranges::stable_sort(devices, {}, [&](const GresDevice& one) { return first.at(one.type); });
}

}  // namespace

Result<GpuSources> GpuSources::open() {
  const profile::Database::Paths paths = profile::Database::default_paths();
  GPEMU_ASSIGN(profile::Database database, profile::Database::open(paths));
  return GpuSources{.database = std::move(database),
                    .topologies = paths.installed.parent_path() / "topologies"};
}

Result<device::MigLayout> mig_layout(const std::vector<std::string>& instances,
                                     const std::string& gpu,
                                     const std::vector<profile::MigProfile>& profiles) {
  device::MigLayout layout(profiles);
  for (const std::string& instance : instances) {
    const auto profile = std::ranges::find(profiles, instance, &profile::MigProfile::name);
    if (profile == profiles.end()) {
      std::string known;
      for (const profile::MigProfile& one : profiles)
        known += (known.empty() ? "" : ", ") + one.name;
      return fail(ErrorCode::kInvalidArgument, "mig: a {} has no instance {}; it has {}", gpu,
                  instance, known.empty() ? "none" : known);
    }
    GPEMU_ASSIGN(const int id, layout.create(profile->id));
    const auto kinds = device::mig_compute_profiles(profile->compute_slices);
    GPEMU_ASSIGN([[maybe_unused]] const int compute, layout.create_compute(id, kinds.back().id));
  }
  return layout;
}

Result<MachineGpus> machine_gpus(const SlurmNodes& nodes, const GpuSources& sources) {
  MachineGpus machine;
  std::vector<std::string> names = nodes.gpus;
  if (!nodes.topology.empty()) {
    GPEMU_ASSIGN(machine.topology, profile::find_topology(sources.topologies, nodes.topology));
    if (names.empty()) names = gpus_of(*machine.topology);
  }
  GPEMU_ASSIGN(machine.gpus, read_device_list(sources.database, names));
  const std::map<std::string, std::string> types = types_of(machine.gpus);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const std::string& name = machine.gpus[i].gpu;
    GPEMU_ASSIGN(const profile::GpuSpec spec, sources.database.gpu(name));
    machine.mig_profiles.push_back(spec.mig_profiles);
    if (nodes.mig.empty()) {
      machine.devices.push_back({.type = types.at(name), .gpu = static_cast<int>(i)});
      continue;
    }
    GPEMU_ASSIGN(const device::MigLayout layout, mig_layout(nodes.mig, name, spec.mig_profiles));
    int instance = 0;
    for (const device::MigDevice& device : layout.devices(static_cast<int>(i), "")) {
      machine.devices.push_back({.type = types.at(name) + "_" + device.name,
                                 .gpu = static_cast<int>(i),
                                 .instance = instance++});
    }
  }
  group_by_type(machine.devices);
  return machine;
}

}  // namespace gpemu::tools
