// SPDX-License-Identifier: Apache-2.0
#include "node/power_command.hpp"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

struct PowerOptions {
  std::string name;
  int device = -1;        ///< -1: all.
  double limit_w = -1;    ///< -1: as it is.
  double clock_mhz = -1;  ///< likewise.
};

Result<void> change(const PowerOptions& options, const World& world) {
  GPEMU_ASSIGN(const auto node, device::Node::open(options.name, world.nodes));
  if (options.device >= node->device_count()) {
    return fail(ErrorCode::kInvalidArgument, "node '{}' has no device {}: its devices are 0 to {}",
                node->name(), options.device, node->device_count() - 1);
  }
  for (int i = 0; i < node->device_count(); ++i) {
    if (options.device >= 0 && i != options.device) continue;
    const TimePoint now = node->clock().now();
    if (options.limit_w >= 0) GPEMU_TRY(node->settings(i).set_power_limit(options.limit_w, now));
    if (options.clock_mhz >= 0) GPEMU_TRY(node->settings(i).lock_clock(options.clock_mhz, now));
  }
  return {};
}

Result<void> show(const PowerOptions& options, const World& world) {
  GPEMU_ASSIGN(const auto node, device::NodeView::open(options.name, world.nodes));
  report::TextTable table({"device", "gpu", "limit / W", "from", "to", "clock / MHz", "why"});
  const TimePoint now = node->clock().now();
  for (int i = 0; i < node->device_count(); ++i) {
    if (options.device >= 0 && i != options.device) continue;
    GPEMU_ASSIGN(const device::DeviceSnapshot device, node->device_snapshot(i, now));
    const device::PowerSnapshot& power = device.power;
    table.add_row({fmt::to_string(i), device.gpu, fmt::format("{:.0f}", power.limit_w),
                   fmt::format("{:.0f}", power.min_limit_w),
                   fmt::format("{:.0f}", device.max_power_w),
                   fmt::format("{:.0f}", power.clock * device.facts.boost_clock_mhz),
                   power.capped                 ? "the power limit"
                   : power.locked_clock_mhz > 0 ? "locked"
                                                : "the highest"});
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
  return {};
}

}  // namespace

void add_power_command(Command node, const World& world) {
  auto options = std::make_shared<PowerOptions>();
  Command power = node.subcommand(
      "power", "Show or change the power limits and clocks of a node, even while programs use it");
  power.option("name", options->name, "NAME, or USER/NAME for another user's node").required();
  power.option("-i,--device", options->device, "Only the device with this index").non_negative();
  power.option("--limit", options->limit_w, "Limit the power, in W; 0: to the board's own limit")
      .non_negative();
  power.option("--clock", options->clock_mhz, "Lock the SM clock, in MHz; 0: unlock it")
      .non_negative();
  power.notes(
      "A GPU whose power is limited runs kernels at a lower clock, so they take longer.\n"
      "docs/design/power.md has the equations.\n\n"
      "Examples:\n"
      "  gpemu node power n0\n"
      "  gpemu node power n0 --limit 150\n"
      "  gpemu node power n0 -i 1 --clock 1000\n"
      "  gpemu node power n0 --limit 0 --clock 0");
  power.on_run([options, &world] {
    return options->limit_w < 0 && options->clock_mhz < 0 ? show(*options, world)
                                                          : change(*options, world);
  });
}

}  // namespace gpemu::tools
