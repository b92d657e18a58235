// SPDX-License-Identifier: Apache-2.0
#include "cli/sharing_options.hpp"

#include <array>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

using device::SharingPolicy;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::array<std::pair<std::string_view, SharingPolicy>, 7> kPolicies = {
    {{"time-slices", SharingPolicy::kTimeSlices},
     {"mps", SharingPolicy::kMps},
     {"fifo", SharingPolicy::kFifo},
     {"mig", SharingPolicy::kMig},
     {"antman", SharingPolicy::kAntMan},
     {"tgs", SharingPolicy::kTgs},
     {"orion", SharingPolicy::kOrion}}};

/// Time slices with a compute mode.
constexpr std::string_view kExclusive = "exclusive";

double to_ms(Duration time) {
  return Milliseconds(time).count();
}

std::optional<Duration> from_ms(double ms) {
  if (ms < 0) return std::nullopt;
  return std::chrono::round<Duration>(Milliseconds(ms));
}

}  // namespace

void SharingOptions::apply_to(device::NodeConfig& config) const {
  for (const auto& [name, value] : kPolicies) {
    if (name == policy) config.policy = value;
  }
  if (policy == kExclusive) {
    config.policy = SharingPolicy::kTimeSlices;
    config.compute_mode = device::ComputeMode::kExclusiveProcess;
  }
  config.slices = {.quantum = from_ms(time_slice_ms), .context_switch = from_ms(context_switch_ms)};
}

void add_sharing_options(Command& command, SharingOptions& options, bool with_mig) {
  constexpr std::array<std::string_view, 8> kNames = {"time-slices", "mps", "fifo",  kExclusive,
                                                      "antman",      "tgs", "orion", "mig"};
  command
      .option("--sharing", options.policy,
              fmt::format("How processes share a GPU: time-slices: one after the other, as the "
                          "driver does it; mps: side by side, as clients of MPS; fifo: kernels run "
                          "in the order in which they are queued; exclusive: one process, as with "
                          "`nvidia-smi -c EXCLUSIVE_PROCESS`; antman, tgs, orion: as the systems "
                          "of these names hold back processes with GPEMU_GPU_PRIORITY=low{}",
                          with_mig ? "; mig: on the MIG devices that `gpemu mig` makes" : ""))
      .one_of(std::span(kNames).first(with_mig ? 8 : 7))
      .show_default();
  command
      .option("--time-slice", options.time_slice_ms,
              "Length of a time slice, in ms; by default as `gpemu profile show --gpu GPU` says")
      .real_range(to_ms(device::kShortestQuantum), to_ms(device::kLongestQuantum));
  command
      .option("--context-switch", options.context_switch_ms,
              "Idle time of the GPU before another process's time slice, in ms; by default as "
              "`gpemu profile show --gpu GPU` says")
      .real_range(0, to_ms(device::kLongestQuantum));
}

Result<std::string_view> sharing_name(const device::NodeView& node) {
  bool is_exclusive = node.policy() == SharingPolicy::kTimeSlices;
  for (int i = 0; i < node.device_count(); ++i) {
    GPEMU_ASSIGN(const device::DeviceSnapshot device, node.device_snapshot(i, node.clock().now()));
    if (device.compute_mode != device::ComputeMode::kExclusiveProcess) is_exclusive = false;
  }
  if (is_exclusive) return kExclusive;
  for (const auto& [name, value] : kPolicies) {
    if (value == node.policy()) return name;
  }
  return "unknown";
}

}  // namespace gpemu::tools
