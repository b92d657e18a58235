// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/node_labels.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/containers/gpu_places.hpp"
#include "gpemu/device/monitor.hpp"

namespace gpemu::containers {
namespace {

/// Returns a text as the value of a label may be: letters, digits, '-', '_' and '.'.
std::string label_value(std::string_view text) {
  std::string value;
  for (const char letter : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                          std::string_view("-_.").contains(letter);
    value += is_plain ? letter : '-';
  }
  return value;
}

/// Returns the parts of a version, "595.45.04".
std::vector<std::string> parts_of(std::string_view version) {
  std::vector<std::string> parts(1);
  for (const char letter : version) {
    if (letter == '.') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  parts.resize(3);
  return parts;
}

}  // namespace

std::map<std::string, std::string> node_labels(std::span<const device::DeviceConfig> gpus,
                                               int replicas) {
  if (gpus.empty()) return {};
  const device::DeviceConfig& gpu = gpus.front();
  const bool is_shared = replicas > 1;
  std::string family = label_value(gpu.facts.architecture);
  for (char& letter : family) letter = static_cast<char>(std::tolower(letter));
  if (family == "ada") family = "ada-lovelace";
  const Bytes memory = gpu.memory_bytes + gpu.facts.reserved_memory_bytes;
  const std::vector<std::string> driver = parts_of(device::kDriverVersion);
  const std::vector<std::string> cuda = parts_of(device::kCudaVersion);
  std::map<std::string, std::string> labels = {
      {"gpu.count", std::to_string(gpus.size())},
      {"gpu.replicas", std::to_string(replicas)},
      {"gpu.product", label_value(gpu.facts.product_name) + (is_shared ? "-SHARED" : "")},
      {"gpu.memory", std::to_string(memory / kMiB)},
      {"gpu.family", family},
      {"gpu.compute.major", std::to_string(gpu.facts.compute_capability_major)},
      {"gpu.compute.minor", std::to_string(gpu.facts.compute_capability_minor)},
      {"gpu.present", "true"},
      {"gpu.sharing-strategy", is_shared ? "time-slicing" : "none"},
      {"mig.capable", gpu.facts.has_mig != 0 ? "true" : "false"},
      {"mig.strategy", "none"},
      {"cuda.driver-version.full", device::kDriverVersion},
      {"cuda.driver-version.major", driver[0]},
      {"cuda.driver-version.minor", driver[1]},
      {"cuda.driver-version.revision", driver[2]},
      {"cuda.driver.major", driver[0]},
      {"cuda.driver.minor", driver[1]},
      {"cuda.driver.rev", driver[2]},
      {"cuda.runtime-version.full", device::kCudaVersion},
      {"cuda.runtime-version.major", cuda[0]},
      {"cuda.runtime-version.minor", cuda[1]},
      {"cuda.runtime.major", cuda[0]},
      {"cuda.runtime.minor", cuda[1]}};
  std::map<std::string, std::string> named;
  for (auto& [name, value] : labels) named.emplace("nvidia.com/" + name, std::move(value));
  return named;
}

Result<std::map<std::string, std::string>> mig_node_labels(
    std::span<const device::DeviceConfig> gpus, std::span<const profile::MigProfile> profiles,
    std::span<const std::string> instances, bool mixed) {
  GPEMU_ASSIGN(const device::MigLayout layout, layout_with(profiles, instances));
  std::map<std::string, std::string> labels = node_labels(gpus, 1);
  labels["nvidia.com/mig.strategy"] = mixed ? "mixed" : "single";
  std::map<std::string, std::size_t> counts;
  for (const std::string& name : instances) ++counts[name];
  if (!mixed && counts.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "one name is for instances of one profile, and these are of {}", counts.size());
  }
  const std::string product = labels["nvidia.com/gpu.product"];
  for (const auto& [name, count] : counts) {
    const auto profile = std::ranges::find(profiles, name, &profile::MigProfile::name);
    std::string resource = mixed ? "mig-" + name : "gpu";
    std::ranges::replace(resource, '+', '.');
    const auto set = [&](const char* what, std::string value) {
      labels["nvidia.com/" + resource + '.' + what] = std::move(value);
    };
    set("count", std::to_string(count * gpus.size()));
    set("replicas", "1");
    set("product", label_value(product + "-MIG-" + name));
    set("slices.gi", std::to_string(profile->compute_slices));
    set("slices.ci", std::to_string(profile->compute_slices));
    set("engines.copy", std::to_string(profile->copy_engines));
    set("engines.encoder", "0");
    set("engines.ofa", std::to_string(profile->ofas));
    if (profile->decoders) set("engines.decoder", std::to_string(*profile->decoders));
    if (profile->jpegs) set("engines.jpeg", std::to_string(*profile->jpegs));
    if (profile->multiprocessors) set("multiprocessors", std::to_string(*profile->multiprocessors));
    if (profile->memory_bytes) set("memory", std::to_string(*profile->memory_bytes / kMiB));
  }
  return labels;
}

}  // namespace gpemu::containers
