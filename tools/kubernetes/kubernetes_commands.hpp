// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"

namespace gpemu::tools {

// Each adds a command of `gpemu-kubernetes`.
void add_cdi_command(Command kubernetes);
void add_device_plugin_command(Command kubernetes);
void add_doctor_command(Command kubernetes);
void add_dra_driver_command(Command kubernetes);
void add_hollow_nodes_command(Command kubernetes);
void add_labels_command(Command kubernetes);
void add_manifests_command(Command kubernetes);
void add_metrics_command(Command kubernetes);
void add_replay_command(Command kubernetes);
void add_scheduler_command(Command kubernetes);

}  // namespace gpemu::tools
