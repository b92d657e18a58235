// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/device/node_view.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

/// How processes share the devices of a node that a command creates, as its options say.
struct SharingOptions {
  std::string policy = "time-slices";
  /// As usual for each GPU if they are negative.
  double time_slice_ms = -1;
  double context_switch_ms = -1;

  /// Writes what the options say into a node's description.
  void apply_to(device::NodeConfig& config) const;
};

/// Adds --sharing, --time-slice and --context-switch to a command. `options` must exist when the
/// command line is parsed. `with_mig`: whether --sharing may be mig, for nodes that stay.
void add_sharing_options(Command& command, SharingOptions& options, bool with_mig = false);

/// Returns what --sharing has to be for a node that is as this one now. Errors: those of reading
/// the node.
[[nodiscard]] Result<std::string_view> sharing_name(const device::NodeView& node);

}  // namespace gpemu::tools
