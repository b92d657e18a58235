// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// The most hosts that a cluster can have: those of its network's addresses.
inline constexpr int kMostHosts = 250;

/// Several emulated hosts on this machine. Each has a network namespace, a host name and a part of
/// the devices of one node, which has the cluster's name. A switch, in a namespace of its own,
/// joins them, and nothing else.
struct Cluster {
  std::string name;
  int hosts = 0;
  int gpus = 0;         ///< of each host.
  std::string gpu;      ///< their kind, for people.
  std::string network;  ///< of the model, see topology::parse_network().
  std::string rate;     ///< of each host's real interface, see topology::parse_bit_rate(); or "".
  std::string delay;    ///< of what a host sends, see check_delay(); or "".
};

/// A program and its arguments.
using Words = std::vector<std::string>;

/// Errors: kInvalidArgument.
[[nodiscard]] Result<void> check_cluster_name(std::string_view name);

/// Checks a time as tc(8) writes it: a whole number with us, ms or s, up to 10 s.
///
/// Errors: kInvalidArgument.
[[nodiscard]] Result<void> check_delay(std::string_view text);

/// Returns whether collectives send their bytes over the real network.
[[nodiscard]] bool has_real_network(const Cluster& cluster);

/// The text of a cluster's file. Errors: kCorruptData, with the path.
[[nodiscard]] std::string cluster_text(const Cluster& cluster);
[[nodiscard]] Result<Cluster> parse_cluster(std::string_view text,
                                            const std::filesystem::path& path);

/// The files of a cluster in the folder of all clusters: its description, and what its hosts see as
/// /etc/hosts.
[[nodiscard]] std::filesystem::path cluster_file(const std::filesystem::path& folder,
                                                 const std::string& name);
[[nodiscard]] std::filesystem::path hosts_file(const std::filesystem::path& folder,
                                               const std::string& name);

/// Reads a cluster's description. Errors: kInvalidArgument for a name that is none, kNotFound;
/// those of parse_cluster() and read_file().
[[nodiscard]] Result<Cluster> find_cluster(const std::filesystem::path& folder,
                                           const std::string& name);

/// The names of a cluster's network namespaces, of which the last one has the switch.
[[nodiscard]] std::vector<std::string> namespaces_of(const Cluster& cluster);
/// What a host is called, and its address in the cluster's network.
[[nodiscard]] std::string host_name(const Cluster& cluster, int host);
[[nodiscard]] std::string host_address(int host);
/// The text of /etc/hosts in the cluster.
[[nodiscard]] std::string hosts_text(const Cluster& cluster);

/// Returns whether a command of iproute2 needs the kernel's netem.
[[nodiscard]] bool needs_netem(const Words& command);

/// The commands of iproute2 that make the namespaces and their network, in order.
[[nodiscard]] std::vector<Words> commands_to_make(const Cluster& cluster);

/// A program of one host: its words, and what is added to its environment.
struct HostProgram {
  Words words;
  std::vector<std::pair<std::string, std::string>> variables;
};

/// Returns what runs a program on each host, with what torchrun and others read from the
/// environment. `hosts_file`: what hosts see as /etc/hosts.
[[nodiscard]] std::vector<HostProgram> host_programs(const Cluster& cluster,
                                                     const std::filesystem::path& hosts_file,
                                                     const Words& program);

/// Runs the programs of all hosts at the same time, each in a process of its own. The first one has
/// this process's input. Returns the first exit code that is not 0.
///
/// The signals of a terminal reach all; what the parent process or anybody else sends to this one
/// alone is passed on, also to those that are just being started. After such a signal, no more are
/// started, and the exit code is at least that of the signal.
///
/// Errors: kIo if a process cannot be made. Requires: one thread, and no other children.
[[nodiscard]] Result<int> run_hosts(const std::vector<HostProgram>& programs,
                                    const std::vector<std::string>& environment);

}  // namespace gpemu::run
