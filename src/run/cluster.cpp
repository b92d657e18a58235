// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/cluster.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/topology/network.hpp"

namespace gpemu::run {
namespace {

/// The port at which torchrun's first host listens by default.
constexpr int kPort = 29500;

/// Returns the bytes that a token bucket needs for a rate: what may pass between two ticks of a
/// kernel with 250 a second, and at least a packet of 64 KiB, as TCP gives them to the interface.
std::int64_t bucket_bytes(std::string_view rate) {
  const double bytes_per_s = topology::parse_bit_rate(rate).value_or(0);
  return std::max<std::int64_t>(128 * 1024, static_cast<std::int64_t>(bytes_per_s / 250));
}

/// More packets than a host has on their way during a delay: netem drops what is beyond.
constexpr int kDelayedPackets = 1000000;

/// Returns the words that add a queueing discipline, without its own.
Words queue_of(const std::string& space, const std::string& interface, Words place) {
  Words words = {"tc", "-n", space, "qdisc", "add", "dev", interface};
  words.insert(words.end(), place.begin(), place.end());
  return words;
}

Words shape(const std::string& space, const std::string& interface, const Cluster& cluster,
            Words place) {
  Words words = queue_of(space, interface, std::move(place));
  for (const char* word : {"tbf", "rate"}) words.emplace_back(word);
  words.push_back(cluster.rate);
  words.emplace_back("burst");
  words.push_back(fmt::to_string(bucket_bytes(cluster.rate)));
  for (const char* word : {"latency", "50ms"}) words.emplace_back(word);
  return words;
}

/// Returns the commands that limit and delay what an interface sends.
std::vector<Words> shape_sender(const std::string& space, const Cluster& cluster) {
  std::vector<Words> commands;
  if (!cluster.delay.empty()) {
    // What limits the rate comes after the delay: netem keeps the packets until their time.
    Words delay = queue_of(space, "eth0", {"root", "handle", "1:"});
    for (const std::string& word : {std::string("netem"), std::string("delay"), cluster.delay,
                                    std::string("limit"), fmt::to_string(kDelayedPackets)}) {
      delay.push_back(word);
    }
    commands.push_back(std::move(delay));
  }
  if (cluster.rate.empty()) return commands;
  const Words place = cluster.delay.empty() ? Words{"root"} : Words{"parent", "1:1"};
  commands.push_back(shape(space, "eth0", cluster, place));
  return commands;
}

}  // namespace

Result<void> check_cluster_name(std::string_view name) {
  constexpr std::size_t kLongest = 32;
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  const bool is_name = !name.empty() && name.size() <= kLongest && name.front() >= 'a' &&
                       name.front() <= 'z' &&
                       name.find_first_not_of(kAllowed) == std::string_view::npos;
  if (is_name) return {};
  return fail(ErrorCode::kInvalidArgument,
              "'{}' is not a cluster's name: use up to {} small letters, digits and dashes, and "
              "begin with a letter",
              name, kLongest);
}

Result<void> check_delay(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kUnits = {
      {{"us", 1}, {"ms", 1000}, {"s", 1000 * 1000}}};
  constexpr std::int64_t kMostUs = 10 * 1000 * 1000;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [unit, us] : kUnits) {
    if (error == std::errc() && rest == unit && number > 0 && number <= kMostUs / us) return {};
  }
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" is not a delay: give a whole number with us, ms or s, up to 10s, e.g. 50us",
              text);
}

bool has_real_network(const Cluster& cluster) {
  const auto network = topology::parse_network(cluster.network);
  return network && network->is_real;
}

bool needs_netem(const Words& command) {
  return std::ranges::find(command, "netem") != command.end();
}

std::string cluster_text(const Cluster& cluster) {
  const nlohmann::json json = {{"name", cluster.name},       {"hosts", cluster.hosts},
                               {"gpus", cluster.gpus},       {"gpu", cluster.gpu},
                               {"network", cluster.network}, {"rate", cluster.rate},
                               {"delay", cluster.delay}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<Cluster> parse_cluster(std::string_view text, const std::filesystem::path& path) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto text_of = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto number_of = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
  };
  if (json.is_object()) {
    const std::int64_t hosts = number_of("hosts"), gpus = number_of("gpus");
    Cluster cluster{.name = text_of("name"),
                    .gpu = text_of("gpu"),
                    .network = text_of("network"),
                    .rate = text_of("rate"),
                    .delay = text_of("delay")};
    const bool is_good = check_cluster_name(cluster.name) && hosts >= 1 && hosts <= kMostHosts &&
                         gpus >= 1 && gpus <= INT32_MAX / kMostHosts &&
                         topology::parse_network(cluster.network) &&
                         (cluster.rate.empty() || topology::parse_bit_rate(cluster.rate)) &&
                         (cluster.delay.empty() || check_delay(cluster.delay));
    if (is_good) {
      cluster.hosts = static_cast<int>(hosts);
      cluster.gpus = static_cast<int>(gpus);
      return cluster;
    }
  }
  return fail(ErrorCode::kCorruptData,
              "{} does not describe a cluster; `gpemu cluster down --name {}` removes what is left "
              "of it",
              path.string(), path.stem().string());
}

std::filesystem::path cluster_file(const std::filesystem::path& folder, const std::string& name) {
  return folder / (name + ".json");
}

std::filesystem::path hosts_file(const std::filesystem::path& folder, const std::string& name) {
  return folder / (name + ".hosts");
}

Result<Cluster> find_cluster(const std::filesystem::path& folder, const std::string& name) {
  GPEMU_TRY(check_cluster_name(name));
  const std::filesystem::path file = cluster_file(folder, name);
  std::error_code none;
  if (!std::filesystem::exists(file, none)) {
    return fail(ErrorCode::kNotFound,
                "there is no cluster '{}': make one with `gpemu cluster up`, or see `gpemu cluster "
                "list`",
                name);
  }
  GPEMU_ASSIGN(const std::string text, read_file(file));
  GPEMU_ASSIGN(Cluster cluster, parse_cluster(text, file));
  // Whatever the name stands for, another cluster does not go with it.
  return cluster.name == name ? Result<Cluster>(std::move(cluster)) : parse_cluster("", file);
}

std::vector<std::string> namespaces_of(const Cluster& cluster) {
  std::vector<std::string> spaces;
  for (int host = 0; host < cluster.hosts; ++host) {
    spaces.push_back("gpemu-" + host_name(cluster, host));
  }
  spaces.push_back(fmt::format("gpemu-{}-switch", cluster.name));
  return spaces;
}

std::string host_name(const Cluster& cluster, int host) {
  return fmt::format("{}-{}", cluster.name, host);
}

std::string host_address(int host) {
  return fmt::format("10.77.0.{}", host + 1);
}

std::string hosts_text(const Cluster& cluster) {
  std::string text = "127.0.0.1 localhost\n::1 localhost\n";
  for (int host = 0; host < cluster.hosts; ++host) {
    text += fmt::format("{} {}\n", host_address(host), host_name(cluster, host));
  }
  return text;
}

std::vector<Words> commands_to_make(const Cluster& cluster) {
  std::vector<std::string> hosts = namespaces_of(cluster);
  const std::string joint = std::move(hosts.back());
  hosts.pop_back();
  std::vector<Words> commands = {{"ip", "netns", "add", joint},
                                 {"ip", "-n", joint, "link", "add", "br0", "type", "bridge"},
                                 {"ip", "-n", joint, "link", "set", "br0", "up"}};
  for (int host = 0; host < cluster.hosts; ++host) {
    const std::string& space = hosts[static_cast<std::size_t>(host)];
    const std::string port = fmt::format("port{}", host);
    commands.push_back({"ip", "netns", "add", space});
    commands.push_back({"ip", "-n", space, "link", "set", "lo", "up"});
    commands.push_back({"ip", "link", "add", "eth0", "netns", space, "type", "veth", "peer", "name",
                        port, "netns", joint});
    commands.push_back(
        {"ip", "-n", space, "addr", "add", host_address(host) + "/24", "dev", "eth0"});
    commands.push_back({"ip", "-n", space, "link", "set", "eth0", "up"});
    commands.push_back({"ip", "-n", joint, "link", "set", port, "master", "br0", "up"});
    // What the host sends, and what it receives.
    for (Words& words : shape_sender(space, cluster)) commands.push_back(std::move(words));
    if (!cluster.rate.empty()) commands.push_back(shape(joint, port, cluster, {"root"}));
  }
  return commands;
}

std::vector<HostProgram> host_programs(const Cluster& cluster,
                                       const std::filesystem::path& hosts_file,
                                       const Words& program) {
  std::vector<HostProgram> programs;
  const std::string hosts = fmt::to_string(cluster.hosts), gpus = fmt::to_string(cluster.gpus);
  const std::string port = fmt::to_string(kPort), master = host_address(0);
  for (int host = 0; host < cluster.hosts; ++host) {
    const std::string rank = fmt::to_string(host), name = host_name(cluster, host);
    HostProgram& made = programs.emplace_back();
    made.words = {
        "nsenter", "--net=/run/netns/gpemu-" + name,
        "unshare", "--uts",
        "--mount", "sh",
        "-c",      R"(hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@")",
        name,      hosts_file.string()};
    made.words.insert(made.words.end(), program.begin(), program.end());
    made.variables = {
        {"GPEMU_DEVICES", fmt::format("{}-{}", host * cluster.gpus, (host + 1) * cluster.gpus - 1)},
        {"GPEMU_NETWORK", cluster.network},
        {"GPEMU_HOSTS", hosts},
        {"GPEMU_HOST_RANK", rank},
        {"MASTER_ADDR", master},
        {"MASTER_PORT", port},
        {"GLOO_SOCKET_IFNAME", "eth0"},
        {"PET_NNODES", hosts},
        {"PET_NODE_RANK", rank},
        {"PET_NPROC_PER_NODE", gpus},
        {"PET_MASTER_ADDR", master},
        {"PET_MASTER_PORT", port}};
  }
  return programs;
}

}  // namespace gpemu::run
