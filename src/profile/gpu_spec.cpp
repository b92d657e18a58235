// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/gpu_spec.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "gpemu/base/file.hpp"

#include "calibration_reader.hpp"

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
    {"compute", "fp32_tflops", kRequired, 0.01, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp32_flops = value * kTera; }},
    {"compute", "fp64_tflops", kOptional, 0.001, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp64_flops = value * kTera; }},
    {"compute", "tf32_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.tf32_tensor_flops = value * kTera; }},
    {"compute", "fp16_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp16_tensor_flops = value * kTera; }},
    {"compute", "bf16_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.bf16_tensor_flops = value * kTera; }},
    {"compute", "fp8_tensor_tflops", kOptional, 0.1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.fp8_tensor_flops = value * kTera; }},
    {"memory", "capacity_mib", kRequired, 64, 1 << 24, 0,
     [](GpuSpec& spec, double value) { spec.memory_bytes = mib(value); }},
    {"memory", "usable_mib", kOptional, 64, 1 << 24, 0,
     [](GpuSpec& spec, double value) { spec.usable_memory_bytes = mib(value); }},
    {"memory", "bandwidth_gb_per_s", kRequired, 1, 1e6, 0,
     [](GpuSpec& spec, double value) { spec.memory_bandwidth_bytes_per_s = value * kGiga; }},
    {"memory", "bus_bits", kRequired, 8, 1e5, 1,
     [](GpuSpec& spec, double value) { spec.memory_bus_bits = whole(value); }},
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

/// Whether `name` can be a file's name and an option's value without quoting.
bool is_plain_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// Turns one parsed file into a GpuSpec; every fault carries its line.
class SpecReader {
 public:
  SpecReader(const toml::table& root, std::string_view origin) : root_(root), origin_(origin) {}

  Result<GpuSpec> read() {
    GPEMU_TRY(read_texts());
    GPEMU_TRY(read_sources());
    GPEMU_TRY(check_keys());
    for (const NumberField& field : kNumberFields) GPEMU_TRY(read_number(field));
    GPEMU_TRY(check_consistency());
    GPEMU_ASSIGN(FileCalibration calibration, read_calibration(root_, origin_, spec_.name));
    spec_.calibration = std::move(calibration.own);
    spec_.calibrated_like = std::move(calibration.like);
    spec_.other_arithmetic_like = std::move(calibration.other_arithmetic_like);
    return std::move(spec_);
  }

 private:
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> fault(const toml::node& node, std::string_view field,
                                             fmt::format_string<Args...> format,
                                             Args&&... args) const {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}: {}", origin_, node.source().begin.line, field,
                fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] Result<std::string> text(std::string_view key) const {
    const toml::node* node = root_.get(key);
    if (node == nullptr) return fault(root_, key, "missing; expected a string");
    const auto* value = node->as_string();
    if (value == nullptr || value->get().empty()) {
      return fault(*node, key, "expected a non-empty string");
    }
    return value->get();
  }

  Result<void> read_texts() {
    GPEMU_ASSIGN(spec_.name, text("name"));
    if (!is_plain_name(spec_.name)) {
      return fault(*root_.get("name"), "name",
                   "expected at most 64 of the characters A-Z a-z 0-9 . _ -");
    }
    GPEMU_ASSIGN(spec_.product_name, text("product_name"));
    GPEMU_ASSIGN(spec_.architecture, text("architecture"));
    const toml::node* aliases = root_.get("aliases");
    if (aliases == nullptr) return {};
    if (!aliases->is_array()) return fault(*aliases, "aliases", "expected a list of strings");
    for (const toml::node& alias : *aliases->as_array()) {
      const auto* value = alias.as_string();
      if (value == nullptr || !is_plain_name(value->get())) {
        return fault(alias, "aliases",
                     "expected strings of at most 64 of the characters A-Z a-z 0-9 . _ -");
      }
      spec_.aliases.push_back(value->get());
    }
    return {};
  }

  Result<void> read_sources() {
    const toml::node* node = root_.get("sources");
    if (node == nullptr || !node->is_table()) {
      return fault(node == nullptr ? root_ : *node, "sources",
                   "expected a table of citations, one for each source that a number names");
    }
    sources_ = node->as_table();
    for (const auto& [key, citation] : *sources_) {
      if (!citation.is_string() || citation.as_string()->get().empty()) {
        return fault(citation, fmt::format("sources.{}", key.str()), "expected a citation");
      }
    }
    return {};
  }

  /// Refuses what no reader would look at: it is a slip, or meant for a later version.
  [[nodiscard]] Result<void> check_keys() const {
    for (const auto& [key, node] : root_) {
      const std::string_view name = key.str();
      if (contains(kTextKeys, name) || name == "calibration") continue;
      if (!contains(kSections, name)) return fault(node, name, "unknown key");
      if (!node.is_table()) return fault(node, name, "expected a table");
      for (const auto& [inner, value] : *node.as_table()) {
        const bool known = std::ranges::any_of(kNumberFields, [&](const NumberField& field) {
          return field.section == name && field.key == inner.str();
        });
        if (!known) return fault(value, fmt::format("{}.{}", name, inner.str()), "unknown key");
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
      return fault(section == nullptr ? root_ : *section, path, "missing");
    }
    const toml::table* entry = node->as_table();
    if (entry == nullptr) {
      return fault(*node, path, "a number needs a source: {{ value = ..., source = \"...\" }}");
    }
    for (const auto& [key, inner] : *entry) {
      if (key != "value" && key != "source") {
        return fault(inner, path, "unknown key '{}'; expected value and source", key.str());
      }
    }
    GPEMU_ASSIGN(const double value, value_of(*entry, field, path));
    GPEMU_TRY(cite(*entry, path));
    field.apply(spec_, value);
    return {};
  }

  [[nodiscard]] Result<double> value_of(const toml::table& entry, const NumberField& field,
                                        std::string_view path) const {
    const toml::node* node = entry.get("value");
    if (node == nullptr) return fault(entry, path, "no value");
    if (!node->is_number()) return fault(*node, path, "expected a number");
    const double value = node->value<double>().value_or(std::nan(""));
    if (std::isnan(value) || value < field.minimum || value > field.maximum) {
      return fault(*node, path, "{} is not between {} and {}; is the unit right?", value,
                   field.minimum, field.maximum);
    }
    if (field.step > 0 && !is_multiple(value, field.step)) {
      return fault(*node, path, "{} is not a multiple of {}", value, field.step);
    }
    return value;
  }

  Result<void> cite(const toml::table& entry, const std::string& path) {
    const toml::node* node = entry.get("source");
    if (node == nullptr) return fault(entry, path, "no source");
    if (!node->is_string()) return fault(*node, path, "source: expected a key of [sources]");
    const std::string& key = node->as_string()->get();
    const toml::node* citation = sources_->get(key);
    if (citation == nullptr) return fault(*node, path, "source '{}' is not in [sources]", key);
    spec_.sources.emplace(path, citation->as_string()->get());
    cited_.insert(key);
    return {};
  }

  [[nodiscard]] Result<void> check_consistency() const {
    for (const auto& [key, citation] : *sources_) {
      if (!cited_.contains(std::string(key.str()))) {
        return fault(citation, fmt::format("sources.{}", key.str()), "no number names this source");
      }
    }
    const toml::node& links = *root_.get("links");
    if (spec_.nvlink_bytes_per_s.has_value() != (spec_.nvlink_gpus > 1)) {
      return fault(links, "links", "nvlink_gb_per_s and nvlink_gpus go together");
    }
    if (spec_.usable_memory_bytes.value_or(0) > spec_.memory_bytes) {
      return fault(*root_.get("memory"), "memory.usable_mib", "more than capacity_mib");
    }
    if (spec_.base_clock_mhz.value_or(0) > spec_.boost_clock_mhz) {
      return fault(*root_.get("compute"), "compute.base_clock_mhz", "more than boost_clock_mhz");
    }
    return {};
  }

  const toml::table& root_;
  std::string_view origin_;
  const toml::table* sources_ = nullptr;
  std::set<std::string> cited_;
  GpuSpec spec_;
};

}  // namespace

Result<GpuSpec> parse_gpu_spec(std::string_view toml, std::string_view origin) {
  toml::table root;
  try {
    root = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", origin, error.source().begin.line,
                error.description());
  }
  return SpecReader(root, origin).read();
}

Result<GpuSpec> load_gpu_spec(const std::filesystem::path& path) {
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_gpu_spec(text, path.string());
}

}  // namespace gpemu::profile
