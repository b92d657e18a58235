// SPDX-License-Identifier: Apache-2.0
//
// What Kubernetes needs to run pods on emulated GPUs: a program of its own, because gRPC and
// Protocol Buffers take longer to load than most of gpemu's commands run.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "gpemu/report/terminal.hpp"

#include "cli/command_tree.hpp"
#include "kubernetes/kubernetes_commands.hpp"

namespace gpemu::tools {
namespace {

int run_program(std::vector<std::string> words) {
  CommandTree commands("Emulated GPUs for Kubernetes (docs/how-to/kubernetes.md)",
                       "gpemu-kubernetes");
  commands.root().require_subcommand();
  add_cdi_command(commands.root());
  add_device_plugin_command(commands.root());
  add_doctor_command(commands.root());
  add_dra_driver_command(commands.root());
  add_hollow_nodes_command(commands.root());
  add_labels_command(commands.root());
  add_manifests_command(commands.root());
  add_metrics_command(commands.root());
  add_replay_command(commands.root());
  add_scheduler_command(commands.root());
  const auto code = commands.run(std::move(words));
  if (code) return *code;
  report::print_error("gpemu-kubernetes: {}\n", code.error().message);
  return exit_code(code.error().code);
}

}  // namespace
}  // namespace gpemu::tools

int main(int argc, char** argv) {
  return gpemu::tools::run_program({argv + std::min(argc, 1), argv + argc});
}
