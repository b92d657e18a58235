// SPDX-License-Identifier: Apache-2.0
#include "nvidia_smi/nvidia_smi_log.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/text.hpp"

namespace gpemu::tools {
namespace {

constexpr const char* kNone = "N/A";
constexpr const char* kDeprecated = "Requested functionality has been deprecated";

/// A line of the log, or a section of it with lines.
struct LogEntry {
  std::string label;
  std::string tag;  ///< the element's name; "" for an entry that only the text has.
  std::string value;
  std::vector<LogEntry> parts;
  std::string_view display =
      "";                        ///< the word for -d that shows it, if it is a section of a device.
  std::size_t width = 55;        ///< of the label with its indentation.
  std::string_view prefix = "";  ///< the text has it before the value.
  bool only_xml = false;
  bool nests = false;  ///< in XML, its value is an element of it, as its parts are.
};

using LogEntries = std::vector<LogEntry>;

LogEntry line(std::string label, std::string tag, std::string value = kNone) {
  return {.label = std::move(label), .tag = std::move(tag), .value = std::move(value), .parts = {}};
}

LogEntry section(std::string label, std::string tag, LogEntries parts) {
  return {.label = std::move(label), .tag = std::move(tag), .value = {}, .parts = std::move(parts)};
}

LogEntry shown_by(std::string_view display, LogEntry entry) {
  entry.display = display;
  return entry;
}

// ---- Values

std::string mib(Bytes bytes) {
  return mib_text(bytes) + " MiB";
}

std::string with_unit(double value, std::string_view unit) {
  return value > 0 ? fmt::format("{:.0f} {}", value, unit) : kNone;
}

std::string in_watts(double power) {
  return power > 0 ? watts_text(power) + " W" : kNone;
}

std::string share_of(const SmiDevice& device, double share) {
  return device.divided ? kNone : fmt::format("{:.0f} %", 100 * share);
}

std::string count_of(const std::optional<int>& count) {
  return count ? fmt::to_string(*count) : kNone;
}

std::string is_active(const SmiDevice& device, unsigned reason) {
  return (clock_reasons(device) & reason) != 0 ? "Active" : "Not Active";
}

/// Returns the brand, as NVML's shim derives it from the name.
std::string brand_of(const std::string& name) {
  for (const char* brand : {"Tesla", "GeForce", "Quadro RTX", "Quadro"}) {
    if (name.contains(brand)) return brand;
  }
  return name.contains("NVIDIA ") ? "NVIDIA" : "Unknown";
}

LogEntries current_and_pending(const std::string& suffix, const std::string& value) {
  return {line("Current", "current_" + suffix, value), line("Pending", "pending_" + suffix, value)};
}

// ---- Sections

LogEntry mig_device_entry(const SmiMigDevice& mig, std::size_t index) {
  const auto number = [](int value) { return fmt::to_string(value); };
  const Bytes total = mig.device.memory_bytes;
  return section(
      "MIG Device", "mig_device",
      {line("Index", "index", fmt::to_string(index)),
       line("GPU Instance ID", "gpu_instance_id", number(mig.device.gpu_instance)),
       line("Compute Instance ID", "compute_instance_id", number(mig.device.compute_instance)),
       section("Device Attributes", "device_attributes",
               {section("Shared", "shared",
                        {line("Multiprocessor count", "multiprocessor_count",
                              number(mig.device.multiprocessors)),
                         line("Copy Engine count", "copy_engine_count",
                              number(mig.profile.copy_engines)),
                         line("Encoder count", "encoder_count", "0"),
                         line("Decoder count", "decoder_count", count_of(mig.profile.decoders)),
                         line("OFA count", "ofa_count", number(mig.profile.ofas)),
                         line("JPG count", "jpg_count", count_of(mig.profile.jpegs))})}),
       section("ECC Errors", "ecc_error_count",
               {section("Volatile", "volatile_count",
                        {line("SRAM Uncorrectable", "sram_uncorrectable")})}),
       section("Shared FB Memory Usage", "fb_memory_usage",
               {line("Total", "total", mib(total)), line("Reserved", "reserved", "0 MiB"),
                line("Used", "used", mib(mig.memory_used)),
                line("Free", "free", mib(total - mig.memory_used))}),
       section("Shared BAR1 Memory", "bar1_memory_usage",
               {line("Total", "total"), line("Used", "used"), line("Free", "free")})});
}

/// The text has a section for each MIG device, and XML one element with all.
LogEntries mig_entries(const SmiDevice& device) {
  LogEntry all = section("", "mig_devices", {});
  all.only_xml = true;
  if (device.mig.empty()) all.value = "None";
  LogEntries entries;
  for (std::size_t i = 0; i < device.mig.size(); ++i) {
    LogEntry entry = mig_device_entry(device.mig[i], i);
    all.parts.push_back(entry);
    entry.tag = "";
    entries.push_back(std::move(entry));
  }
  entries.insert(entries.begin(), std::move(all));
  return entries;
}

LogEntries identity_entries(const SmiDevice& device) {
  const device::DeviceSnapshot& now = device.now;
  LogEntries entries = {
      line("Product Name", "product_name", name_of(now)),
      line("Product Brand", "product_brand", brand_of(name_of(now))),
      line("Product Architecture", "product_architecture",
           now.facts.architecture[0] == '\0' ? kNone : now.facts.architecture),
      line("Display Mode", "display_mode", kDeprecated),
      line("Display Attached", "display_attached", "No"),
      line("Display Active", "display_active", "Disabled"),
      line("Persistence Mode", "persistence_mode", "Enabled"),
      line("Addressing Mode", "addressing_mode"),
      section("MIG Mode", "mig_mode",
              {line("Current", "current_mig", mig_mode_text(device)),
               line("Pending", "pending_mig", mig_mode_text(device, now.mig.pending))})};
  for (LogEntry& entry : mig_entries(device)) entries.push_back(std::move(entry));
  entries.push_back(shown_by("ACCOUNTING", line("Accounting Mode", "accounting_mode", "Disabled")));
  entries.push_back(
      shown_by("ACCOUNTING", line("Accounting Mode Buffer Size", "accounting_mode_buffer_size")));
  entries.push_back(section("Driver Model", "driver_model", current_and_pending("dm", kNone)));
  entries.push_back(line("Serial Number", "serial"));
  entries.push_back(line("GPU UUID", "uuid", now.uuid));
  entries.push_back(line("GPU PDI", "pdi"));
  entries.push_back(line("Minor Number", "minor_number", fmt::to_string(now.index)));
  entries.push_back(line("VBIOS Version", "vbios_version"));
  entries.push_back(line("MultiGPU Board", "multigpu_board", "No"));
  entries.push_back(line("Board ID", "board_id"));
  entries.push_back(line("Board Part Number", "board_part_number"));
  entries.push_back(line("GPU Part Number", "gpu_part_number"));
  entries.push_back(line("FRU Part Number", "gpu_fru_part_number"));
  return entries;
}

LogEntries board_entries() {
  return {
      section("Platform Info", "platformInfo",
              {line("Chassis Serial Number", "chassis_serial_number"),
               line("Slot Number", "slot_number"), line("Tray Index", "tray_index"),
               line("Host ID", "host_id"), line("Peer Type", "peer_type"),
               line("Module Id", "module_id"), line("GPU Fabric GUID", "gpu_fabric_guid")}),
      section("Inforom Version", "inforom_version",
              {line("Image Version", "img_version"), line("OEM Object", "oem_object"),
               line("ECC Object", "ecc_object"), line("Power Management Object", "pwr_object")}),
      section("Inforom BBX Object Flush", "inforom_bbx_flush",
              {line("Latest Timestamp", "latest_timestamp"),
               line("Latest Duration", "latest_duration")}),
      section("GPU Operation Mode", "gpu_operation_mode", current_and_pending("gom", kNone)),
      line("GPU C2C Mode", "c2c_mode"),
      section("GPU Virtualization Mode", "gpu_virtualization_mode",
              {line("Virtualization Mode", "virtualization_mode", "None"),
               line("Host VGPU Mode", "host_vgpu_mode"),
               line("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode")}),
      line("GPU Recovery Action", "gpu_recovery_action"),
      shown_by("GSP_FIRMWARE_VERSION", line("GSP Firmware Version", "gsp_firmware_version")),
      section("IBMNPU", "ibmnpu", {line("Relaxed Ordering Mode", "relaxed_ordering_mode")})};
}

LogEntry pci_entry(const SmiDevice& device) {
  const PciAddress address = pci_of(device.now);
  const device::GpuFacts& facts = device.now.facts;
  const auto number = [](int value) { return value > 0 ? fmt::to_string(value) : kNone; };
  const std::string generation = number(facts.pcie_generation);
  const std::string width = facts.pcie_lanes > 0 ? fmt::format("{}x", facts.pcie_lanes) : kNone;
  // The text has hexadecimal numbers with a prefix, XML without.
  const auto hex = [](std::string label, std::string tag, unsigned value, int digits) {
    LogEntry entry = line(std::move(label), std::move(tag), fmt::format("{:0{}X}", value, digits));
    entry.prefix = "0x";
    return entry;
  };
  return section(
      "PCI", "pci",
      {hex("Bus", "pci_bus", address.bus, 2), hex("Device", "pci_device", address.device, 2),
       hex("Domain", "pci_domain", address.domain, 4),
       hex("Base Classcode", "pci_base_class", 3, 1), hex("Sub Classcode", "pci_sub_class", 2, 1),
       line("Device Id", "pci_device_id"), line("Bus Id", "pci_bus_id", bus_id_text(device.now)),
       line("Sub System Id", "pci_sub_system_id"),
       section("GPU Link Info", "pci_gpu_link_info",
               {section("PCIe Generation", "pcie_gen",
                        {line("Max", "max_link_gen", generation),
                         line("Current", "current_link_gen", generation),
                         line("Device Current", "device_current_link_gen", generation),
                         line("Device Max", "max_device_link_gen", generation),
                         line("Host Max", "max_host_link_gen")}),
                section("Link Width", "link_widths",
                        {line("Max", "max_link_width", width),
                         line("Current", "current_link_width", width)})}),
       section("Bridge Chip", "pci_bridge_chip",
               {line("Type", "bridge_chip_type"), line("Firmware", "bridge_chip_fw")}),
       line("Replays Since Reset", "replay_counter", "0"),
       line("Replay Number Rollovers", "replay_rollover_counter"),
       line("Tx Throughput", "tx_util",
            fmt::format("{:.0f} KB/s", device.load.d2h_bytes_per_s / 1000)),
       line("Rx Throughput", "rx_util",
            fmt::format("{:.0f} KB/s", device.load.h2d_bytes_per_s / 1000)),
       line("Atomic Caps Outbound", "atomic_caps_outbound"),
       line("Atomic Caps Inbound", "atomic_caps_inbound")});
}

LogEntries performance_entries(const SmiDevice& device) {
  const std::string prefix = "clocks_event_reason_";
  LogEntry hw_slowdown =
      line("HW Slowdown", prefix + "hw_slowdown", is_active(device, kHwSlowdown));
  hw_slowdown.parts = {line("HW Thermal Slowdown", prefix + "hw_thermal_slowdown"),
                       line("HW Power Brake Slowdown", prefix + "hw_power_brake_slowdown")};
  const std::string counter = "clocks_event_reasons_counters_";
  LogEntries entries = {
      line("Performance State", "performance_state",
           fmt::format("P{}", device.load.performance_state)),
      section("Clocks Event Reasons", "clocks_event_reasons",
              {line("Idle", prefix + "gpu_idle", is_active(device, kGpuIdle)),
               line("Applications Clocks Setting", prefix + "applications_clocks_setting"),
               line("SW Power Cap", prefix + "sw_power_cap"), std::move(hw_slowdown),
               line("Sync Boost", prefix + "sync_boost"),
               line("SW Thermal Slowdown", prefix + "sw_thermal_slowdown"),
               line("Display Clock Setting", prefix + "display_clocks_setting")}),
      section("Clocks Event Reasons Counters", "clocks_event_reasons_counters",
              {line("SW Power Capping", counter + "sw_power_cap"),
               line("Sync Boost", counter + "sync_boost"),
               line("SW Thermal Slowdown", counter + "sw_therm_slowdown"),
               line("HW Thermal Slowdown", counter + "hw_therm_slowdown"),
               line("HW Power Braking", counter + "hw_power_brake")}),
      line("Sparse Operation Mode", "sparse_operation_mode")};
  for (LogEntry& entry : entries) entry.display = "PERFORMANCE";
  return entries;
}

LogEntries memory_entries(const SmiDevice& device) {
  const device::DeviceSnapshot& now = device.now;
  LogEntries entries = {
      section("FB Memory Usage", "fb_memory_usage",
              {line("Total", "total", mib(board_memory(now))),
               line("Reserved", "reserved", mib(now.facts.reserved_memory_bytes)),
               line("Used", "used", mib(now.memory_used)),
               line("Free", "free", mib(now.memory_total - now.memory_used))}),
      section("BAR1 Memory Usage", "bar1_memory_usage",
              {line("Total", "total"), line("Used", "used"), line("Free", "free")}),
      section("Conf Compute Protected Memory Usage", "cc_protected_memory_usage",
              {line("Total", "total"), line("Used", "used"), line("Free", "free")})};
  for (LogEntry& entry : entries) entry.display = "MEMORY";
  return entries;
}

LogEntries activity_entries(const SmiDevice& device) {
  const auto sessions = [](std::string label, std::string tag) {
    return section(std::move(label), std::move(tag),
                   {line("Active Sessions", "session_count"), line("Average FPS", "average_fps"),
                    line("Average Latency", "average_latency")});
  };
  const std::string unused = share_of(device, 0);
  return {
      shown_by("COMPUTE", line("Compute Mode", "compute_mode",
                               std::string(compute_mode_word(device.now.compute_mode)))),
      shown_by(
          "UTILIZATION",
          section("Utilization", "utilization",
                  {line("GPU", "gpu_util", share_of(device, device.load.compute)),
                   line("Memory", "memory_util", share_of(device, copy_share(device.load))),
                   line("Encoder", "encoder_util", unused), line("Decoder", "decoder_util", unused),
                   line("JPEG", "jpeg_util", unused), line("OFA", "ofa_util", unused)})),
      shown_by("ENCODER_STATS", sessions("Encoder Stats", "encoder_stats")),
      shown_by("FBC_STATS", sessions("FBC Stats", "fbc_stats")),
      section("DRAM Encryption Mode", "dram_encryption_mode",
              current_and_pending("dram_encryption", kNone))};
}

LogEntries reliability_entries() {
  const auto counts = [] {
    return LogEntries{line("SRAM Correctable", "sram_correctable"),
                      line("SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
                      line("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
                      line("DRAM Correctable", "dram_correctable"),
                      line("DRAM Uncorrectable", "dram_uncorrectable")};
  };
  LogEntries aggregate = counts();
  aggregate.push_back(line("SRAM Threshold Exceeded", "sram_threshold_exceeded"));
  LogEntry retired_xml =
      section("", "retired_pages",
              {section("", "multiple_single_bit_retirement",
                       {line("", "retired_count"), line("", "retired_pagelist")}),
               section("", "double_bit_retirement",
                       {line("", "retired_count"), line("", "retired_pagelist")}),
               line("", "pending_blacklist"), line("", "pending_retirement")});
  retired_xml.only_xml = true;
  return {
      shown_by("ECC", section("ECC Mode", "ecc_mode", current_and_pending("ecc", kNone))),
      shown_by("ECC",
               section("ECC Errors", "ecc_errors",
                       {section("Volatile", "volatile", counts()),
                        section("Aggregate", "aggregate", std::move(aggregate)),
                        section("Aggregate Uncorrectable SRAM Sources",
                                "aggregate_uncorrectable_sram_sources",
                                {line("SRAM L2", "sram_l2"), line("SRAM SM", "sram_sm"),
                                 line("SRAM Microcontroller", "sram_microcontroller"),
                                 line("SRAM PCIE", "sram_pcie"), line("SRAM Other", "sram_other")}),
                        line("Channel Repair Pending", "channel_repair_pending"),
                        line("TPC Repair Pending", "tpc_repair_pending"),
                        line("Unrepairable Memory", "unrepairable_memory")})),
      shown_by("PAGE_RETIREMENT", section("Retired Pages", "",
                                          {line("Single Bit ECC", ""), line("Double Bit ECC", ""),
                                           line("Pending Page Blacklist", "")})),
      std::move(retired_xml), shown_by("ROW_REMAPPER", line("Remapped Rows", "remapped_rows"))};
}

LogEntries physical_entries(const SmiDevice& device) {
  const std::string draw = in_watts(device.load.power_w);
  const auto draws = [](const std::string& power) {
    return LogEntries{line("Average Power Draw", "average_power_draw", power),
                      line("Instantaneous Power Draw", "instant_power_draw", power)};
  };
  struct Limits {
    std::string now, least, most;
  };
  const auto limits = [](const Limits& of) {
    return LogEntries{line("Current Power Limit", "current_power_limit", of.now),
                      line("Requested Power Limit", "requested_power_limit", of.now),
                      line("Default Power Limit", "default_power_limit", of.most),
                      line("Min Power Limit", "min_power_limit", of.least),
                      line("Max Power Limit", "max_power_limit", of.most)};
  };
  const std::string state = fmt::format("P{}", device.load.performance_state);
  const auto readings = [&](std::string label, std::string tag, const std::string& now,
                            const Limits& of) {
    LogEntry power_state = line("", "power_state", state);
    power_state.only_xml = true;
    LogEntries parts = {std::move(power_state)};
    std::ranges::move(draws(now), std::back_inserter(parts));
    std::ranges::move(limits(of), std::back_inserter(parts));
    return section(std::move(label), std::move(tag), std::move(parts));
  };
  LogEntries entries = {
      shown_by("TEMPERATURE",
               section("Temperature", "temperature",
                       {line("GPU Current Temp", "gpu_temp",
                             fmt::format("{:.0f} C", device.load.temperature_c)),
                        line("GPU T.Limit Temp", "gpu_temp_tlimit"),
                        // As nvmlDeviceGetTemperatureThreshold has them.
                        line("GPU Shutdown Temp", "gpu_temp_max_threshold", "90 C"),
                        line("GPU Slowdown Temp", "gpu_temp_slow_threshold", "87 C"),
                        line("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold", "83 C"),
                        line("GPU Target Temperature", "gpu_target_temperature"),
                        line("Memory Current Temp", "memory_temp"),
                        line("Memory Max Operating Temp", "gpu_temp_max_mem_threshold", "85 C")})),
      readings("GPU Power Readings", "gpu_power_readings", draw,
               {.now = in_watts(device.now.power.limit_w),
                .least = in_watts(device.now.power.min_limit_w),
                .most = in_watts(device.now.max_power_w)}),
      section("GPU Memory Power Readings", "gpu_memory_power_readings", draws(kNone)),
      readings("Module Power Readings", "module_power_readings", kNone, {kNone, kNone, kNone})};
  LogEntry target = section("", "supported_gpu_target_temp",
                            {line("", "gpu_target_temp_min"), line("", "gpu_target_temp_max")});
  target.only_xml = true;
  entries.insert(entries.begin() + 1, std::move(target));
  for (std::size_t i = 2; i < entries.size(); ++i) entries[i].display = "POWER";
  entries.push_back(shown_by("POWER_SMOOTHING", line("Power Smoothing", "power_smoothing")));
  entries.push_back(shown_by(
      "POWER_PROFILES", section("Workload Power Profiles", "power_profiles",
                                {line("Requested Profiles", "power_profile_requested_profiles"),
                                 line("Enforced Profiles", "power_profile_enforced_profiles")})));
  entries.push_back(line("EDPp Multiplier", "edpp_multiplier"));
  return entries;
}

LogEntries clock_entries(const SmiDevice& device) {
  const device::GpuFacts& facts = device.now.facts;
  const std::string memory = with_unit(facts.memory_clock_mhz, "MHz");
  const auto clocks = [&memory](double sm) {
    const std::string value = with_unit(sm, "MHz");
    return LogEntries{line("Graphics", "graphics_clock", value), line("SM", "sm_clock", value),
                      line("Memory", "mem_clock", memory), line("Video", "video_clock")};
  };
  const auto applications = [] {
    return LogEntries{line("Graphics", "graphics_clock", kDeprecated),
                      line("Memory", "mem_clock", kDeprecated)};
  };
  LogEntries entries = {
      section("Clocks", "clocks", clocks(device.load.sm_clock_mhz)),
      section("Applications Clocks", "applications_clocks", applications()),
      section("Default Applications Clocks", "default_applications_clocks", applications()),
      section("Deferred Clocks", "deferred_clocks", {line("Memory", "mem_clock")}),
      section("Max Clocks", "max_clocks", clocks(facts.boost_clock_mhz)),
      section("Max Customer Boost Clocks", "max_customer_boost_clocks",
              {line("Graphics", "graphics_clock", with_unit(facts.boost_clock_mhz, "MHz"))}),
      section(
          "Clock Policy", "clock_policy",
          {line("Auto Boost", "auto_boost"), line("Auto Boost Default", "auto_boost_default")})};
  for (LogEntry& entry : entries) entry.display = "CLOCK";
  return entries;
}

LogEntry fabric_entry() {
  return section("Fabric", "fabric",
                 {line("State", "state"), line("Status", "status"), line("CliqueId", "cliqueId"),
                  line("ClusterUUID", "clusterUuid"),
                  section("Health", "health",
                          {line("Summary", "summary"), line("Bandwidth", "bandwidth"),
                           line("Route Recovery in progress", "route_recovery_in_progress"),
                           line("Route Unhealthy", "route_unhealthy"),
                           line("Access Timeout Recovery", "access_timeout_recovery"),
                           line("Incorrect Configuration", "incorrect_configuration"),
                           line("Partition Assigned", "partition_assigned")})});
}

/// The clocks that a device can have, as NVML lists them. The text has them only on request.
LogEntry supported_clocks_entry(const SmiDevice& device) {
  const device::GpuFacts& facts = device.now.facts;
  if (facts.memory_clock_mhz <= 0) return line("Supported Clocks", "supported_clocks");
  LogEntry memory = line("Memory", "supported_mem_clock", with_unit(facts.memory_clock_mhz, "MHz"));
  memory.nests = true;
  for (const double clock : {facts.boost_clock_mhz, facts.base_clock_mhz}) {
    if (clock <= 0) continue;
    memory.parts.push_back(line("Graphics", "supported_graphics_clock", with_unit(clock, "MHz")));
  }
  return section("Supported Clocks", "supported_clocks", {std::move(memory)});
}

LogEntry processes_entry(const SmiDevice& device) {
  // Source: printouts, where the labels of processes have a width of their own.
  constexpr std::size_t kWidth = 42;
  LogEntry all = section("Processes", "processes", {});
  if (device.now.processes.empty()) all.value = "None";
  for (const device::ProcessSnapshot& process : device.now.processes) {
    const SmiMigDevice* const mig = device.mig_of(process);
    const auto id = [mig](int number) { return mig == nullptr ? kNone : fmt::to_string(number); };
    LogEntries parts = {line("GPU instance ID", "gpu_instance_id",
                             id(mig == nullptr ? 0 : mig->device.gpu_instance)),
                        line("Compute instance ID", "compute_instance_id",
                             id(mig == nullptr ? 0 : mig->device.compute_instance)),
                        line("Process ID", "pid", pid_text(process))};
    parts.back().parts = {line("Type", "type", std::string(type_text(process))),
                          line("Name", "process_name", printable(process.name)),
                          line("Used GPU Memory", "used_memory", mib(process.memory_held))};
    for (LogEntry& part : parts) {
      part.width = kWidth;
      for (LogEntry& inner : part.parts) inner.width = kWidth;
    }
    LogEntry one = section("", "process_info", std::move(parts));
    all.parts.push_back(std::move(one));
  }
  return shown_by("PIDS", std::move(all));
}

/// Everything about a device, in nvidia-smi's order.
LogEntries entries_of(const SmiDevice& device) {
  LogEntries entries = identity_entries(device);
  const auto add = [&entries](LogEntries more) {
    std::ranges::move(more, std::back_inserter(entries));
  };
  add(board_entries());
  add({pci_entry(device), line("Fan Speed", "fan_speed")});
  add(performance_entries(device));
  add(memory_entries(device));
  add(activity_entries(device));
  add(reliability_entries());
  add(physical_entries(device));
  add(clock_entries(device));
  add({fabric_entry()});
  add({shown_by("SUPPORTED_CLOCKS", supported_clocks_entry(device)), processes_entry(device)});
  LogEntry accounted = line("Accounted Processes", "accounted_processes");
  accounted.only_xml = true;
  add({std::move(accounted), section("Capabilities", "capabilities", {line("EGM", "egm")})});
  return entries;
}

// ---- Output

void add_text(const LogEntry& entry, std::size_t indent, std::string& text) {
  if (entry.only_xml) return;
  // An element without a label has no line of its own.
  const std::size_t inner = entry.label.empty() ? indent : indent + 4;
  if (!entry.label.empty()) {
    const std::string begin = std::string(indent, ' ') + entry.label;
    text += entry.value.empty()
                ? begin + "\n"
                : fmt::format("{:<{}}: {}{}\n", begin, entry.width, entry.prefix, entry.value);
  }
  for (const LogEntry& part : entry.parts) add_text(part, inner, text);
}

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    switch (c) {
      case '&':
        text += "&amp;";
        break;
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      default:
        text += c;
    }
  }
  return text;
}

void add_xml(const LogEntry& entry, std::size_t depth, std::string& text) {
  if (entry.tag.empty()) return;
  const std::string tabs(depth, '\t');
  const bool is_list = entry.parts.empty() && entry.value == "None" &&
                       (entry.tag == "processes" || entry.tag == "mig_devices");
  if (is_list) {
    text += fmt::format("{0}<{1}>\n{2}{0}</{1}>\n", tabs, entry.tag,
                        entry.tag == "processes" ? "" : tabs + "\tNone\n");
    return;
  }
  if (!entry.value.empty() && !entry.nests) {
    text += fmt::format("{0}<{1}>{2}</{1}>\n", tabs, entry.tag, escaped(entry.value));
    // Lines below another line follow it.
    for (const LogEntry& part : entry.parts) add_xml(part, depth, text);
    return;
  }
  text += fmt::format("{}<{}>\n", tabs, entry.tag);
  // Source: printouts, in which the element of a MIG device is not indented.
  const std::size_t inner = entry.tag == "mig_devices" ? depth : depth + 1;
  if (entry.nests) add_xml(line("", "value", entry.value), inner, text);
  for (const LogEntry& part : entry.parts) add_xml(part, inner, text);
  text += fmt::format("{}</{}>\n", tabs, entry.tag);
}

/// The words of -d. Source: nvidia-smi -h, 595.80.
constexpr std::string_view kDisplays[] = {"MEMORY",
                                          "UTILIZATION",
                                          "ECC",
                                          "TEMPERATURE",
                                          "POWER",
                                          "CLOCK",
                                          "COMPUTE",
                                          "PIDS",
                                          "PERFORMANCE",
                                          "SUPPORTED_CLOCKS",
                                          "PAGE_RETIREMENT",
                                          "ACCOUNTING",
                                          "ENCODER_STATS",
                                          "VOLTAGE",
                                          "SUPPORTED_GPU_TARGET_TEMP",
                                          "FBC_STATS",
                                          "ROW_REMAPPER",
                                          "GSP_FIRMWARE_VERSION",
                                          "POWER_SMOOTHING",
                                          "POWER_PROFILES"};

/// What nvidia-smi prints about a device that has fallen off the bus. Source: printouts in public
/// repositories.
constexpr const char* kLostGpu = "GPU is lost";

}  // namespace

Result<void> check_log_displays(std::span<const std::string> displays) {
  for (const std::string& display : displays) {
    if (std::ranges::find(kDisplays, display) != std::end(kDisplays)) continue;
    return fail(ErrorCode::kInvalidArgument, "-d {}: give some of {}", printable(display),
                fmt::join(kDisplays, ", "));
  }
  return {};
}

std::string nvidia_smi_log(const SmiSample& sample, std::size_t all_devices,
                           std::span<const std::string> displays) {
  std::string text = "\n==============NVSMI LOG==============\n\n";
  add_text(line("Timestamp", "", sample.date), 0, text);
  add_text(line("Driver Version", "", device::kDriverVersion), 0, text);
  add_text(line("CUDA Version", "", device::kCudaVersion), 0, text);
  text += '\n';
  add_text(line("Attached GPUs", "", fmt::to_string(all_devices)), 0, text);
  for (const SmiDevice& device : sample.devices) {
    text += fmt::format("GPU {}\n", bus_id_text(device.now));
    if (device.now.health.lost) {
      text += fmt::format("    {}\n\n", kLostGpu);
      continue;
    }
    for (const LogEntry& entry : entries_of(device)) {
      const bool is_chosen = displays.empty()
                                 ? entry.display != "SUPPORTED_CLOCKS"
                                 : std::ranges::find(displays, entry.display) != displays.end();
      if (is_chosen) add_text(entry, 4, text);
    }
    text += '\n';
  }
  return text;
}

std::string nvidia_smi_log_xml(const SmiSample& sample, std::size_t all_devices) {
  std::string text =
      "<?xml version=\"1.0\" ?>\n"
      "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n"
      "<nvidia_smi_log>\n";
  add_xml(line("", "timestamp", sample.date), 1, text);
  add_xml(line("", "driver_version", device::kDriverVersion), 1, text);
  add_xml(line("", "cuda_version", device::kCudaVersion), 1, text);
  add_xml(line("", "attached_gpus", fmt::to_string(all_devices)), 1, text);
  for (const SmiDevice& device : sample.devices) {
    text += fmt::format("\t<gpu id=\"{}\">\n", bus_id_text(device.now));
    LogEntries entries = entries_of(device);
    if (device.now.health.lost) {
      entries = {line("", "product_name", kLostGpu), line("", "uuid", device.now.uuid)};
    }
    for (const LogEntry& entry : entries) add_xml(entry, 2, text);
    text += "\t</gpu>\n";
  }
  return text + "</nvidia_smi_log>\n";
}

}  // namespace gpemu::tools
