// SPDX-License-Identifier: Apache-2.0
#include "slurm/gres_text.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

namespace gpemu::tools {
namespace {

/// Of a GPU in Slurm's mps gres: a job asks for a part of a hundred.
constexpr int kPartsOfMps = 100;

/// Returns which cores are near a GPU, e.g. "0-31": the sockets have equal parts of them.
std::string cores_near(const profile::TopologySpec& topology, int gpu, int cpus) {
  const int sockets = static_cast<int>(topology.sockets.size());
  if (cpus == 0 || sockets < 2 || cpus % sockets != 0) return "";
  const int each = cpus / sockets, socket = socket_of(topology, gpu);
  if (each == 1) return fmt::format(" Cores={}", socket);
  return fmt::format(" Cores={}-{}", socket * each, (socket + 1) * each - 1);
}

/// Returns what gres.conf says of a device beside its type and file.
std::string place_of(const SlurmNodes& nodes, const MachineGpus& machine,
                     const GresDevice& device) {
  if (!machine.topology) return "";
  std::string text = cores_near(*machine.topology, device.gpu, nodes.cpus);
  const bool whole = nodes.mig.empty();
  if (whole)
    text += fmt::format(" Links={}", fmt::join(links_of(*machine.topology, device.gpu), ","));
  return text;
}

/// Returns e.g. "gpu:h100:8,shard:32".
std::string gres_of(const SlurmNodes& nodes, const MachineGpus& machine) {
  std::vector<std::pair<std::string, int>> counts;
  for (const GresDevice& device : machine.devices) {
    const auto known = std::ranges::find(counts, device.type, &std::pair<std::string, int>::first);
    if (known == counts.end()) {
      counts.emplace_back(device.type, 1);
    } else {
      ++known->second;
    }
  }
  std::vector<std::string> parts;
  parts.reserve(counts.size() + 1);
  for (const auto& [type, count] : counts) parts.push_back(fmt::format("gpu:{}:{}", type, count));
  const std::size_t gpus = machine.gpus.size();
  if (nodes.shards > 0) parts.push_back(fmt::format("shard:{}", gpus * nodes.shards));
  if (nodes.mps) parts.push_back(fmt::format("mps:{}", gpus * kPartsOfMps));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

std::filesystem::path device_folder(const std::filesystem::path& state) {
  return state / "dev";
}

std::vector<int> links_of(const profile::TopologySpec& topology, int gpu) {
  std::vector<int> links(topology.gpus.size());
  links[static_cast<std::size_t>(gpu)] = -1;
  for (const profile::NvlinkBond& bond : topology.bonds) {
    if (bond.first == gpu) links[static_cast<std::size_t>(bond.second)] += bond.links;
    if (bond.second == gpu) links[static_cast<std::size_t>(bond.first)] += bond.links;
  }
  return links;
}

int socket_of(const profile::TopologySpec& topology, int gpu) {
  profile::Place place = topology.gpus[static_cast<std::size_t>(gpu)];
  while (place.below_switch) place = topology.switches[static_cast<std::size_t>(place.index)].place;
  return topology.bridges[static_cast<std::size_t>(place.index)].socket;
}

std::string gres_lines(const SlurmNodes& nodes, const MachineGpus& machine,
                       const std::filesystem::path& state) {
  std::string text =
      fmt::format("# slurm.conf: NodeName={} Gres={}\n", nodes.pattern, gres_of(nodes, machine));
  const std::string file = (device_folder(state) / "nvidia").string();
  const std::size_t count = machine.devices.size();
  for (std::size_t i = 0; i < count;) {
    const std::string place = place_of(nodes, machine, machine.devices[i]);
    std::size_t end = i + 1;
    while (end < count && machine.devices[end].type == machine.devices[i].type &&
           place_of(nodes, machine, machine.devices[end]) == place) {
      ++end;
    }
    const std::string numbers =
        end == i + 1 ? fmt::format("{}", i) : fmt::format("[{}-{}]", i, end - 1);
    text += fmt::format("NodeName={} Name=gpu Type={} File={}{}{}\n", nodes.pattern,
                        machine.devices[i].type, file, numbers, place);
    i = end;
  }
  if (nodes.shards > 0) {
    text += fmt::format("NodeName={} Name=shard Count={}\n", nodes.pattern,
                        machine.gpus.size() * static_cast<std::size_t>(nodes.shards));
  }
  if (nodes.mps) {
    text += fmt::format("NodeName={} Name=mps Count={}\n", nodes.pattern,
                        machine.gpus.size() * kPartsOfMps);
  }
  return text;
}

Result<std::string> gres_conf(const SlurmSettings& settings, const GpuSources& sources) {
  std::set<std::string> kinds = {"gpu"};
  std::string text;
  for (const SlurmNodes& nodes : settings.nodes) {
    const auto machine = machine_gpus(nodes, sources);
    if (!machine) {
      return fail(machine.error().code, "line {}: {}", nodes.line, machine.error().message);
    }
    if (nodes.shards > 0) kinds.insert("shard");
    if (nodes.mps) kinds.insert("mps");
    text += gres_lines(nodes, *machine, settings.state);
  }
  return fmt::format("# Made by `gpemu-slurm gres`.\n# slurm.conf: GresTypes={}\n{}",
                     fmt::join(kinds, ","), text);
}

}  // namespace gpemu::tools
