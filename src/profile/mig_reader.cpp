// SPDX-License-Identifier: Apache-2.0
#include "mig_reader.hpp"

#include <cstdint>
#include <initializer_list>
#include <tuple>

namespace gpemu::profile {
namespace {

using Keys = std::initializer_list<std::string_view>;

/// Slices of memory that a GPU may have. Source: all GPUs with MIG have 8 or 4.
constexpr int kMostSlices = 8;
constexpr std::string_view kMediaSuffix = "+me";

/// Turns one table `mig` into profiles; every fault carries its line.
class MigReader {
 public:
  explicit MigReader(SourcedFile& file) : file_(file) {}

  Result<MigProfile> read(std::string_view name, const toml::table& table) {
    field_ = fmt::format("mig.{}", name);
    GPEMU_TRY(check_keys(table, {"id", "nvml_profile", "placement", "multiprocessors", "memory_mib",
                                 "engines", "source"}));
    MigProfile profile;
    GPEMU_TRY(read_name(table, name, profile));
    GPEMU_ASSIGN(profile.id, number(table, "id", 0, 255));
    GPEMU_ASSIGN(profile.nvml_profile, number(table, "nvml_profile", 0, 255));
    GPEMU_TRY(read_placement(table, profile));
    GPEMU_ASSIGN(profile.multiprocessors, optional_number(table, "multiprocessors", 1, 10'000));
    GPEMU_ASSIGN(const std::optional<int> mib, optional_number(table, "memory_mib", 64, 1 << 24));
    if (mib) profile.memory_bytes = static_cast<Bytes>(*mib) * kMiB;
    GPEMU_TRY(read_engines(table, profile));
    GPEMU_TRY(file_.cite(table, field_));
    return profile;
  }

 private:
  Result<void> check_keys(const toml::table& table, Keys keys) const {
    for (const auto& [key, value] : table) {
      if (std::ranges::find(keys, key.str()) == keys.end()) {
        return file_.fault(value, field_, "unknown key '{}'", key.str());
      }
    }
    return {};
  }

  // The name tells the compute slices and the media extensions.
  Result<void> read_name(const toml::table& table, std::string_view name,
                         MigProfile& profile) const {
    const bool media = name.ends_with(kMediaSuffix);
    const std::string_view plain = name.substr(0, name.size() - (media ? kMediaSuffix.size() : 0));
    const bool known =
        plain.size() > 5 && plain.size() <= 16 && plain[0] >= '1' && plain[0] <= '7' &&
        plain.substr(1, 2) == "g." && plain.ends_with("gb") &&
        plain.substr(3, plain.size() - 5).find_first_not_of("0123456789") == std::string_view::npos;
    if (!known) {
      return file_.fault(table, field_, "expected a name such as \"3g.20gb\" or \"1g.5gb+me\"");
    }
    profile.name = std::string(name);
    profile.compute_slices = plain[0] - '0';
    profile.media_extensions = media;
    return {};
  }

  Result<void> read_placement(const toml::table& table, MigProfile& profile) const {
    GPEMU_ASSIGN(const toml::table* placement, sub_table(table, "placement"));
    GPEMU_TRY(check_keys(*placement, {"size", "starts"}));
    GPEMU_ASSIGN(profile.memory_slices, number(*placement, "size", 1, kMostSlices));
    const toml::node* starts = placement->get("starts");
    if (starts == nullptr || !starts->is_array() || starts->as_array()->empty()) {
      return file_.fault(*placement, field_, "starts: expected a list of memory slices");
    }
    for (const toml::node& start : *starts->as_array()) {
      const std::int64_t value = start.is_integer() ? start.value<std::int64_t>().value_or(-1) : -1;
      const bool ordered = profile.starts.empty() || value > profile.starts.back();
      if (!ordered || value < 0 || value + profile.memory_slices > kMostSlices ||
          value % profile.memory_slices != 0) {
        return file_.fault(start, field_,
                           "starts: expected rising multiples of {} up to {}, the last slice at "
                           "which a placement of that size fits",
                           profile.memory_slices, kMostSlices - profile.memory_slices);
      }
      profile.starts.push_back(static_cast<int>(value));
    }
    return {};
  }

  Result<void> read_engines(const toml::table& table, MigProfile& profile) const {
    GPEMU_ASSIGN(const toml::table* engines, sub_table(table, "engines"));
    GPEMU_TRY(check_keys(*engines, {"copy", "decode", "jpeg", "ofa"}));
    GPEMU_ASSIGN(profile.copy_engines, number(*engines, "copy", 1, 255));
    GPEMU_ASSIGN(profile.decoders, optional_number(*engines, "decode", 0, 255));
    GPEMU_ASSIGN(profile.jpegs, optional_number(*engines, "jpeg", 0, 255));
    GPEMU_ASSIGN(profile.ofas, number(*engines, "ofa", 0, 255));
    return {};
  }

  Result<const toml::table*> sub_table(const toml::table& table, std::string_view key) const {
    const toml::node* node = table.get(key);
    if (node != nullptr && node->is_table()) return node->as_table();
    return file_.fault(node == nullptr ? table : *node, field_, "{}: expected a table", key);
  }

  Result<std::optional<int>> optional_number(const toml::table& table, std::string_view key,
                                             int min, int max) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return std::nullopt;
    const std::int64_t value = node->is_integer() ? node->value<std::int64_t>().value_or(-1) : -1;
    if (value < min || value > max) {
      return file_.fault(*node, field_, "{}: expected a whole number from {} to {}", key, min, max);
    }
    return static_cast<int>(value);
  }

  Result<int> number(const toml::table& table, std::string_view key, int min, int max) const {
    GPEMU_ASSIGN(const std::optional<int> value, optional_number(table, key, min, max));
    if (value) return *value;
    return file_.fault(table, field_, "{}: missing", key);
  }

  SourcedFile& file_;
  std::string field_;
};

}  // namespace

Result<std::vector<MigProfile>> read_mig_profiles(const toml::table& root, SourcedFile& file) {
  std::vector<MigProfile> profiles;
  const toml::node* mig = root.get("mig");
  if (mig == nullptr) return profiles;
  if (!mig->is_table()) return file.fault(*mig, "mig", "expected a table of profiles");
  MigReader reader(file);
  for (const auto& [name, node] : *mig->as_table()) {
    if (!node.is_table()) return file.fault(node, "mig", "expected a table for each profile");
    GPEMU_ASSIGN(MigProfile profile, reader.read(name.str(), *node.as_table()));
    for (const MigProfile& other : profiles) {
      if (other.id == profile.id || other.nvml_profile == profile.nvml_profile) {
        return file.fault(node, fmt::format("mig.{}", profile.name),
                          "has the id or nvml_profile of {}", other.name);
      }
    }
    profiles.push_back(std::move(profile));
  }
  const int slices = memory_slices_of(profiles);
  for (const MigProfile& profile : profiles) {
    if (slices == profile.memory_slices || profile.starts.back() + profile.memory_slices <= slices)
      continue;
    return file.fault(*mig, fmt::format("mig.{}", profile.name),
                      "a start is beyond the {} slices that the largest profile has", slices);
  }
  std::ranges::sort(profiles, {}, [](const MigProfile& profile) {
    // nvidia-smi lists 1g.10gb after 1g.5gb and 1g.5gb+me, and 2g.12gb+me after 2g.12gb.
    return std::tuple(profile.compute_slices, profile.memory_slices, profile.media_extensions);
  });
  return profiles;
}

}  // namespace gpemu::profile
