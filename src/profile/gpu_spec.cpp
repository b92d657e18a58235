// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/gpu_spec.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "gpemu/base/file.hpp"

#include "calibration_reader.hpp"
#include "generation_reader.hpp"
#include "mig_reader.hpp"
#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

enum class Presence { kRequired, kOptional };

/// A number of the file: where it stands, what it may be, and what it sets.
struct NumberField {
  std::string_view section;
  std::string_view key;
  Presence presence;
  double minimum;
  double maximum;
  double step;  ///< the value is a multiple of it; 0 when any value will do.
  void (*apply)(GpuSpec& spec, double value);
};

Bytes mib(double value) {
  return static_cast<Bytes>(std::llround(value * static_cast<double>(kMiB)));
}

int whole(double value) {
  return static_cast<int>(std::lround(value));
}

void set_capability(GpuSpec& spec, double value) {
  spec.compute_capability_major = whole(value * 10) / 10;
  spec.compute_capability_minor = whole(value * 10) % 10;
}

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr auto kRequired = Presence::kRequired;
constexpr auto kOptional = Presence::kOptional;

// The bounds only catch slips: a wrong unit, a lost decimal point. They leave room for GPUs of the
// next decade.
constexpr auto kNumberFields = std::to_array<NumberField>({
    {"compute", "capability", kRequired, 1, 99.9, 0.1, set_capability},
    {"compute", "multiprocessors", kRequired, 1, 1e4, 1,
     [](GpuSpec& spec, double value) { spec.multiprocessors = whole(value); }},
    {"compute", "cuda_cores", kRequired, 1, 1e6, 1,
     [](GpuSpec& spec, double value) { spec.cuda_cores = whole(value); }},
    {"compute", "base_clock_mhz", kOptional, 10, 2e4, 0,
     [](GpuSpec& spec, double value) { spec.base_clock_mhz = value; }},
    {"compute", "boost_clock_mhz", kRequired, 10, 2e4, 0,
     [](GpuSpec& spec, double value) { spec.boost_clock_mhz = value; }},
    {"compute", "sustained_clock_mhz", kOptional, 10, 2e4, 0,
     [](GpuSpec& spec, double value) { spec.sustained_clock_mhz = value; }},
    {"compute", "fp32_tflops", kRequired, 0.01, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp32_flops = value * kTera; }},
    {"compute", "fp32_product_tflops", kOptional, 0.01, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp32_product_flops = value * kTera; }},
    {"compute", "fp64_tflops", kOptional, 0.001, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp64_flops = value * kTera; }},
    {"compute", "fp64_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp64_tensor_flops = value * kTera; }},
    {"compute", "tf32_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.tf32_tensor_flops = value * kTera; }},
    {"compute", "fp16_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp16_tensor_flops = value * kTera; }},
    {"compute", "fp16_product_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp16_product_flops = value * kTera; }},
    {"compute", "bf16_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.bf16_tensor_flops = value * kTera; }},
    {"compute", "fp8_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp8_tensor_flops = value * kTera; }},
    {"memory", "capacity_mib", kRequired, 64, 1 << 24, 0,
     [](GpuSpec& spec, double value) { spec.memory_bytes = mib(value); }},
    {"memory", "reserved_mib", kOptional, 0.01, 1 << 20, 0,
     [](GpuSpec& spec, double value) { spec.reserved_memory_bytes = mib(value); }},
    {"memory", "usable_mib", kOptional, 64, 1 << 24, 0,
     [](GpuSpec& spec, double value) { spec.usable_memory_bytes = mib(value); }},
    {"memory", "bandwidth_gb_per_s", kRequired, 1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.memory_bandwidth_bytes_per_s = value * kGiga; }},
    {"memory", "bus_bits", kRequired, 8, 1e5, 1,
     [](GpuSpec& spec, double value) { spec.memory_bus_bits = whole(value); }},
    {"memory", "clock_mhz", kOptional, 10, 1e5, 0,
     [](GpuSpec& spec, double value) { spec.memory_clock_mhz = value; }},
    {"memory", "l2_cache_mib", kRequired, 0.01, 1e5, 0,
     [](GpuSpec& spec, double value) { spec.l2_cache_bytes = mib(value); }},
    {"power", "max_w", kRequired, 1, 1e5, 0,
     [](GpuSpec& spec, double value) { spec.max_power_w = value; }},
    {"power", "idle_w", kOptional, 0.1, 1e5, 0,
     [](GpuSpec& spec, double value) { spec.idle_power_w = value; }},
    {"links", "pcie_generation", kRequired, 1, 9, 1,
     [](GpuSpec& spec, double value) { spec.pcie_generation = whole(value); }},
    {"links", "pcie_lanes", kRequired, 1, 32, 1,
     [](GpuSpec& spec, double value) { spec.pcie_lanes = whole(value); }},
    {"links", "pinned_copy_gb_per_s", kRequired, 0.01, 1e4, 0,
     [](GpuSpec& spec, double value) { spec.pinned_copy_bytes_per_s = value * kGiga; }},
    {"links", "nvlink_gb_per_s", kOptional, 1, 1e5, 0,
     [](GpuSpec& spec, double value) { spec.nvlink_bytes_per_s = value * kGiga; }},
    {"links", "nvlink_gpus", kOptional, 2, 1e4, 1,
     [](GpuSpec& spec, double value) { spec.nvlink_gpus = whole(value); }},
});

constexpr auto kSections = std::to_array<std::string_view>({"compute", "memory", "power", "links"});
constexpr auto kTextKeys =
    std::to_array<std::string_view>({"name", "product_name", "aliases", "architecture", "sources"});

bool contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Whether `value` is a multiple of `step`, up to rounding.
bool is_multiple(double value, double step) {
  const double multiple = value / step;
  return std::abs(multiple - std::round(multiple)) < 1e-6;
}

/// Turns one parsed file into a GpuSpec; every fault carries its line.
class SpecReader {
 public:
  SpecReader(const toml::table& root, std::string_view origin)
      : root_(root), origin_(origin), file_(root, origin) {}

  Result<GpuSpec> read() {
    GPEMU_TRY(read_texts());
    GPEMU_TRY(file_.read_sources());
    GPEMU_TRY(check_keys());
    for (const NumberField& field : kNumberFields) GPEMU_TRY(read_number(field));
    GPEMU_TRY(subtract_reserved_memory());
    GPEMU_ASSIGN(spec_.generation,
                 read_generation(root_, file_,
                                 {.major = spec_.compute_capability_major,
                                  .minor = spec_.compute_capability_minor,
                                  .nvlink = spec_.nvlink_bytes_per_s.has_value()}));
    GPEMU_ASSIGN(spec_.mig_profiles, read_mig_profiles(root_, file_));
    GPEMU_TRY(check_consistency());
    GPEMU_ASSIGN(FileCalibration calibration, read_calibration(root_, origin_, spec_.name));
    spec_.calibration = std::move(calibration.own);
    if (spec_.calibration) {
      spec_.calibration->tensor_rate = tensor_rate(spec_);
      spec_.calibration->compute_capability = compute_capability(spec_);
      spec_.calibration->bytes_per_clock = bytes_per_clock(spec_);
      spec_.calibration->generation = spec_.generation;
    }
    spec_.calibrated_like = std::move(calibration.like);
    spec_.host_like = std::move(calibration.host_like);
    spec_.other_arithmetic_like = std::move(calibration.other_arithmetic_like);
    spec_.sources = std::move(file_).citations();
    return std::move(spec_);
  }

 private:
  Result<void> read_texts() {
    GPEMU_ASSIGN(spec_.name, file_.name());
    GPEMU_ASSIGN(spec_.product_name, file_.text("product_name"));
    GPEMU_ASSIGN(spec_.architecture, file_.text("architecture"));
    const toml::node* aliases = root_.get("aliases");
    if (aliases == nullptr) return {};
    if (!aliases->is_array()) return file_.fault(*aliases, "aliases", "expected a list of strings");
    for (const toml::node& alias : *aliases->as_array()) {
      const auto* value = alias.as_string();
      if (value == nullptr || !is_plain_name(value->get())) {
        return file_.fault(alias, "aliases",
                           "expected strings of at most 64 of the characters A-Z a-z 0-9 . _ -");
      }
      spec_.aliases.push_back(value->get());
    }
    return {};
  }

  /// Refuses what no reader would look at: it is a slip, or meant for a later version.
  [[nodiscard]] Result<void> check_keys() const {
    for (const auto& [key, node] : root_) {
      const std::string_view name = key.str();
      if (contains(kTextKeys, name) || name == "calibration" || name == "mig" ||
          name == "generation") {
        continue;
      }
      if (!contains(kSections, name)) return file_.fault(node, name, "unknown key");
      if (!node.is_table()) return file_.fault(node, name, "expected a table");
      for (const auto& [inner, value] : *node.as_table()) {
        const bool known = std::ranges::any_of(kNumberFields, [&](const NumberField& field) {
          return field.section == name && field.key == inner.str();
        });
        if (!known)
          return file_.fault(value, fmt::format("{}.{}", name, inner.str()), "unknown key");
      }
    }
    return {};
  }

  Result<void> read_number(const NumberField& field) {
    const std::string path = fmt::format("{}.{}", field.section, field.key);
    const toml::node* section = root_.get(field.section);
    const toml::node* node = section == nullptr ? nullptr : section->as_table()->get(field.key);
    if (node == nullptr) {
      if (field.presence == Presence::kOptional) return {};
      return file_.fault(section == nullptr ? root_ : *section, path, "missing");
    }
    const toml::table* entry = node->as_table();
    if (entry == nullptr) {
      return file_.fault(*node, path,
                         "a number needs a source: {{ value = ..., source = \"...\" }}");
    }
    for (const auto& [key, inner] : *entry) {
      if (key != "value" && key != "source") {
        return file_.fault(inner, path, "unknown key '{}'; expected value and source", key.str());
      }
    }
    GPEMU_ASSIGN(const double value, value_of(*entry, field, path));
    GPEMU_TRY(file_.cite(*entry, path));
    field.apply(spec_, value);
    return {};
  }

  [[nodiscard]] Result<double> value_of(const toml::table& entry, const NumberField& field,
                                        std::string_view path) const {
    const toml::node* node = entry.get("value");
    if (node == nullptr) return file_.fault(entry, path, "no value");
    if (!node->is_number()) return file_.fault(*node, path, "expected a number");
    const double value = node->value<double>().value_or(std::nan(""));
    if (std::isnan(value) || value < field.minimum || value > field.maximum) {
      return file_.fault(*node, path, "{} is not between {} and {}; is the unit right?", value,
                         field.minimum, field.maximum);
    }
    if (field.step > 0 && !is_multiple(value, field.step)) {
      return file_.fault(*node, path, "{} is not a multiple of {}", value, field.step);
    }
    return value;
  }

  /// The file states the capacity as nvidia-smi does, with what the driver keeps.
  Result<void> subtract_reserved_memory() {
    if (spec_.reserved_memory_bytes >= spec_.memory_bytes) {
      return file_.fault(*root_.get("memory"), "memory.reserved_mib", "not less than capacity_mib");
    }
    spec_.memory_bytes -= spec_.reserved_memory_bytes;
    return {};
  }

  [[nodiscard]] Result<void> check_consistency() const {
    GPEMU_TRY(file_.check_sources());
    const toml::node& links = *root_.get("links");
    if (spec_.nvlink_bytes_per_s.has_value() != (spec_.nvlink_gpus > 1)) {
      return file_.fault(links, "links", "nvlink_gb_per_s and nvlink_gpus go together");
    }
    if (spec_.usable_memory_bytes.value_or(0) > spec_.memory_bytes) {
      return file_.fault(*root_.get("memory"), "memory.usable_mib", "more than capacity_mib");
    }
    // With MIG, the driver keeps less.
    const Bytes memory = spec_.memory_bytes + spec_.reserved_memory_bytes;
    for (const MigProfile& profile : spec_.mig_profiles) {
      if (profile.multiprocessors.value_or(0) > spec_.multiprocessors ||
          profile.memory_bytes.value_or(0) > memory) {
        return file_.fault(*root_.get("mig"), fmt::format("mig.{}", profile.name),
                           "more multiprocessors or memory than the GPU has");
      }
    }
    if (spec_.base_clock_mhz.value_or(0) > spec_.boost_clock_mhz) {
      return file_.fault(*root_.get("compute"), "compute.base_clock_mhz",
                         "more than boost_clock_mhz");
    }
    return {};
  }

  const toml::table& root_;
  std::string_view origin_;
  SourcedFile file_;
  GpuSpec spec_;
};

}  // namespace

double tensor_rate(const GpuSpec& spec) {
  return spec.fp16_tensor_flops.value_or(0) / spec.multiprocessors / (spec.boost_clock_mhz * 1e6);
}

double bytes_per_clock(const GpuSpec& spec) {
  return spec.memory_bandwidth_bytes_per_s / spec.multiprocessors / (spec.boost_clock_mhz * 1e6);
}

double memory_clock_mhz(const GpuSpec& spec) {
  if (spec.memory_clock_mhz) return *spec.memory_clock_mhz;
  if (spec.memory_bus_bits <= 0) return 0;
  // Two transfers per cycle of the clock that NVML shows: 1215 MHz for the 1555 GB/s of an A100 on
  // 5120 bits, 5000 MHz for the 320 GB/s of a T4 on 256.
  return spec.memory_bandwidth_bytes_per_s / (spec.memory_bus_bits / 8.0) / 2e6;
}

Result<GpuSpec> parse_gpu_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  return SpecReader(root, origin).read();
}

Result<GpuSpec> load_gpu_spec(const std::filesystem::path& path) {
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_gpu_spec(text, path.string());
}

}  // namespace gpemu::profile
