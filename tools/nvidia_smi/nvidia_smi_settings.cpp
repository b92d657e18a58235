// SPDX-License-Identifier: Apache-2.0
#include "nvidia_smi/nvidia_smi_settings.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"

#include "mig/mig_gpus.hpp"

namespace gpemu::tools {
namespace {

constexpr std::string_view kWarning = "Treating as warning and moving on.\n";
constexpr std::string_view kAllDone = "All done.\n";

/// A value of a setting, as a number or as a word in any case.
template <typename Value>
struct NamedValue {
  std::string_view number, word;
  Value value;
};

template <typename Value, std::size_t Size>
Result<NamedValue<Value>> read_named(const NamedValue<Value> (&known)[Size],
                                     std::string_view option, const std::string& text) {
  std::string upper = text;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string all;
  for (const NamedValue<Value>& one : known) {
    if (one.number == upper || one.word == upper) return one;
    all += fmt::format("{}{}/{}", all.empty() ? "" : ", ", one.number, one.word);
  }
  return fail(ErrorCode::kInvalidArgument, "{} '{}': give one of {}", option, printable(text), all);
}

constexpr NamedValue<device::ComputeMode> kComputeModes[] = {
    {"0", "DEFAULT", device::ComputeMode::kDefault},
    {"2", "PROHIBITED", device::ComputeMode::kProhibited},
    {"3", "EXCLUSIVE_PROCESS", device::ComputeMode::kExclusiveProcess}};

constexpr NamedValue<bool> kSwitches[] = {{"0", "DISABLED", false}, {"1", "ENABLED", true}};

constexpr NamedValue<device::TimeSliceLength> kTimeSlices[] = {
    {"0", "DEFAULT", device::TimeSliceLength::kDefault},
    {"1", "SHORT", device::TimeSliceLength::kShort},
    {"2", "MEDIUM", device::TimeSliceLength::kMedium},
    {"3", "LONG", device::TimeSliceLength::kLong}};

std::string_view word_of(device::TimeSliceLength length) {
  return std::ranges::find(kTimeSlices, length, &NamedValue<device::TimeSliceLength>::value)->word;
}

Result<std::string> change_compute_mode(device::Node& node, std::span<const SmiDevice> devices,
                                        const std::string& value) {
  if (value == "1" || value == "EXCLUSIVE_THREAD") {
    return fail(ErrorCode::kUnsupported,
                "-c {}: no driver has EXCLUSIVE_THREAD any more; use 3/EXCLUSIVE_PROCESS", value);
  }
  GPEMU_ASSIGN(const auto mode, read_named(kComputeModes, "-c", value));
  std::string text;
  for (const SmiDevice& device : devices) {
    const std::string gpu = bus_id_text(device.now);
    if (device.now.compute_mode == mode.value) {
      text += fmt::format("Compute mode is already set to {} for GPU {}.\n", mode.word, gpu);
      continue;
    }
    GPEMU_TRY(node.settings(device.now.index).set_compute_mode(mode.value));
    text += fmt::format("Set compute mode to {} for GPU {}.\n", mode.word, gpu);
  }
  return text;
}

/// Switches MIG on or off for a device. Source of the words: NVIDIA Multi-Instance GPU User Guide.
Result<std::string> switch_mig(device::Node& node, const SmiDevice& device, bool on,
                               const World& world, bool& has_warning) {
  const std::string gpu = bus_id_text(device.now);
  if (!on && device.now.mig == device::MigMode{} && mig_mode_text(device) != "N/A") {
    return fmt::format("Disabled MIG Mode for GPU {}\n", gpu);
  }
  GPEMU_ASSIGN(const profile::GpuSpec spec, find_gpu_spec(device.now.gpu, world));
  const auto mode = node.mig(device.now.index).set_mode(spec.mig_profiles, on);
  if (mode && mode->divided == on) {
    return fmt::format("{} MIG Mode for GPU {}\n", on ? "Enabled" : "Disabled", gpu);
  }
  if (!mode && mode.error().code != ErrorCode::kUnsupported) return std::unexpected(mode.error());
  has_warning = true;
  if (!mode) {
    return fmt::format("Unable to {} MIG Mode for GPU {}: Not Supported\n{}",
                       on ? "enable" : "disable", gpu, kWarning);
  }
  return fmt::format(
      "Warning: MIG mode is in pending {} state for GPU {}:In use by another client\n"
      "{} is currently being used by one or more other processes. End them and repeat the "
      "command.\n",
      on ? "enable" : "disable", gpu, gpu);
}

Result<std::string> change_mig_mode(device::Node& node, std::span<const SmiDevice> devices,
                                    const std::string& value, const World& world,
                                    bool& has_warning) {
  GPEMU_ASSIGN(const auto mode, read_named(kSwitches, "-mig", value));
  std::string text;
  for (const SmiDevice& device : devices) {
    GPEMU_ASSIGN(const std::string line, switch_mig(node, device, mode.value, world, has_warning));
    text += line;
  }
  return text;
}

Result<std::string> change_persistence(std::span<const SmiDevice> devices, const std::string& value,
                                       bool& has_warning) {
  GPEMU_ASSIGN(const auto mode, read_named(kSwitches, "-pm", value));
  std::string text;
  for (const SmiDevice& device : devices) {
    const std::string gpu = bus_id_text(device.now);
    if (mode.value) {
      text += fmt::format("Persistence mode is already Enabled for GPU {}.\n", gpu);
      continue;
    }
    text +=
        fmt::format("Unable to set persistence mode for GPU {}: Not Supported\n{}", gpu, kWarning);
    has_warning = true;
  }
  return text;
}

/// Limits the power, in W.
Result<std::string> change_power_limit(device::Node& node, std::span<const SmiDevice> devices,
                                       const std::string& value) {
  double limit_w = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, limit_w);
  if (error != std::errc() || stop != end) {
    return fail(ErrorCode::kInvalidArgument, "-pl '{}': give a power in W", printable(value));
  }
  std::string text;
  for (const SmiDevice& device : devices) {
    const std::string gpu = bus_id_text(device.now);
    const device::PowerSnapshot& power = device.now.power;
    // For the node, 0 stands for the board's own limit.
    if (!(limit_w >= power.min_limit_w && limit_w <= device.now.max_power_w)) {
      return fail(
          ErrorCode::kInvalidArgument,
          "Provided power limit {:.2f} W is not a valid power limit which should be between "
          "{:.2f} W and {:.2f} W for GPU {}",
          limit_w, power.min_limit_w, device.now.max_power_w, gpu);
    }
    GPEMU_TRY(node.settings(device.now.index).set_power_limit(limit_w, node.clock().now()));
    text += fmt::format("Power limit for GPU {} was set to {:.2f} W from {:.2f} W.\n", gpu, limit_w,
                        power.limit_w);
  }
  return text;
}

/// What nvidia-smi prints for a setting that a device does not have, before the device.
struct UnsupportedSetting {
  std::string_view option, text;
};
constexpr UnsupportedSetting kUnsupportedSettings[] = {
    {"-e", "Changing ECC mode is not supported for GPU"},
    {"-p", "Resetting ECC errors is not supported for GPU"},
    {"--gom", "Changing GPU operation mode is not supported for GPU"},
    {"-r", "Resetting is not supported for GPU"},
    {"-lgc", "Setting locked GPU clocks is not supported for GPU"},
    {"-rgc", "Resetting GPU clocks is not supported for GPU"},
    {"-lmc", "Setting locked Memory clocks is not supported for GPU"},
    {"-rmc", "Resetting Memory clocks is not supported for GPU"},
    {"-ac", "Setting applications clocks is not supported for GPU"},
    {"-rac", "Resetting applications clocks is not supported for GPU"},
    {"-cc", "Overriding CUDA clocks is not supported for GPU"},
    {"-am", "Changing accounting mode is not supported for GPU"},
    {"-gtt", "Setting GPU target temperature is not supported for GPU"}};

std::string unsupported_text(std::span<const SmiDevice> devices, std::string_view option) {
  const auto* const found =
      std::ranges::find(kUnsupportedSettings, option, &UnsupportedSetting::option);
  std::string text;
  for (const SmiDevice& device : devices) {
    text +=
        fmt::format("{} {}.\n{}", found == std::end(kUnsupportedSettings) ? option : found->text,
                    bus_id_text(device.now), kWarning);
  }
  return text;
}

}  // namespace

Result<SmiChange> change_setting(device::Node& node, std::span<const SmiDevice> devices,
                                 const SmiSetting& setting, bool error_on_warning,
                                 const World& world) {
  SmiChange change;
  bool has_warning = false;
  if (setting.option == "-c") {
    GPEMU_ASSIGN(change.text, change_compute_mode(node, devices, setting.value));
  } else if (setting.option == "-mig") {
    GPEMU_ASSIGN(change.text, change_mig_mode(node, devices, setting.value, world, has_warning));
  } else if (setting.option == "-pl") {
    GPEMU_ASSIGN(change.text, change_power_limit(node, devices, setting.value));
  } else if (setting.option == "-pm") {
    GPEMU_ASSIGN(change.text, change_persistence(devices, setting.value, has_warning));
  } else {
    change.text = unsupported_text(devices, setting.option);
    has_warning = true;
  }
  change.text += kAllDone;
  if (has_warning && error_on_warning) change.code = kSmiNotSupported;
  return change;
}

Result<SmiChange> change_time_slice(device::Node& node, std::span<const SmiDevice> devices,
                                    const std::string& value) {
  GPEMU_ASSIGN(const auto length, read_named(kTimeSlices, "--set-timeslice", value));
  SmiChange change;
  for (const SmiDevice& device : devices) {
    const std::string gpu = bus_id_text(device.now);
    const Result<void> changed = node.settings(device.now.index).set_time_slice(length.value);
    if (!changed && changed.error().code != ErrorCode::kUnsupported) {
      return std::unexpected(changed.error());
    }
    if (!changed) change.code = kSmiNotSupported;
    change.text += changed
                       ? fmt::format("Set time slice to {} for GPU {}.\n", length.word, gpu)
                       : fmt::format("Unable to set time slice for GPU {}: Not Supported\n", gpu);
  }
  if (change.code == kSmiSuccess) change.text += kAllDone;
  return change;
}

std::string compute_policies_text(std::span<const SmiDevice> devices) {
  std::string text =
      "+-------------------------------------------------+\n"
      "| GPU compute policies:                           |\n"
      "| GPU   Policy                  Value             |\n"
      "|=================================================|\n";
  for (const SmiDevice& device : devices) {
    text += fmt::format("| {:>3}   {:<22}  {:<18}|\n", device.now.index, "TIMESLICE",
                        device.divided ? "N/A" : word_of(device.now.time_slice));
  }
  return text + "+-------------------------------------------------+\n";
}

}  // namespace gpemu::tools
