// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/resource_slice.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "gpemu/device/monitor.hpp"
#include "gpemu/topology/paths.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
/// Source: resource.k8s.io/v1, ResourceSliceMaxDevices.
constexpr std::size_t kMostDevices = 128;

/// Returns three numbers without leading zeros, as semantic versions have them: "595.45.4".
std::string semantic_version(std::string_view text) {
  std::string version;
  for (int part = 0; part < 3; ++part) {
    char* end = nullptr;
    const std::string rest(text);
    const long number = std::strtol(rest.c_str(), &end, 10);
    text.remove_prefix(std::min(static_cast<std::size_t>(end - rest.c_str()) + 1, text.size()));
    version += fmt::format("{}{}", part == 0 ? "" : ".", number);
  }
  return version;
}

/// Returns the brand in the words of NVIDIA's driver, as NVML knows it by the product's name.
std::string brand_of(std::string_view product) {
  for (const char* brand : {"Tesla", "GeForce RTX", "GeForce", "Quadro RTX", "Quadro"}) {
    if (product.contains(brand)) {
      std::string name = brand;
      std::erase(name, ' ');
      return name;
    }
  }
  return "Nvidia";
}

/// Returns the address without the leading zeros of NVML: "0000:01:00.0".
std::string bus_id_of(const std::string& address) {
  constexpr std::size_t kExtra = 4;
  return address.starts_with("0000") && address.find(':') > kExtra ? address.substr(kExtra)
                                                                   : address;
}

json text(std::string value) {
  return {{"string", std::move(value)}};
}
json version(std::string value) {
  return {{"version", std::move(value)}};
}

json capacity_of(Bytes memory, bool divided) {
  const std::string bytes =
      memory % kMiB == 0 ? fmt::format("{}Mi", memory / kMiB) : fmt::format("{}", memory);
  json capacity = {{"memory", {{"value", bytes}}}};
  if (!divided) return capacity;
  // Percent of the time. A claim that asks for none gets what others leave.
  capacity["cores"] = {
      {"value", "100"},
      {"requestPolicy",
       {{"default", "0"}, {"validRange", {{"min", "0"}, {"max", "100"}, {"step", "1"}}}}}};
  return capacity;
}

/// What a GPU and its instances have in common.
json common_attributes(const device::DeviceSnapshot& gpu, std::size_t number,
                       const SliceOptions& options) {
  json attributes = {
      {"productName", text(gpu.facts.product_name)},
      {"brand", text(brand_of(gpu.facts.product_name))},
      {"architecture", text(gpu.facts.architecture)},
      {"cudaComputeCapability", version(fmt::format("{}.{}.0", gpu.facts.compute_capability_major,
                                                    gpu.facts.compute_capability_minor))},
      {"driverVersion", version(semantic_version(device::kDriverVersion))},
      {"cudaDriverVersion", version(semantic_version(device::kCudaVersion))},
      {"pcieBusID", text(bus_id_of(gpu.pci_bus_id))}};
  if (options.topology) {
    // The number is this topology's: a claim can ask that it be the same for several GPUs.
    const int bridge = topology::bridge_above(*options.topology, options.topology->gpus[number]);
    attributes["resource.kubernetes.io/pcieRoot"] = text(fmt::format("pci0000:{:02x}", bridge));
  }
  return attributes;
}

json device_of(const device::DeviceSnapshot& gpu, std::size_t number, bool divided,
               const SliceOptions& options) {
  json attributes = common_attributes(gpu, number, options);
  attributes["type"] = text("gpu");
  attributes["uuid"] = text(gpu.uuid);
  attributes["index"] = attributes["minor"] = {{"int", number}};
  json entry = {{"name", device_name(number)},
                {"attributes", std::move(attributes)},
                {"capacity", capacity_of(published_memory(gpu), divided)}};
  if (divided) entry["allowMultipleAllocations"] = true;
  return entry;
}

std::string slice_counter(int slice) {
  return fmt::format("memory-slice-{}", slice);
}
constexpr const char* kMediaCounter = "media-extensions";

/// Returns what of a GPU's counters a device consumes.
json consumed(std::size_t gpu, int start, int slices, bool media) {
  json counters = json::object();
  for (int slice = start; slice < start + slices; ++slice) {
    counters[slice_counter(slice)] = {{"value", "1"}};
  }
  if (media) counters[kMediaCounter] = {{"value", "1"}};
  return json::array({{{"counterSet", device_name(gpu)}, {"counters", std::move(counters)}}});
}

json mig_device(const device::DeviceSnapshot& gpu, std::size_t number,
                const profile::MigProfile& profile, int start, const SliceOptions& options) {
  json attributes = common_attributes(gpu, number, options);
  attributes["type"] = text("mig");
  attributes["profile"] = text(profile.name);
  attributes["parentUUID"] = text(gpu.uuid);
  attributes["parentIndex"] = attributes["parentMinor"] = {{"int", number}};
  json capacity = capacity_of(*profile.memory_bytes, false);
  const auto add = [&](const char* name, int count) {
    capacity[name] = {{"value", std::to_string(count)}};
  };
  add("multiprocessors", *profile.multiprocessors);
  add("copyEngines", profile.copy_engines);
  if (profile.decoders) add("decoders", *profile.decoders);
  if (profile.jpegs) add("jpegEngines", *profile.jpegs);
  add("ofaEngines", profile.ofas);
  return {{"name", device_name(number, {.profile = profile.id, .start = start})},
          {"attributes", std::move(attributes)},
          {"capacity", std::move(capacity)},
          {"consumesCounters",
           consumed(number, start, profile.memory_slices, profile.media_extensions)}};
}

void add_taint(json& entry, const SliceOptions& options) {
  entry["taints"] = json::array({{{"key", options.driver + "/gpu-lost"},
                                  {"value", "true"},
                                  {"effect", options.taint_effect}}});
}

/// Returns whether the API server has dropped taints.
bool lacks_taints(const json& devices, const json& kept) {
  for (std::size_t i = 0; i < devices.size() && i < kept.size(); ++i) {
    if (devices[i].contains("taints") && !kept[i].contains("taints")) return true;
  }
  return false;
}

json without_tainted(const json& devices) {
  json left = json::array();
  for (const json& entry : devices) {
    if (!entry.contains("taints")) left.push_back(entry);
  }
  return left;
}

}  // namespace

std::string device_name(std::size_t gpu) {
  return fmt::format("gpu-{}", gpu);
}

Bytes published_memory(const device::DeviceSnapshot& gpu) {
  return gpu.memory_total + gpu.facts.reserved_memory_bytes;
}

json devices_of(std::span<const device::DeviceSnapshot> gpus, const std::vector<bool>& lost,
                const SliceOptions& options) {
  json devices = json::array();
  for (std::size_t number = 0; number < gpus.size(); ++number) {
    devices.push_back(device_of(gpus[number], number, options.divided, options));
    if (lost[number]) add_taint(devices.back(), options);
  }
  return devices;
}

std::string device_name(std::size_t gpu, const containers::MigPlacement& mig) {
  return fmt::format("{}-mig-{}-{}", device_name(gpu), mig.profile, mig.start);
}

std::optional<containers::GpuPart> part_of_device(std::string_view name) {
  containers::GpuPart part;
  const std::string text(name);
  containers::MigPlacement mig;
  int read = 0;
  const bool is_mig = std::sscanf(text.c_str(), "gpu-%zu-mig-%d-%d%n", &part.gpu, &mig.profile,
                                  &mig.start, &read) == 3;
  if (is_mig) part.mig = mig;
  if (!is_mig && std::sscanf(text.c_str(), "gpu-%zu%n", &part.gpu, &read) != 1) {
    return std::nullopt;
  }
  // Nothing is behind it, and no number has another form.
  const bool is_it = name == (is_mig ? device_name(part.gpu, mig) : device_name(part.gpu));
  return is_it ? std::optional(part) : std::nullopt;
}

json mig_devices_of(const device::DeviceSnapshot& gpu, std::size_t number, bool lost,
                    const SliceOptions& options) {
  json devices = json::array({device_of(gpu, number, false, options)});
  devices[0]["consumesCounters"] =
      consumed(number, 0, profile::memory_slices_of(options.mig), true);
  for (const profile::MigProfile& profile : options.mig) {
    if (!profile.memory_bytes || !profile.multiprocessors) continue;
    for (const int start : profile.starts) {
      devices.push_back(mig_device(gpu, number, profile, start, options));
    }
  }
  for (json& entry : devices) {
    if (lost) add_taint(entry, options);
  }
  return devices;
}

json counters_of(std::size_t gpu, const SliceOptions& options) {
  json counters = {{kMediaCounter, {{"value", "1"}}}};
  for (int slice = 0; slice < profile::memory_slices_of(options.mig); ++slice) {
    counters[slice_counter(slice)] = {{"value", "1"}};
  }
  return json::array({{{"name", device_name(gpu)}, {"counters", std::move(counters)}}});
}

std::string PublishedSlice::path() const {
  return fmt::format("{}/{}", kSlices, name());
}

Result<json> PublishedSlice::put(const json* old, const json& devices, const json& counters) {
  json slice = {{"apiVersion", "resource.k8s.io/v1"}, {"kind", "ResourceSlice"}};
  slice["metadata"] = {{"name", name()}};
  slice["spec"] = {
      {"driver", options_.driver},
      {"nodeName", options_.node},
      {"pool", {{"name", options_.node}, {"generation", 1}, {"resourceSliceCount", 1}}},
      {"devices", devices}};
  if (!part_.empty()) slice["spec"]["pool"]["name"] = options_.node + '/' + part_;
  if (!counters.is_null()) slice["spec"]["sharedCounters"] = counters;
  if (old != nullptr) {
    const auto generation = old->at("spec").at("pool").value("generation", 1);
    slice["metadata"] = old->at("metadata");
    slice["spec"]["pool"]["generation"] = generation + 1;
    return server_.replace(path(), slice);
  }
  // It goes when the node does.
  GPEMU_ASSIGN(const json node, server_.get("/api/v1/nodes/" + options_.node));
  slice["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                                       {"kind", "Node"},
                                                       {"name", options_.node},
                                                       {"uid", node.at("metadata").at("uid")},
                                                       {"controller", true}}});
  return server_.create(kSlices, slice);
}

Result<bool> PublishedSlice::publish(const json& devices, const json& counters) {
  if (devices.size() > kMostDevices) {
    return fail(ErrorCode::kUnsupported, "a ResourceSlice has at most {} devices, not {}",
                kMostDevices, devices.size());
  }
  const auto old = server_.get(path());
  if (!old && old.error().code != ErrorCode::kNotFound) return std::unexpected(old.error());
  const json* const there = old ? &*old : nullptr;
  if (old && devices == wanted_ && old->at("spec").value("devices", json::array()) == kept_) {
    return false;
  }
  GPEMU_ASSIGN(json made, put(there, devices, counters));
  if (!counters.is_null() && !made.at("spec").contains("sharedCounters")) {
    // Without them, claims would get instances that overlap.
    GPEMU_TRY(remove());
    return fail(ErrorCode::kUnsupported,
                "the API server keeps no counters of {}: switch on the feature gate "
                "DRAPartitionableDevices, or leave --mig out",
                name());
  }
  json kept = made.at("spec").value("devices", json::array());
  if (lacks_taints(devices, kept)) {
    GPEMU_ASSIGN(made, put(&made, without_tainted(devices), counters));
    kept = made.at("spec").value("devices", json::array());
  }
  wanted_ = devices;
  kept_ = std::move(kept);
  return true;
}

Result<void> PublishedSlice::remove() {
  const auto removed = server_.remove(path());
  if (removed || removed.error().code == ErrorCode::kNotFound) return {};
  return std::unexpected(removed.error());
}

}  // namespace gpemu::tools
