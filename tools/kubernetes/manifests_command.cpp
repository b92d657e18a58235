// SPDX-License-Identifier: Apache-2.0
//
// What runs gpemu on the machines of a cluster, as objects of Kubernetes.
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include <yaml-cpp/yaml.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/containers/cdi_spec.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/containers/node_labels.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/registry.hpp"

#include "cli/command.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/pool_options.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct ManifestOptions {
  std::vector<std::string> gpus, mig;
  std::string topology;
  bool has_resource = false;  ///< it was given.
  std::string image = "gpemu:latest";
  std::string name_space = "kube-system";
  std::string resource = "nvidia.com/gpu";
  std::string division = "none";
  std::string nodes;
  std::string policy;
  int replicas = 1;
  bool metrics = false, claims = false, labels = false;
};

constexpr const char* kName = "gpemu-device-plugin";
constexpr const char* kState = "/run/gpemu-device-plugin";
constexpr const char* kSockets = "/var/lib/kubelet/device-plugins";
constexpr const char* kDriverName = "gpemu-dra-driver";
constexpr const char* kDriverState = "/run/gpemu-dra-driver";
constexpr const char* kSchedulerName = "gpemu-scheduler";
constexpr const char* kPodResources = "/var/lib/kubelet/pod-resources";
constexpr const char* kPlugins = "/var/lib/kubelet/plugins";
constexpr const char* kRegistry = "/var/lib/kubelet/plugins_registry";
constexpr int kMetricsPort = 9400;

/// Puts the image's gpemu into the machine's /opt, unless it is there. Containers that run keep the
/// one before it, until there are two newer ones.
constexpr const char* kInstall =
    "set -e; cd /host; if [ -e gpemu ] && diff -r /opt/gpemu gpemu >/dev/null; then exit 0; fi; "
    "rm -rf gpemu.new gpemu.old; cp -a /opt/gpemu gpemu.new; "
    "if [ -e gpemu ]; then mv gpemu gpemu.old; fi; mv gpemu.new gpemu";

json volume(const std::string& name, const std::string& path) {
  return {{"name", name}, {"hostPath", {{"path", path}, {"type", "DirectoryOrCreate"}}}};
}

json mount(const std::string& name, const std::string& path, bool read_only = false) {
  json made = {{"name", name}, {"mountPath", path}};
  if (read_only) made["readOnly"] = true;
  return made;
}

/// A container of gpemu-kubernetes, which knows the machine's name.
json container(const ManifestOptions& options, const std::string& command,
               std::vector<std::string> words) {
  words.insert(words.begin(), {"gpemu-kubernetes", command, "--machine", "$(NODE_NAME)"});
  return {
      {"name", command},
      {"image", options.image},
      {"imagePullPolicy", "IfNotPresent"},
      {"command", words},
      {"env",
       {{{"name", "NODE_NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}}}}}}};
}

/// The options that say which GPUs a machine has.
std::vector<std::string> gpu_words(const ManifestOptions& options) {
  std::vector<std::string> words;
  for (const std::string& gpu : options.gpus) words.insert(words.end(), {"--gpu", gpu});
  if (!options.topology.empty()) words.insert(words.end(), {"--topology", options.topology});
  return words;
}

std::string mig_word(const ManifestOptions& options) {
  return fmt::format("{}", fmt::join(options.mig, ","));
}

json plugin_container(const ManifestOptions& options) {
  std::vector<std::string> words = gpu_words(options);
  if (options.mig.empty() || options.has_resource) {
    words.insert(words.end(), {"--resource", options.resource});
  }
  if (!options.mig.empty()) words.insert(words.end(), {"--mig", mig_word(options)});
  if (options.replicas > 1) {
    words.insert(words.end(),
                 {"--replicas", std::to_string(options.replicas), "--divide", options.division});
  }
  json made = container(options, "device-plugin", std::move(words));
  made["volumeMounts"] = {mount("gpemu", containers::kInstallation, true), mount("state", kState),
                          mount("sockets", kSockets)};
  return made;
}

/// Labels the machine's node before anything else, as GPU feature discovery does.
json labels_container(const ManifestOptions& options,
                      const std::vector<device::DeviceConfig>& gpus) {
  std::vector<std::string> words{"gpemu-kubernetes", "labels", "--node", "$(NODE_NAME)"};
  for (const device::DeviceConfig& gpu : gpus) words.insert(words.end(), {"--gpu", gpu.gpu});
  if (options.replicas > 1) {
    words.insert(words.end(), {"--replicas", std::to_string(options.replicas)});
  }
  if (!options.mig.empty()) words.insert(words.end(), {"--mig", mig_word(options)});
  if (!options.mig.empty() && options.has_resource) words.emplace_back("--single");
  json made = container(options, "labels", {});
  made["command"] = words;
  return made;
}

json driver_container(const ManifestOptions& options) {
  std::vector<std::string> words = gpu_words(options);
  words.insert(words.end(), {"--node", "$(NODE_NAME)"});
  if (options.division != "none") words.insert(words.end(), {"--divide", options.division});
  json made = container(options, "dra-driver", std::move(words));
  made["volumeMounts"] = {mount("gpemu", containers::kInstallation, true),
                          mount("state", kDriverState), mount("plugins", kPlugins),
                          mount("registry", kRegistry), mount("cdi", containers::kCdiFolder)};
  return made;
}

json metrics_container(const ManifestOptions& options) {
  const char* const state = options.claims ? kDriverState : kState;
  json made = container(options, "metrics", {"--state", state});
  made["ports"] = {{{"name", "metrics"}, {"containerPort", kMetricsPort}}};
  made["volumeMounts"] = {mount("state", state, true), mount("pod-resources", kPodResources, true)};
  return made;
}

/// Something that an account may do.
struct Permission {
  const char* group;  ///< of the API.
  std::vector<const char*> resources, verbs;
};

const Permission kMayLabel{"", {"nodes"}, {"patch"}};

/// Returns an account with permissions in the whole cluster.
std::vector<json> account(const ManifestOptions& options, const char* name,
                          const std::vector<Permission>& permissions) {
  json rules = json::array();
  for (const Permission& permission : permissions) {
    rules.push_back({{"apiGroups", {permission.group}},
                     {"resources", permission.resources},
                     {"verbs", permission.verbs}});
  }
  constexpr const char* kApi = "rbac.authorization.k8s.io/v1";
  const json who{{"kind", "ServiceAccount"}, {"name", name}, {"namespace", options.name_space}};
  const json role{
      {"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", name}};
  return {{{"apiVersion", "v1"},
           {"kind", "ServiceAccount"},
           {"metadata", {{"name", name}, {"namespace", options.name_space}}}},
          {{"apiVersion", kApi},
           {"kind", "ClusterRole"},
           {"metadata", {{"name", name}}},
           {"rules", rules}},
          {{"apiVersion", kApi},
           {"kind", "ClusterRoleBinding"},
           {"metadata", {{"name", name}}},
           {"roleRef", role},
           {"subjects", json::array({who})}}};
}

/// Returns what all programs on machines have in common: a pod that puts gpemu where containers see
/// it.
json machine_pod(const ManifestOptions& options, const char* state) {
  return {{"priorityClassName", "system-node-critical"},
          {"automountServiceAccountToken", false},
          {"tolerations", {{{"operator", "Exists"}}}},
          {"initContainers",
           {{{"name", "install"},
             {"image", options.image},
             {"imagePullPolicy", "IfNotPresent"},
             {"command", {"sh", "-c", kInstall}},
             {"volumeMounts", {mount("opt", "/host")}}}}},
          {"volumes",
           {volume("opt", "/opt"), volume("gpemu", containers::kInstallation),
            volume("state", state)}}};
}

/// Returns the pods that run on each machine: the device plugin, or the driver of claims.
Result<json> daemon_set(const ManifestOptions& options,
                        const std::vector<device::DeviceConfig>& gpus) {
  const char* const name = options.claims ? kDriverName : kName;
  json pod = machine_pod(options, options.claims ? kDriverState : kState);
  if (options.claims || options.labels) {
    pod["automountServiceAccountToken"] = true;
    pod["serviceAccountName"] = name;
  }
  if (options.labels) pod["initContainers"].push_back(labels_container(options, gpus));
  if (options.claims) {
    pod["containers"] = {driver_container(options)};
    for (json more : {volume("plugins", kPlugins), volume("registry", kRegistry),
                      volume("cdi", containers::kCdiFolder)}) {
      pod["volumes"].push_back(std::move(more));
    }
  } else {
    pod["containers"] = {plugin_container(options)};
    pod["volumes"].push_back(volume("sockets", kSockets));
  }
  json annotations = json::object();
  if (options.metrics) {
    pod["containers"].push_back(metrics_container(options));
    pod["volumes"].push_back(volume("pod-resources", kPodResources));
    annotations = {{"prometheus.io/scrape", "true"},
                   {"prometheus.io/port", std::to_string(kMetricsPort)}};
  }
  if (!options.nodes.empty()) {
    const std::size_t equals = options.nodes.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return fail(ErrorCode::kInvalidArgument,
                  "--nodes: '{}' is no label of nodes: write LABEL=VALUE", options.nodes);
    }
    pod["nodeSelector"] = {{options.nodes.substr(0, equals), options.nodes.substr(equals + 1)}};
  }
  const json labels = {{"app.kubernetes.io/name", name}};
  return json{
      {"apiVersion", "apps/v1"},
      {"kind", "DaemonSet"},
      {"metadata", {{"name", name}, {"namespace", options.name_space}}},
      {"spec",
       {{"selector", {{"matchLabels", labels}}},
        {"template",
         {{"metadata", {{"labels", labels}, {"annotations", annotations}}}, {"spec", pod}}}}}};
}

/// Returns what the driver of claims needs beside its pods.
std::vector<json> for_claims(const ManifestOptions& options) {
  std::vector<Permission> permissions{
      {"resource.k8s.io", {"resourceslices"}, {"get", "create", "update", "delete"}},
      {"resource.k8s.io", {"resourceclaims"}, {"get"}},
      {"", {"pods", "nodes"}, {"get"}},
      {"", {"events"}, {"create"}}};
  if (options.labels) permissions.push_back(kMayLabel);
  std::vector<json> all = account(options, kDriverName, permissions);
  const std::string driver = "gpu.nvidia.com";
  const json selector{
      {"cel",
       {{"expression",
         fmt::format("device.driver == '{0}' && device.attributes['{0}'].type == 'gpu'",
                     driver)}}}};
  all.push_back({{"apiVersion", "resource.k8s.io/v1"},
                 {"kind", "DeviceClass"},
                 {"metadata", {{"name", driver}}},
                 {"spec", {{"selectors", json::array({selector})}}}});
  return all;
}

/// Returns the scheduler: two instances, of which one leads.
std::vector<json> scheduler_of(const ManifestOptions& options) {
  std::vector<json> all =
      account(options, kSchedulerName,
              {{"", {"nodes", "pods"}, {"get", "list", "watch"}},
               {"", {"pods", "pods/status"}, {"patch"}},
               {"", {"pods/binding", "pods/eviction", "events"}, {"create"}},
               {"coordination.k8s.io", {"leases"}, {"get", "create", "update"}}});
  const json labels = {{"app.kubernetes.io/name", kSchedulerName}};
  const json container{{"name", "scheduler"},
                       {"image", options.image},
                       {"imagePullPolicy", "IfNotPresent"},
                       {"command",
                        {"gpemu-kubernetes", "scheduler", "--policy", options.policy,
                         "--lease-namespace", options.name_space}}};
  all.push_back({{"apiVersion", "apps/v1"},
                 {"kind", "Deployment"},
                 {"metadata", {{"name", kSchedulerName}, {"namespace", options.name_space}}},
                 {"spec",
                  {{"replicas", 2},
                   {"selector", {{"matchLabels", labels}}},
                   {"template",
                    {{"metadata", {{"labels", labels}}},
                     {"spec",
                      {{"serviceAccountName", kSchedulerName},
                       {"priorityClassName", "system-cluster-critical"},
                       {"containers", json::array({container})}}}}}}}});
  return all;
}

void write(YAML::Emitter& out, const json& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      write(out, member);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const json& member : value) write(out, member);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    // Without quotation marks, some would be a number or a truth value.
    out << YAML::DoubleQuoted << value.get<std::string>();
  } else {
    out << value.dump();
  }
}

Result<void> check_mig_options(const ManifestOptions& options, const MachineGpus& machine) {
  if (options.claims) {
    return fail(ErrorCode::kInvalidArgument,
                "--mig: claims ask for instances by themselves; see `dra-driver --mig`");
  }
  GPEMU_ASSIGN(const std::vector<std::string> instances, read_mig_profiles(options.mig));
  GPEMU_TRY(containers::mig_node_labels(machine.gpus, machine.mig_profiles, instances, true));
  return {};
}

Result<void> run(const ManifestOptions& options) {
  GPEMU_ASSIGN(const MachineGpus machine, read_machine_gpus(options.gpus, options.topology));
  if (options.topology.contains('/') || options.topology.ends_with(".toml")) {
    return fail(ErrorCode::kInvalidArgument,
                "--topology: '{}' is a file of this machine, which the image has not: give the "
                "name of one of `gpemu node topo`",
                options.topology);
  }
  if (options.claims && !options.policy.empty()) {
    return fail(
        ErrorCode::kUnsupported,
        "--claims and --policy: the scheduler counts the GPUs that the device plugin offers, "
        "and knows no claims; leave one out");
  }
  if (options.claims && options.replicas != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "--replicas: claims have no replicas; --divide lets them ask for parts of a GPU");
  }
  if (!options.claims && options.replicas == 1 && options.division != "none") {
    return fail(ErrorCode::kInvalidArgument,
                "--divide: only GPUs with several --replicas can be "
                "divided");
  }
  if (!options.mig.empty()) GPEMU_TRY(check_mig_options(options, machine));
  std::vector<json> all;
  if (options.claims) {
    all = for_claims(options);
  } else if (options.labels) {
    all = account(options, kName, {kMayLabel});
  }
  GPEMU_ASSIGN(all.emplace_back(), daemon_set(options, machine.gpus));
  if (!options.policy.empty()) {
    GPEMU_ASSIGN([[maybe_unused]] const auto* const policy,
                 scheduling::find_policy(options.policy));
    for (json& object : scheduler_of(options)) all.push_back(std::move(object));
  }
  for (const json& object : all) {
    YAML::Emitter out;
    write(out, object);
    report::print_out("{}{}\n", &object == &all.front() ? "" : "---\n", out.c_str());
  }
  return report::finish_output();
}

}  // namespace

void add_manifests_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "manifests",
      "Prints what runs gpemu on each machine of a cluster, for `kubectl apply -f -`: a DaemonSet "
      "with the device plugin, or with the driver of claims. Its image comes from "
      "scripts/build/build_image.py");
  const auto options = std::make_shared<ManifestOptions>();
  add_gpu_options(command, options->gpus, options->topology);
  command.option("--image", options->image, "The image's name").show_default();
  command.option("--namespace", options->name_space, "Where the pods are").show_default();
  command.option("--nodes", options->nodes, "LABEL=VALUE of the machines; by default all");
  command.option("--resource", options->resource, "What pods ask for").show_default();
  command.option("--replicas", options->replicas, "So many containers can share a GPU")
      .range(1, 64)
      .show_default();
  command.option("--divide", options->division, "What a replica is, as for `device-plugin`")
      .one_of({"none", "share", "limit"})
      .show_default();
  command
      .option("--mig", options->mig,
              "MIG divides each GPU into these instances, as for `device-plugin`")
      .separated_by(',')
      .placeholder("PROFILE[:COUNT]")
      .excludes("--replicas");
  command.flag("--labels", options->labels,
               "The machines' nodes get the labels of NVIDIA's GPU feature discovery, too");
  command.flag("--claims", options->claims,
               "In place of the device plugin, `dra-driver`, with its account and the device class "
               "gpu.nvidia.com");
  command.option("--policy", options->policy,
                 "Also `scheduler` with this policy: two instances, of which one leads");
  command.flag("--metrics", options->metrics, "With metrics for Prometheus, at port 9400");
  command.notes(
      "Examples:\n"
      "  gpemu-kubernetes manifests --gpu A100-SXM4-40GB:8 | kubectl apply -f -\n"
      "  gpemu-kubernetes manifests --topology dgx-a100 --mig 3g.20gb:2 --labels\n"
      "  gpemu-kubernetes manifests --gpu V100-PCIE-32GB --replicas 4 --divide limit --metrics\n"
      "  gpemu-kubernetes manifests --gpu H100-SXM5-80GB:8 --claims\n"
      "  gpemu-kubernetes manifests --gpu A100-SXM4-40GB:8 --policy srtf-synergy\n");
  command.on_run([options, command] {
    options->has_resource = command.given("--resource");
    return run(*options);
  });
}

}  // namespace gpemu::tools
