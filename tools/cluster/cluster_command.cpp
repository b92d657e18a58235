// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/base/log.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/run/cluster.hpp"
#include "gpemu/run/program_file.hpp"
#include "gpemu/topology/network.hpp"

#include "cli/command_line.hpp"
#include "cli/device_list.hpp"
#include "cli/interrupt.hpp"
#include "cli/read_options.hpp"
#include "cluster/namespaces.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct ClusterOptions {
  std::string name = "cluster";
  int hosts = 2;
  std::string topology;
  std::vector<std::string> gpus;
  std::string network;
  std::string rate;
  std::string delay;
  Patience patience;
  bool as_json = false;
};

/// Runs a command of iproute2. Its own message goes to standard error.
Result<void> run_tool(const run::Words& words, const Patience& patience, const World& world) {
  GPEMU_ASSIGN(const int code, world.run_tool(words, world.environment(), patience.time()));
  if (code == 0) return {};
  return fail(ErrorCode::kIo, "`{}` failed with exit code {}", fmt::join(words, " "), code);
}

/// Removes a cluster's files, and their folder after the last one.
Result<void> forget(const std::string& name, const World& world) {
  std::error_code error, not_empty;
  std::filesystem::remove(run::hosts_file(world.clusters, name), error);
  const std::filesystem::path file = run::cluster_file(world.clusters, name);
  std::filesystem::remove(file, error);
  std::filesystem::remove(world.clusters, not_empty);
  if (!error) return {};
  return fail(ErrorCode::kIo, "cannot remove {}: {}", file.string(), error.message());
}

/// What is left of a cluster.
struct Remains {
  std::string name;
  std::vector<std::string> spaces;
  bool has_node = false;  ///< else a node of that name is somebody's.
};

/// Finds what is left of a cluster whose description is damaged, as those of earlier versions could
/// be, or gone.
Remains remains_of(const std::string& name, const World& world) {
  std::error_code none;
  Remains remains{
      .name = name, .spaces = namespaces_named("gpemu-" + name + "-"), .has_node = false};
  remains.has_node = !remains.spaces.empty() ||
                     std::filesystem::exists(run::hosts_file(world.clusters, name), none);
  return remains;
}

/// Ends what runs in the cluster and removes all that `up` makes, as far as it is there.
Result<void> take_down(const Remains& remains, const Patience& patience, const World& world) {
  Result<void> first;
  const auto note = [&first](Result<void> result) {
    if (first && !result) first = std::move(result);
  };
  note(end_processes_in(remains.spaces, world));
  for (const std::string& space : remains.spaces) {
    if (exists_namespace(space)) note(run_tool({"ip", "netns", "delete", space}, patience, world));
  }
  if (remains.has_node) {
    const auto removed = device::remove_node(remains.name, true, world.nodes);
    if (!removed && removed.error().code != ErrorCode::kNotFound) note(removed);
  }
  if (!first) return first;
  return forget(remains.name, world);
}

/// Returns the devices of one host, and completes the cluster's description.
Result<std::vector<device::DeviceConfig>> devices_of_host(const ClusterOptions& options,
                                                          const World& world,
                                                          run::Cluster& cluster) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  std::vector<std::string> gpus = options.gpus;
  if (!options.topology.empty()) {
    GPEMU_ASSIGN(const profile::TopologySpec host,
                 profile::find_topology(world.topologies, options.topology));
    gpus = {fmt::format("{}:{}", host.gpu, host.gpus.size())};
    double bytes_per_s = 0;
    for (const profile::NetworkAdapter& adapter : host.adapters) bytes_per_s += adapter.bytes_per_s;
    if (cluster.network.empty() && bytes_per_s > 0) {
      cluster.network = fmt::format("rdma:{:g}gbit", bytes_per_s * 8 / 1e9);
    }
  }
  if (gpus.empty()) {
    return fail(ErrorCode::kInvalidArgument, "say what each host has: give --topology or --gpu");
  }
  if (cluster.network.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "say what network the model is to have: give --network, e.g. rdma:200gbit{}",
                options.topology.empty() ? "" : ", because the topology names no adapters");
  }
  GPEMU_ASSIGN(std::vector<device::DeviceConfig> devices, read_device_list(database, gpus));
  cluster.gpus = static_cast<int>(devices.size());
  cluster.gpu = devices.front().gpu;
  return devices;
}

Result<void> make_cluster(const run::Cluster& cluster,
                          const std::vector<device::DeviceConfig>& host, const Patience& patience,
                          const World& world, const std::atomic<bool>& stop, bool& has_node) {
  GPEMU_TRY(write_file_atomically(run::hosts_file(world.clusters, cluster.name),
                                  run::hosts_text(cluster)));
  device::NodeConfig config{.name = cluster.name};
  for (int i = 0; i < cluster.hosts; ++i) {
    config.devices.insert(config.devices.end(), host.begin(), host.end());
  }
  GPEMU_TRY(device::Node::create(config, world.nodes));
  has_node = true;
  for (const run::Words& command : run::commands_to_make(cluster)) {
    if (stop) return fail(ErrorCode::kInterrupted, "stopped; nothing of the cluster is left");
    const auto done = run_tool(command, patience, world);
    if (!done && run::needs_netem(command)) {
      return fail(ErrorCode::kUnsupported,
                  "{}: --delay needs netem, which this kernel does not have or load "
                  "(CONFIG_NET_SCH_NETEM, module sch_netem); use another kernel, or leave out "
                  "--delay",
                  done.error().message);
    }
    GPEMU_TRY(done);
  }
  return {};
}

/// Makes the cluster's file, which only one process can. Errors: kInvalidArgument if it exists.
Result<void> claim_name(const run::Cluster& cluster, const World& world) {
  GPEMU_ASSIGN(const bool made, write_new_file(run::cluster_file(world.clusters, cluster.name),
                                               run::cluster_text(cluster)));
  if (made) return {};
  return fail(ErrorCode::kInvalidArgument,
              "there is a cluster '{}' already: remove it with `gpemu cluster down --name {}`, or "
              "choose another --name",
              cluster.name, cluster.name);
}

Result<void> up(const ClusterOptions& options, const World& world) {
  const InterruptGuard interrupt;
  GPEMU_TRY(run::check_cluster_name(options.name));
  run::Cluster cluster{.name = options.name,
                       .hosts = options.hosts,
                       .network = options.network,
                       .rate = options.rate,
                       .delay = options.delay};
  // NCCL takes an interface without a limit, a veth, to have the speed that Linux says it has.
  if (cluster.network == "real") {
    cluster.network = "real:" + (cluster.rate.empty() ? "10gbit" : cluster.rate);
  }
  if (!cluster.network.empty()) GPEMU_TRY(topology::parse_network(cluster.network));
  if (!cluster.rate.empty()) GPEMU_TRY(topology::parse_bit_rate(cluster.rate));
  if (!cluster.delay.empty()) GPEMU_TRY(run::check_delay(cluster.delay));
  GPEMU_ASSIGN(const auto devices, devices_of_host(options, world, cluster));
  for (const char* tool : {"ip", "tc", "nsenter", "unshare"}) {
    if (const auto found = run::check_program(tool, world.variable("PATH")); !found) {
      return fail(found.error().code, "{}: install the packages iproute2 and util-linux",
                  found.error().message);
    }
  }
  std::error_code error;
  std::filesystem::create_directories(world.clusters, error);
  if (error || ::access(world.clusters.c_str(), W_OK) != 0) {
    return fail(ErrorCode::kUnavailable,
                "cannot write to {}: only root may make network namespaces; try sudo",
                world.clusters.string());
  }
  // A node of that name is somebody's, and must not be taken down below.
  const bool is_taken = device::Node::open(cluster.name, world.nodes).has_value();
  if (is_taken &&
      !std::filesystem::exists(run::cluster_file(world.clusters, cluster.name), error)) {
    std::filesystem::remove(world.clusters, error);
    return fail(ErrorCode::kInvalidArgument, "there is a node '{}' already: choose another --name",
                cluster.name);
  }
  // First of all, so that `down` finds whatever is left if this process is killed.
  GPEMU_TRY(claim_name(cluster, world));
  Remains made{.name = cluster.name, .spaces = run::namespaces_of(cluster), .has_node = false};
  const auto done =
      make_cluster(cluster, devices, options.patience, world, interrupt.flag(), made.has_node);
  if (!done) {
    static_cast<void>(take_down(made, options.patience, world));
    return done;
  }
  report::print_out("cluster '{}': {} hosts with {} x {}, network {}{}{}\n", cluster.name,
                    cluster.hosts, cluster.gpus, cluster.gpu, cluster.network,
                    cluster.rate.empty() ? "" : ", interfaces limited to " + cluster.rate,
                    cluster.delay.empty() ? "" : ", packets delayed by " + cluster.delay);
  return {};
}

Result<void> down(const ClusterOptions& options, const World& world) {
  // Ctrl-C leaves nothing half removed: all of it takes little time.
  const InterruptGuard interrupt;
  GPEMU_TRY(run::check_cluster_name(options.name));
  const auto cluster = run::find_cluster(world.clusters, options.name);
  if (cluster) {
    return take_down(
        {.name = options.name, .spaces = run::namespaces_of(*cluster), .has_node = true},
        options.patience, world);
  }
  const Remains remains = remains_of(options.name, world);
  const bool is_gone = cluster.error().code == ErrorCode::kNotFound && !remains.has_node;
  if (is_gone) return std::unexpected(cluster.error());
  return take_down(remains, options.patience, world);
}

Result<void> list(const ClusterOptions& options, const World& world) {
  json clusters = json::array();
  report::TextTable table({"cluster", "hosts", "gpus of each", "network", "rate", "addresses"});
  std::error_code none;
  if (std::filesystem::exists(world.clusters, none)) {
    GPEMU_ASSIGN(std::vector<std::filesystem::path> files, list_folder(world.clusters));
    std::ranges::sort(files);
    for (const std::filesystem::path& file : files) {
      if (file.extension() != ".json") continue;
      const auto found = run::find_cluster(world.clusters, file.stem());
      if (!found) {
        // The others are there nevertheless.
        log(LogLevel::kWarning, "{}", found.error().message);
        continue;
      }
      const run::Cluster& cluster = *found;
      table.add_row(
          {cluster.name, fmt::to_string(cluster.hosts),
           fmt::format("{} x {}", cluster.gpus, cluster.gpu), cluster.network,
           cluster.rate.empty() ? "-" : cluster.rate,
           fmt::format("{} to {}", run::host_address(0), run::host_address(cluster.hosts - 1))});
      clusters.push_back(json::parse(run::cluster_text(cluster)));
    }
  }
  if (options.as_json) {
    report::print_out("{}", report::json_text(clusters));
  } else if (table.empty()) {
    report::print_out("no clusters\n");
  } else {
    report::print_out("{}", table.str(world.terminal().output_columns));
  }
  return {};
}

}  // namespace

void add_cluster_command(Command app, const World& world) {
  Command cluster = app.subcommand(
      "cluster", "Make emulated hosts on this machine, and run programs on all of them");
  cluster.require_subcommand();
  cluster.notes(
      "A cluster is a node whose GPUs are divided among hosts. Each host is a network namespace "
      "with a host name and an address of its own; files and processes are this machine's. NCCL "
      "takes ranks on different hosts to be joined by the network of --network.\n\n"
      "Examples:\n"
      "  gpemu cluster up --nodes 2 --topology dgx-a100\n"
      "  gpemu cluster run -- torchrun train.py\n"
      "  gpemu cluster down");
  auto options = std::make_shared<ClusterOptions>();
  const auto add_name = [&options](Command command) {
    command.option("--name", options->name, "Name of the cluster").show_default();
  };

  Command make = cluster.subcommand("up", "Make a cluster; needs root");
  add_name(make);
  make.option("--nodes", options->hosts, "Number of hosts")
      .range(1, run::kMostHosts)
      .show_default();
  make.option("--topology", options->topology,
              "Each host has the GPUs and the network adapters of this machine, by name or by the "
              "path of a TOML file; `gpemu node topo` lists the names");
  make.option("--gpu", options->gpus, "Each host has these GPUs: NAME or NAME:COUNT; repeatable")
      .excludes("--topology");
  make.option("--network", options->network,
              "What joins the GPUs of different hosts. KIND:RATE: a network of the model, rdma or "
              "tcp, and the rate of one host in each direction. real: the hosts' real network, "
              "over which collectives of NCCL then send their bytes. Without it: all adapters of "
              "the topology together");
  make.option("--rate", options->rate,
              "Limit each host's real interface to this rate, e.g. 1gbit: for storage, data, gloo "
              "and, with --network real, NCCL");
  make.option("--delay", options->delay,
              "Delay each packet on the real network by this time, e.g. 50us; needs a kernel with "
              "netem");
  add_patience_option(make, options->patience);
  make.notes(
      "Rates are numbers with kbit, mbit or gbit. Delays are whole numbers with us, ms or s.\n\n"
      "Examples:\n"
      "  gpemu cluster up --topology dgx-a100 --network real --rate 1gbit\n"
      "  gpemu cluster up --nodes 4 --topology dgx-h100\n"
      "  gpemu cluster up --name small --gpu T4:4 --network tcp:10gbit --rate 1gbit");
  make.on_run([options, &world] { return up(*options, world); });

  add_cluster_run_command(cluster, world);

  Command show = cluster.subcommand("list", "List the clusters of this machine");
  show.flag("--json", options->as_json, "Print JSON");
  show.notes("Example:\n  gpemu cluster list");
  show.on_run([options, &world] { return list(*options, world); });

  Command remove =
      cluster.subcommand("down", "Remove a cluster, and end what runs on its hosts; needs root");
  add_name(remove);
  add_patience_option(remove, options->patience);
  remove.notes("Example:\n  gpemu cluster down");
  remove.on_run([options, &world] { return down(*options, world); });
}

}  // namespace gpemu::tools
