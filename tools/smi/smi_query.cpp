// SPDX-License-Identifier: Apache-2.0
#include "smi/smi_query.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"

namespace gpemu::tools {
namespace {

/// The data from which a field is computed; `process` is null in a query of devices.
struct Row {
  const SmiSample& sample;
  const SmiDevice& device;
  const device::ProcessSnapshot* process = nullptr;
};

struct Field {
  std::string_view name;   ///< the heading.
  std::string_view other;  ///< another name that is understood; "" for none.
  std::string_view unit;   ///< "" for none.
  std::string (*value)(const Row& row);
};

constexpr std::string_view kNotAvailable = "[N/A]";

std::string not_available(const Row& /*row*/) {
  return std::string(kNotAvailable);
}

/// Some fields of nvidia-smi have no brackets.
std::string plainly_not_available(const Row& /*row*/) {
  return "N/A";
}

/// What nvidia-smi answers since driver 580 for what NVML no longer has.
std::string deprecated(const Row& /*row*/) {
  return "[Requested functionality has been deprecated]";
}

/// A whole number, or "[N/A]" if it is not known, which is 0.
std::string known(double value) {
  return value > 0 ? fmt::format("{:.0f}", value) : std::string(kNotAvailable);
}

std::string watts(double power) {
  return power > 0 ? watts_text(power) : std::string(kNotAvailable);
}

/// The share of the time for which something worked, in percent. NVML has none of a GPU that MIG
/// divides.
std::string utilization(const Row& row, double share) {
  return row.device.divided ? std::string(kNotAvailable) : fmt::format("{:.0f}", 100 * share);
}

std::string unused_engine(const Row& row) {
  return utilization(row, 0);
}

std::string active_text(const Row& row, unsigned reason) {
  return (clock_reasons(row.device) & reason) != 0 ? "Active" : "Not Active";
}

std::string hex_of(unsigned number, int digits) {
  return fmt::format("0x{:0{}X}", number, digits);
}

std::string mig_mode(const Row& row) {
  const std::string mode = mig_mode_text(row.device);
  return mode == "N/A" ? std::string(kNotAvailable) : mode;
}

std::string pending_mig_mode(const Row& row) {
  const std::string mode = mig_mode_text(row.device, row.device.now.mig.pending);
  return mode == "N/A" ? std::string(kNotAvailable) : mode;
}

std::string compute_capability(const Row& row) {
  const device::GpuFacts& facts = row.device.now.facts;
  return fmt::format("{}.{}", facts.compute_capability_major, facts.compute_capability_minor);
}

std::string product_name(const Row& row) {
  return name_of(row.device.now);
}

std::string uuid_of(const Row& row) {
  return row.device.now.uuid;
}

std::string bus_id_of(const Row& row) {
  return bus_id_text(row.device.now);
}

std::string sm_clock(const Row& row) {
  return known(row.device.load.sm_clock_mhz);
}

std::string max_sm_clock(const Row& row) {
  return known(row.device.now.facts.boost_clock_mhz);
}

std::string memory_clock(const Row& row) {
  return known(row.device.now.facts.memory_clock_mhz);
}

std::string pcie_generation(const Row& row) {
  return known(row.device.now.facts.pcie_generation);
}

std::string pcie_lanes(const Row& row) {
  return known(row.device.now.facts.pcie_lanes);
}

std::string power(const Row& row) {
  return watts(row.device.load.power_w);
}

std::string power_limit(const Row& row) {
  return watts(row.device.now.power.limit_w);
}

std::string max_power_limit(const Row& row) {
  return watts(row.device.now.max_power_w);
}

std::string timestamp(const Row& row) {
  return row.sample.time;
}

std::string driver_version(const Row& /*row*/) {
  return device::kDriverVersion;
}

std::string disabled(const Row& /*row*/) {
  return "Disabled";
}

// The names, their order and their units are those of `nvidia-smi --help-query-gpu` 595.80; `node`
// is ours.
constexpr Field kDeviceFields[] = {
    {"timestamp", "", "", timestamp},
    {"driver_version", "", "", driver_version},
    {"kmd_version", "", "", driver_version},
    {"node", "", "", [](const Row& row) { return row.device.node; }},
    {"vgpu_driver_capability.heterogenous_multivGPU", "", "", not_available},
    {"count", "", "",
     [](const Row& row) {
       return fmt::to_string(row.sample.all.value_or(row.sample.devices.size()));
     }},
    {"name", "gpu_name", "", product_name},
    {"serial", "gpu_serial", "", not_available},
    {"uuid", "gpu_uuid", "", uuid_of},
    {"pci.bus_id", "gpu_bus_id", "", bus_id_of},
    {"pci.domain", "", "", [](const Row& row) { return hex_of(pci_of(row.device.now).domain, 4); }},
    {"pci.bus", "", "", [](const Row& row) { return hex_of(pci_of(row.device.now).bus, 2); }},
    {"pci.device", "", "", [](const Row& row) { return hex_of(pci_of(row.device.now).device, 2); }},
    {"pci.baseClass", "", "", [](const Row&) { return std::string("0x3"); }},
    {"pci.subClass", "", "", [](const Row&) { return std::string("0x2"); }},
    {"pci.device_id", "", "", not_available},
    {"pci.sub_device_id", "", "", not_available},
    {"vgpu_device_capability.fractional_multiVgpu", "", "", not_available},
    {"vgpu_device_capability.heterogeneous_timeSlice_profile", "", "", not_available},
    {"vgpu_device_capability.heterogeneous_timeSlice_sizes", "", "", not_available},
    {"vgpu_device_capability.homogeneous_placements", "", "", not_available},
    {"vgpu_device_capability.mig_timeSlicing", "", "", not_available},
    {"vgpu_device_capability.mig_timeSlicing_mode", "", "", not_available},
    {"pcie.link.gen.current", "", "", pcie_generation},
    {"pcie.link.gen.gpucurrent", "", "", pcie_generation},
    {"pcie.link.gen.max", "", "", pcie_generation},
    {"pcie.link.gen.gpumax", "", "", pcie_generation},
    {"pcie.link.gen.hostmax", "", "", not_available},
    {"pcie.link.width.current", "", "", pcie_lanes},
    {"pcie.link.width.max", "", "", pcie_lanes},
    {"index", "", "", [](const Row& row) { return fmt::to_string(row.device.now.index); }},
    {"display_mode", "", "", deprecated},
    {"display_attached", "", "", [](const Row&) { return std::string("No"); }},
    {"display_active", "", "", disabled},
    {"persistence_mode", "", "", [](const Row&) { return std::string("Enabled"); }},
    {"addressing_mode", "", "", not_available},
    {"accounting.mode", "", "", disabled},
    {"accounting.buffer_size", "", "", not_available},
    {"driver_model.current", "", "", not_available},
    {"driver_model.pending", "", "", not_available},
    {"vbios_version", "", "", not_available},
    {"inforom.img", "inforom.image", "", not_available},
    {"inforom.oem", "", "", not_available},
    {"inforom.ecc", "", "", not_available},
    {"inforom.pwr", "inforom.power", "", not_available},
    {"inforom.checksum_validation", "", "", not_available},
    {"gpu_recovery_action", "", "", not_available},
    {"gom.current", "gpu_operation_mode.current", "", not_available},
    {"gom.pending", "gpu_operation_mode.pending", "", not_available},
    {"fan.speed", "", "%", not_available},
    {"pstate", "", "",
     [](const Row& row) { return fmt::format("P{}", row.device.load.performance_state); }},
    {"clocks_event_reasons.supported", "clocks_throttle_reasons.supported", "",
     [](const Row&) { return fmt::format("0x{:016X}", kGpuIdle | kSwPowerCap | kHwSlowdown); }},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", "",
     [](const Row& row) { return fmt::format("0x{:016X}", clock_reasons(row.device)); }},
    {"clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle", "",
     [](const Row& row) { return active_text(row, kGpuIdle); }},
    {"clocks_event_reasons.applications_clocks_setting",
     "clocks_throttle_reasons.applications_clocks_setting", "", not_available},
    {"clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap", "",
     [](const Row& row) { return active_text(row, kSwPowerCap); }},
    {"clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown", "",
     [](const Row& row) { return active_text(row, kHwSlowdown); }},
    {"clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown", "",
     not_available},
    {"clocks_event_reasons.hw_power_brake_slowdown",
     "clocks_throttle_reasons.hw_power_brake_slowdown", "", not_available},
    {"clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown", "",
     not_available},
    {"clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost", "", not_available},
    {"clocks_event_reasons_counters.sw_power_cap", "", "us", not_available},
    {"clocks_event_reasons_counters.sync_boost", "", "us", not_available},
    {"clocks_event_reasons_counters.sw_thermal_slowdown", "", "us", not_available},
    {"clocks_event_reasons_counters.hw_thermal_slowdown", "", "us", not_available},
    {"clocks_event_reasons_counters.hw_power_brake_slowdown", "", "us", not_available},
    {"memory.total", "", "MiB",
     [](const Row& row) { return mib_text(board_memory(row.device.now)); }},
    {"memory.reserved", "", "MiB",
     [](const Row& row) { return mib_text(row.device.now.facts.reserved_memory_bytes); }},
    {"memory.used", "", "MiB", [](const Row& row) { return mib_text(row.device.now.memory_used); }},
    {"memory.free", "", "MiB",
     [](const Row& row) {
       return mib_text(row.device.now.memory_total - row.device.now.memory_used);
     }},
    {"compute_mode", "", "",
     [](const Row& row) { return std::string(compute_mode_word(row.device.now.compute_mode)); }},
    {"compute_cap", "", "", compute_capability},
    {"utilization.gpu", "", "%",
     [](const Row& row) { return utilization(row, row.device.load.compute); }},
    {"utilization.memory", "", "%",
     [](const Row& row) { return utilization(row, copy_share(row.device.load)); }},
    {"utilization.encoder", "", "%", unused_engine},
    {"utilization.decoder", "", "%", unused_engine},
    {"utilization.jpeg", "", "%", unused_engine},
    {"utilization.ofa", "", "%", unused_engine},
    {"encoder.stats.sessionCount", "", "", not_available},
    {"encoder.stats.averageFps", "", "", not_available},
    {"encoder.stats.averageLatency", "", "", not_available},
    {"dramEncryption.mode.current", "", "", not_available},
    {"dramEncryption.mode.pending", "", "", not_available},
    {"ecc.mode.current", "", "", not_available},
    {"ecc.mode.pending", "", "", not_available},
    {"ecc.errors.corrected.volatile.device_memory", "", "", not_available},
    {"ecc.errors.corrected.volatile.dram", "", "", not_available},
    {"ecc.errors.corrected.volatile.register_file", "", "", not_available},
    {"ecc.errors.corrected.volatile.l1_cache", "", "", not_available},
    {"ecc.errors.corrected.volatile.l2_cache", "", "", not_available},
    {"ecc.errors.corrected.volatile.texture_memory", "", "", not_available},
    {"ecc.errors.corrected.volatile.cbu", "", "", not_available},
    {"ecc.errors.corrected.volatile.sram", "", "", not_available},
    {"ecc.errors.corrected.volatile.total", "", "", not_available},
    {"ecc.errors.corrected.aggregate.device_memory", "", "", not_available},
    {"ecc.errors.corrected.aggregate.dram", "", "", not_available},
    {"ecc.errors.corrected.aggregate.register_file", "", "", not_available},
    {"ecc.errors.corrected.aggregate.l1_cache", "", "", not_available},
    {"ecc.errors.corrected.aggregate.l2_cache", "", "", not_available},
    {"ecc.errors.corrected.aggregate.texture_memory", "", "", not_available},
    {"ecc.errors.corrected.aggregate.cbu", "", "", not_available},
    {"ecc.errors.corrected.aggregate.sram", "", "", not_available},
    {"ecc.errors.corrected.aggregate.total", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.device_memory", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.dram", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.register_file", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.l1_cache", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.l2_cache", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.texture_memory", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.cbu", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.sram", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.total", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.device_memory", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.dram", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.register_file", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.l1_cache", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.l2_cache", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.texture_memory", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.cbu", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.total", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.sram.parity", "", "", not_available},
    {"ecc.errors.uncorrected.volatile.sram.secded", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.parity", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.secded", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.l2", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.sm", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.mcu", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.pcie", "", "", not_available},
    {"ecc.errors.uncorrected.aggregate.sram.other", "", "", not_available},
    {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", "", not_available},
    {"retired_pages.double_bit.count", "retired_pages.dbe", "", not_available},
    {"retired_pages.pending", "", "", not_available},
    {"remapped_rows.correctable", "remapped_rows.sbe", "", not_available},
    {"remapped_rows.correctable_inactive", "", "", not_available},
    {"remapped_rows.uncorrectable", "remapped_rows.dbe", "", not_available},
    {"remapped_rows.uncorrectable_inactive", "", "", not_available},
    {"remapped_rows.pending", "", "", not_available},
    {"remapped_rows.failure", "", "", not_available},
    {"remapped_rows.histogram.max", "", "", not_available},
    {"remapped_rows.histogram.high", "", "", not_available},
    {"remapped_rows.histogram.partial", "", "", not_available},
    {"remapped_rows.histogram.low", "", "", not_available},
    {"remapped_rows.histogram.none", "", "", not_available},
    {"temperature.gpu", "", "",
     [](const Row& row) { return fmt::format("{:.0f}", row.device.load.temperature_c); }},
    {"temperature.gpu.tlimit", "", "", plainly_not_available},
    {"temperature.memory", "", "", plainly_not_available},
    {"power.management", "", "", deprecated},
    {"power.draw", "", "W", power},
    {"power.draw.average", "gpu.power.draw.average", "W", power},
    {"power.draw.instant", "gpu.power.draw.instant", "W", power},
    {"power.limit", "gpu.power.requested_limit", "W", power_limit},
    {"enforced.power.limit", "gpu.power.current_limit", "W", power_limit},
    {"power.default_limit", "gpu.power.default_limit", "W", max_power_limit},
    {"power.min_limit", "gpu.power.min_limit", "W",
     [](const Row& row) { return watts(row.device.now.power.min_limit_w); }},
    {"power.max_limit", "gpu.power.max_limit", "W", max_power_limit},
    {"module.power.draw.average", "", "W", not_available},
    {"module.power.draw.instant", "", "W", not_available},
    {"module.power.limit", "module.power.requested_limit", "W", not_available},
    {"module.enforced.power.limit", "module.power.current_limit", "W", not_available},
    {"module.power.default_limit", "", "W", not_available},
    {"module.power.min_limit", "", "W", not_available},
    {"module.power.max_limit", "", "W", not_available},
    {"edpp_multiplier", "", "%", not_available},
    {"clocks.current.graphics", "clocks.gr", "MHz", sm_clock},
    {"clocks.current.sm", "clocks.sm", "MHz", sm_clock},
    {"clocks.current.memory", "clocks.mem", "MHz", memory_clock},
    {"clocks.current.video", "clocks.video", "MHz", not_available},
    {"clocks.applications.graphics", "clocks.applications.gr", "MHz", deprecated},
    {"clocks.applications.memory", "clocks.applications.mem", "MHz", deprecated},
    {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz", deprecated},
    {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz", deprecated},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", max_sm_clock},
    {"clocks.max.sm", "", "MHz", max_sm_clock},
    {"clocks.max.memory", "clocks.max.mem", "MHz", memory_clock},
    {"mig.mode.current", "", "", mig_mode},
    {"mig.mode.pending", "", "", pending_mig_mode},
    {"gsp.mode.current", "", "", not_available},
    {"gsp.mode.default", "", "", not_available},
    {"c2c.mode", "", "", not_available},
    {"protected_memory.total", "", "MiB", not_available},
    {"protected_memory.used", "", "MiB", not_available},
    {"protected_memory.free", "", "MiB", not_available},
    {"fabric.state", "", "", plainly_not_available},
    {"fabric.status", "", "", plainly_not_available},
    {"fabric.cliqueId", "", "", plainly_not_available},
    {"fabric.clusterUuid", "", "", plainly_not_available},
    {"fabric.health.summary", "", "", plainly_not_available},
    {"fabric.health.bandwidth", "", "", plainly_not_available},
    {"fabric.health.route_recovery_in_progress", "", "", plainly_not_available},
    {"fabric.health.route_unhealthy", "", "", plainly_not_available},
    {"fabric.health.access_timeout_recovery", "", "", plainly_not_available},
    {"fabric.health.incorrect_configuration", "", "", plainly_not_available},
    {"fabric.health.partition_assigned", "", "", plainly_not_available},
    {"platform.chassis_serial_number", "", "", not_available},
    {"platform.slot_number", "", "", not_available},
    {"platform.tray_index", "", "", not_available},
    {"platform.host_id", "", "", not_available},
    {"platform.peer_type", "", "", not_available},
    {"platform.module_id", "", "", not_available},
    {"platform.gpu_fabric_guid", "", "", not_available},
    {"hostname", "", "", not_available},
};

/// What the driver knows without asking the device. Of a device that has fallen off the bus,
/// nvidia-smi answers every other field with kLost.
constexpr std::string_view kKnownWithoutDevice[] = {
    "timestamp", "node", "driver_version", "kmd_version", "count",   "index",
    "name",      "uuid", "pci.bus_id",     "pci.domain",  "pci.bus", "pci.device"};
constexpr std::string_view kLost = "[GPU is lost]";

// The names are those of `nvidia-smi --help-query-compute-apps`; `node` is ours.
constexpr Field kProcessFields[] = {
    {"timestamp", "", "", timestamp},
    {"node", "", "", [](const Row& row) { return row.device.node; }},
    {"gpu_name", "", "", product_name},
    {"gpu_bus_id", "", "", bus_id_of},
    {"gpu_serial", "", "", not_available},
    {"gpu_uuid", "", "", uuid_of},
    {"pid", "", "", [](const Row& row) { return pid_text(*row.process); }},
    {"process_name", "name", "", [](const Row& row) { return printable(row.process->name); }},
    {"used_gpu_memory", "used_memory", "MiB",
     [](const Row& row) { return mib_text(row.process->memory_held); }},
};

std::span<const Field> fields_of(SmiQuery::Subject subject) {
  if (subject == SmiQuery::Subject::kDevices) return kDeviceFields;
  return kProcessFields;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<CsvFormat> read_csv_format(std::string_view text) {
  CsvFormat format;
  bool is_csv = false;
  for (const std::string_view word : split(text)) {
    if (word == "csv") {
      is_csv = true;
    } else if (word == "noheader") {
      format.header = false;
    } else if (word == "nounits") {
      format.units = false;
    } else {
      return fail(ErrorCode::kInvalidArgument,
                  "--format {}: '{}' is not one of csv, noheader and nounits", text, word);
    }
  }
  if (!is_csv) return fail(ErrorCode::kInvalidArgument, "--format {}: csv is missing", text);
  return format;
}

Result<SmiQuery> SmiQuery::read(Subject subject, std::string_view names, CsvFormat format) {
  SmiQuery query(subject, format);
  const std::span<const Field> fields = fields_of(subject);
  for (const std::string_view name : split(names)) {
    const auto found = std::ranges::find_if(fields, [name](const Field& field) {
      return !name.empty() && (field.name == name || field.other == name);
    });
    if (found == fields.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "Field \"{}\" is not a valid field to query.\nThe fields are:\n{}",
                  printable(name), help(subject));
    }
    query.fields_.push_back(static_cast<std::size_t>(found - fields.begin()));
  }
  return query;
}

std::string SmiQuery::help(Subject subject) {
  std::string text;
  for (const Field& field : fields_of(subject)) {
    text += fmt::format("  {}{}{}\n", field.name, field.other.empty() ? "" : " or ", field.other);
  }
  return text;
}

std::string SmiQuery::names(Subject subject) {
  std::string text;
  for (const Field& field : fields_of(subject)) {
    text += fmt::format("\"{}\"", field.name);
    if (!field.other.empty()) text += fmt::format(" or \"{}\"", field.other);
    text += "\n\n";
  }
  return text;
}

std::string SmiQuery::header() const {
  if (!format_.header) return "";
  std::string line;
  for (const std::size_t place : fields_) {
    const Field& field = fields_of(subject_)[place];
    if (!line.empty()) line += ", ";
    line += field.name;
    if (!field.unit.empty()) line += fmt::format(" [{}]", field.unit);
  }
  return line + "\n";
}

std::string SmiQuery::lines(const SmiSample& sample) const {
  std::string text;
  const auto add = [&](const Row& row) {
    std::string line;
    for (const std::size_t place : fields_) {
      const Field& field = fields_of(subject_)[place];
      const bool lost =
          row.process == nullptr && row.device.now.health.lost &&
          std::ranges::find(kKnownWithoutDevice, field.name) == std::end(kKnownWithoutDevice);
      const std::string value = lost ? std::string(kLost) : printable(field.value(row));
      if (!line.empty()) line += ", ";
      line += value;
      if (format_.units && !field.unit.empty() && !value.starts_with('[') && !lost) {
        line += fmt::format(" {}", field.unit);
      }
    }
    text += line + "\n";
  };
  for (const SmiDevice& device : sample.devices) {
    if (subject_ == Subject::kDevices) {
      add({.sample = sample, .device = device});
      continue;
    }
    for (const device::ProcessSnapshot& process : device.now.processes) {
      add({.sample = sample, .device = device, .process = &process});
    }
  }
  return text;
}

}  // namespace gpemu::tools
