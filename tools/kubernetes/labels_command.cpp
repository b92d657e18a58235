// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/containers/node_labels.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cli/device_list.hpp"
#include "kubernetes/api_server.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/pool_options.hpp"

namespace gpemu::tools {
namespace {

struct LabelOptions {
  std::vector<std::string> gpus, mig;
  std::string output, node, kubeconfig;
  int replicas = 1;
  bool single = false;
};

using NodeLabels = std::map<std::string, std::string>;

/// Gives a node these labels. Others that it has stay.
Result<void> label_node(const LabelOptions& options, const NodeLabels& labels) {
  GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
  GPEMU_ASSIGN(ApiServer server, ApiServer::create(access));
  const auto patched =
      server.patch("/api/v1/nodes/" + options.node, {{"metadata", {{"labels", labels}}}});
  if (!patched) return std::unexpected(patched.error());
  report::print_error("gpemu-kubernetes: the node {} has {} labels\n", options.node, labels.size());
  return {};
}

Result<void> run(const LabelOptions& options) {
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  GPEMU_ASSIGN(const auto gpus, read_device_list(database, options.gpus));
  NodeLabels labels = containers::node_labels(gpus, options.replicas);
  if (!options.mig.empty()) {
    GPEMU_ASSIGN(const std::vector<std::string> instances, read_mig_profiles(options.mig));
    GPEMU_ASSIGN(const std::vector<profile::MigProfile> profiles,
                 mig_profiles_of(database, options.gpus));
    GPEMU_ASSIGN(labels, containers::mig_node_labels(gpus, profiles, instances, !options.single));
  }
  if (!options.node.empty()) return label_node(options, labels);
  std::string text;
  for (const auto& [name, value] : labels) text += name + "=" + value + "\n";
  if (!options.output.empty()) return write_file_atomically(options.output, text);
  report::print_out("{}", text);
  return report::finish_output();
}

}  // namespace

void add_labels_command(Command kubernetes) {
  Command command = kubernetes.subcommand("labels",
                                          "Labels a machine's node as NVIDIA's GPU feature "
                                          "discovery does, prints the labels, or writes "
                                          "them for node feature discovery");
  const auto options = std::make_shared<LabelOptions>();
  command.option("--gpu", options->gpus, "NAME[:COUNT] as in `gpemu profile list`; repeat it")
      .required();
  command.option("--replicas", options->replicas, "So many containers can share a GPU")
      .range(1, 64)
      .show_default();
  command
      .option("--mig", options->mig,
              "MIG divides each GPU into these instances, as for `device-plugin`")
      .separated_by(',')
      .placeholder("PROFILE[:COUNT]")
      .excludes("--replicas");
  command.flag("--single", options->single,
               "MIG devices have the GPUs' labels, as if `device-plugin` gives them one name");
  command.option("--node", options->node, "The name of the node to label");
  command
      .option("--kubeconfig", options->kubeconfig,
              "How the API server is reached; by default as kubectl and pods find it")
      .needs("--node");
  command.option("--output", options->output, "A file instead").excludes("--node");
  command.notes(
      "Examples:\n"
      "  gpemu-kubernetes labels --gpu A100-SXM4-40GB:8 --node n1\n"
      "  gpemu-kubernetes labels --gpu A100-SXM4-40GB:8 --output "
      "/etc/kubernetes/node-feature-discovery/features.d/gpemu\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
