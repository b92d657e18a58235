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

/// A whole number, or "[N/A]" if it is not known, which is 0.
std::string known(double value) {
  return value > 0 ? fmt::format("{:.0f}", value) : std::string(kNotAvailable);
}

std::string percent(double share) {
  return fmt::format("{:.0f}", 100 * share);
}

std::string watts(double power) {
  return power > 0 ? fmt::format("{:.2f}", power) : std::string(kNotAvailable);
}

std::string product_name(const Row& row) {
  return name_of(row.device.now);
}

std::string uuid_of(const Row& row) {
  return row.device.now.uuid;
}

std::string bus_id_of(const Row& row) {
  std::string id = row.device.now.pci_bus_id;
  std::ranges::transform(id, id.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return id;
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

std::string active(bool is_active) {
  return is_active ? "Active" : "Not Active";
}

std::string sw_power_cap(const Row& row) {
  return active(row.device.now.power.capped && row.device.load.compute > 0);
}

std::string hw_slowdown(const Row& row) {
  return active(row.device.now.health.clock < 1);
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

// The names are those of `nvidia-smi --help-query-gpu`; `node` is ours.
constexpr Field kDeviceFields[] = {
    {"timestamp", "", "", timestamp},
    {"node", "", "", [](const Row& row) { return row.device.node; }},
    {"driver_version", "", "", driver_version},
    {"count", "", "", [](const Row& row) { return fmt::to_string(row.sample.devices.size()); }},
    {"index", "", "", [](const Row& row) { return fmt::to_string(row.device.now.index); }},
    {"name", "gpu_name", "", product_name},
    {"uuid", "gpu_uuid", "", uuid_of},
    {"serial", "gpu_serial", "", not_available},
    {"pci.bus_id", "gpu_bus_id", "", bus_id_of},
    {"pcie.link.gen.current", "pcie.link.gen.gpucurrent", "", pcie_generation},
    {"pcie.link.gen.max", "pcie.link.gen.gpumax", "", pcie_generation},
    {"pcie.link.width.current", "", "", pcie_lanes},
    {"pcie.link.width.max", "", "", pcie_lanes},
    {"display_mode", "", "", disabled},
    {"display_active", "", "", disabled},
    {"persistence_mode", "", "", [](const Row&) { return std::string("Enabled"); }},
    {"compute_mode", "", "",
     [](const Row& row) {
       return std::string(row.device.exclusive ? "Exclusive_Process" : "Default");
     }},
    {"compute_cap", "", "",
     [](const Row& row) {
       const device::GpuFacts& facts = row.device.now.facts;
       return fmt::format("{}.{}", facts.compute_capability_major, facts.compute_capability_minor);
     }},
    {"vbios_version", "", "", not_available},
    {"fan.speed", "", "%", not_available},
    {"ecc.mode.current", "", "", not_available},
    {"mig.mode.current", "", "",
     [](const Row& row) {
       return row.device.divided ? std::string("Enabled") : not_available(row);
     }},
    {"pstate", "", "",
     [](const Row& row) { return fmt::format("P{}", row.device.load.performance_state); }},
    {"memory.total", "", "MiB",
     [](const Row& row) { return mib_text(row.device.now.memory_total); }},
    {"memory.reserved", "", "MiB", [](const Row&) { return std::string("0"); }},
    {"memory.used", "", "MiB", [](const Row& row) { return mib_text(row.device.now.memory_used); }},
    {"memory.free", "", "MiB",
     [](const Row& row) {
       return mib_text(row.device.now.memory_total - row.device.now.memory_used);
     }},
    {"utilization.gpu", "", "%", [](const Row& row) { return percent(row.device.load.compute); }},
    {"utilization.memory", "", "%",
     [](const Row& row) {
       return percent(std::max(row.device.load.copy_h2d, row.device.load.copy_d2h));
     }},
    {"utilization.encoder", "", "%", [](const Row&) { return std::string("0"); }},
    {"utilization.decoder", "", "%", [](const Row&) { return std::string("0"); }},
    {"temperature.gpu", "", "",
     [](const Row& row) { return fmt::format("{:.0f}", row.device.load.temperature_c); }},
    {"temperature.memory", "", "", not_available},
    {"power.management", "", "", [](const Row&) { return std::string("Enabled"); }},
    {"power.draw", "", "W", power},
    {"power.draw.average", "", "W", power},
    {"power.draw.instant", "", "W", power},
    {"power.limit", "", "W", power_limit},
    {"enforced.power.limit", "", "W", power_limit},
    {"power.default_limit", "", "W", max_power_limit},
    {"power.min_limit", "", "W",
     [](const Row& row) { return watts(row.device.now.power.min_limit_w); }},
    {"power.max_limit", "", "W", max_power_limit},
    {"clocks.current.graphics", "clocks.gr", "MHz", sm_clock},
    {"clocks.current.sm", "clocks.sm", "MHz", sm_clock},
    {"clocks.current.memory", "clocks.mem", "MHz", memory_clock},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", max_sm_clock},
    {"clocks.max.sm", "", "MHz", max_sm_clock},
    {"clocks.max.memory", "clocks.max.mem", "MHz", memory_clock},
    {"clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap", "", sw_power_cap},
    {"clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown", "", hw_slowdown},
};

/// What the driver knows without asking the device. Of a device that has fallen off the bus,
/// nvidia-smi answers every other field with kLost.
constexpr std::string_view kKnownWithoutDevice[] = {
    "timestamp", "node", "driver_version", "count", "index", "name", "uuid", "pci.bus_id"};
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
    {"process_name", "name", "", [](const Row& row) { return row.process->name; }},
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
                  "field '{}' is not a valid field to query; the fields are:\n{}", name,
                  help(subject));
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
      if (format_.units && !field.unit.empty() && value != kNotAvailable && !lost) {
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
