// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/containers/node_labels.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet_table.hpp"

#include "cli/command.hpp"
#include "cli/device_list.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/hollow_nodes.hpp"
#include "kubernetes/kubernetes_commands.hpp"

namespace gpemu::tools {
namespace {

constexpr std::uint64_t kMibPerGib = 1024;

struct HollowNodesChoices {
  std::filesystem::path kubeconfig;
  std::uint64_t count = 0;
  std::string gpu;
  std::string prefix = "hollow-";
  std::filesystem::path fleet;
  double cores = 64;
  double memory_gib = 512;
  double speed = 1;
  int pods = 110;
  int connections = 8;
};

/// Returns a text as the value of a label: letters, digits, '-', '_' and '.'.
std::string label_of(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '-';
  }
  return text;
}

scheduling::HostShare host_of(const HollowNodesChoices& options) {
  return {.millicores = static_cast<std::uint64_t>(std::llround(options.cores * 1000)),
          .memory_mib = static_cast<std::uint64_t>(
              std::llround(options.memory_gib * static_cast<double>(kMibPerGib)))};
}

Result<std::vector<HollowNode>> uniform_nodes(const HollowNodesChoices& options) {
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  GPEMU_ASSIGN(const std::vector<device::DeviceConfig> gpus,
               read_device_list(database, {options.gpu}));
  HollowNode node{.name = {}, .host = host_of(options), .gpus = {}, .labels = {}};
  node.gpus = static_cast<std::uint32_t>(gpus.size());
  node.pods = static_cast<std::uint32_t>(options.pods);
  node.labels = containers::node_labels(gpus, 1);
  std::vector<HollowNode> nodes(options.count, node);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = options.prefix + std::to_string(i);
  return nodes;
}

/// Servers of a table; cores and memory that it does not state are those of the options.
Result<std::vector<HollowNode>> nodes_of_table(const HollowNodesChoices& options) {
  GPEMU_ASSIGN(const scheduling::Fleet fleet, scheduling::read_fleet(options.fleet));
  std::vector<HollowNode> nodes;
  for (const scheduling::Server& server : fleet.servers()) {
    HollowNode node{.name = server.name, .host = server.host, .gpus = server.gpus, .labels = {}};
    std::ranges::transform(node.name, node.name.begin(),
                           [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
    const scheduling::HostShare otherwise = host_of(options);
    if (node.host.millicores == scheduling::kUnlimited) node.host.millicores = otherwise.millicores;
    if (node.host.memory_mib == scheduling::kUnlimited) node.host.memory_mib = otherwise.memory_mib;
    node.pods = static_cast<std::uint32_t>(options.pods);
    if (node.gpus != 0) {
      node.labels = {{"nvidia.com/gpu.product", label_of(server.gpu)},
                     {"nvidia.com/gpu.count", std::to_string(node.gpus)}};
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<void> run(const HollowNodesChoices& options) {
  if (options.fleet.empty() == options.gpu.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "which nodes? Give --count COUNT and --gpu NAME:COUNT, or --fleet FILE");
  }
  if (options.fleet.empty() && options.count == 0) {
    return fail(ErrorCode::kInvalidArgument, "how many nodes? Give --count COUNT, 1 or more");
  }
  HollowNodesOptions serve{.nodes = {}, .speed = options.speed};
  serve.connections = static_cast<std::size_t>(options.connections);
  GPEMU_ASSIGN(serve.nodes,
               options.fleet.empty() ? uniform_nodes(options) : nodes_of_table(options));
  GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
  const InterruptGuard interrupt;
  return serve_hollow_nodes(access, serve, interrupt.flag(), [](const std::string& line) {
    report::print_error("gpemu-kubernetes: {}\n", line);
  });
}

}  // namespace

void add_hollow_nodes_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "hollow-nodes",
      "Makes nodes without machines, whose pods run in compressed time, until it is interrupted");
  const auto options = std::make_shared<HollowNodesChoices>();
  command.option("--kubeconfig", options->kubeconfig,
                 "How to reach the API server; by default as kubectl does, or a pod's account");
  command.option("--count", options->count, "How many nodes");
  command.option("--gpu", options->gpu,
                 "NAME[:COUNT] of the GPUs of each, as in `gpemu profile list`");
  command.option("--prefix", options->prefix, "Their names begin so").show_default();
  command
      .option("--fleet", options->fleet,
              "A CSV file of servers in place of these (docs/reference/fleet-tables.md)")
      .excludes("--gpu")
      .excludes("--count");
  command.option("--cores", options->cores, "The cores of each").positive().show_default();
  command.option("--memory", options->memory_gib, "The memory of each, in GiB")
      .positive()
      .show_default();
  command.option("--pods", options->pods, "How many pods each takes")
      .range(1, 10'000)
      .show_default();
  command
      .option("--speed", options->speed,
              "Pods run so many times as fast as their annotation gpemu.dev/seconds says")
      .positive()
      .show_default();
  command.option("--connections", options->connections, "How many connections to the API server")
      .range(1, 64)
      .show_default();
  command.notes(
      "Examples:\n"
      "  gpemu-kubernetes hollow-nodes --count 200 --gpu A100-SXM4-80GB:8 --cores 128\n"
      "  gpemu-kubernetes hollow-nodes --fleet servers.csv --speed 60\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
