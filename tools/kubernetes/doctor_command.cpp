// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpemu/containers/container_edits.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "kubernetes/cluster_checks.hpp"
#include "kubernetes/kubernetes_commands.hpp"

namespace gpemu::tools {
namespace {

struct DoctorOptions {
  std::filesystem::path kubeconfig;
  std::string installation = containers::kInstallation;
  std::string kubelet = "/var/lib/kubelet";
  bool machine = false;
};

/// Looks at this machine for what its kubelet and its containers need.
std::vector<Finding> check_machine(const DoctorOptions& options) {
  std::vector<Finding> findings;
  const auto edits = containers::edits_for(options.installation, options.kubelet, options.kubelet);
  findings.push_back({.is_fault = !edits,
                      .text = edits ? "gpemu for containers is in " + options.installation
                                    : edits.error().message});
  std::error_code error;
  const auto sockets = std::filesystem::path(options.kubelet) / "device-plugins";
  const bool has_kubelet = std::filesystem::exists(sockets / "kubelet.sock", error);
  findings.push_back(
      {.is_fault = !has_kubelet,
       .text = has_kubelet ? "a kubelet takes device plugins at " + sockets.string()
                           : fmt::format("{} has no kubelet.sock: no kubelet runs here, or its "
                                         "folder is another one (--kubelet)",
                                         sockets.string())});
  return findings;
}

Result<int> run(const DoctorOptions& options) {
  std::vector<Finding> findings;
  if (options.machine) {
    findings = check_machine(options);
  } else {
    GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
    GPEMU_ASSIGN(ApiServer server, ApiServer::create(access));
    GPEMU_ASSIGN(findings, check_cluster(server));
  }
  for (const Finding& finding : findings) {
    report::print_out("{}  {}\n", finding.is_fault ? "FAULT" : "ok   ", finding.text);
  }
  GPEMU_TRY(report::finish_output());
  return std::ranges::any_of(findings, &Finding::is_fault) ? 1 : 0;
}

}  // namespace

void add_doctor_command(Command kubernetes) {
  Command command = kubernetes.subcommand("doctor",
                                          "Says what keeps the pods of a cluster from their GPUs: "
                                          "a line for each thing looked at. Ends "
                                          "with 1 if there is a fault");
  const auto options = std::make_shared<DoctorOptions>();
  command.option("--kubeconfig", options->kubeconfig,
                 "How to reach the API server; by default as kubectl does, or a pod's account");
  command.flag("--machine", options->machine,
               "Look at this machine, for its kubelet, in place of the cluster");
  command
      .option("--installation", options->installation,
              "With --machine: where gpemu is installed for containers")
      .show_default();
  command.option("--kubelet", options->kubelet, "With --machine: the kubelet's folder")
      .show_default();
  command.notes(
      "Examples:\n"
      "  gpemu-kubernetes doctor\n"
      "  sudo gpemu-kubernetes doctor --machine\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
