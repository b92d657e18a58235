// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/resource_claim.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "kubernetes/pod_facts.hpp"
#include "kubernetes/resource_slice.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

/// Returns the value at a path of keys; null if there is none.
const json& at(const json& object, std::initializer_list<const char*> keys) {
  static const json kNone;
  const json* found = &object;
  for (const char* key : keys) {
    if (!found->is_object() || !found->contains(key)) return kNone;
    found = &(*found)[key];
  }
  return *found;
}

std::string text_at(const json& object, std::initializer_list<const char*> keys) {
  const json& found = at(object, keys);
  return found.is_string() ? found.get<std::string>() : "";
}

/// Returns the share of `whole` that a claim has of a capacity; nothing if the claim's status does
/// not say so, as of devices that are not divided.
Result<std::optional<double>> consumed(const json& result, const char* capacity, double whole) {
  const std::string text = text_at(result, {"consumedCapacity", capacity});
  if (text.empty()) return std::nullopt;
  GPEMU_ASSIGN(const double quantity, quantity_of(text));
  return quantity / whole;
}

Result<containers::GpuPart> part_of(const std::string& device, std::size_t count) {
  const std::optional<containers::GpuPart> part = part_of_device(device);
  if (part && part->gpu < count) return *part;
  return fail(ErrorCode::kNotFound,
              "the device '{}' is none of this node's: the driver has {} GPUs", device, count);
}

/// Returns an error for what a claim or its class asks the driver for in its own words, unless it
/// is what is done anyway.
Result<void> check_configuration(const json& configuration) {
  const json& parameters = at(configuration, {"opaque", "parameters"});
  const std::string kind = text_at(parameters, {"kind"});
  const std::string strategy = text_at(parameters, {"sharing", "strategy"});
  const std::string interval = text_at(parameters, {"sharing", "timeSlicingConfig", "interval"});
  const bool is_usual = (kind == "GpuConfig" || kind == "MigDeviceConfig") &&
                        (strategy.empty() || strategy == "TimeSlicing") &&
                        (interval.empty() || interval == "Default");
  if (is_usual) return {};
  return fail(
      ErrorCode::kUnsupported,
      "the configuration '{}'{}{} is not supported: containers with one claim share its GPUs "
      "by time slices of the default length; leave it out",
      kind, strategy.empty() ? "" : " with " + strategy,
      interval.empty() ? "" : " and the interval " + interval);
}

}  // namespace

Result<double> quantity_of(const std::string& text) {
  if (const std::optional<double> number = parse_quantity(text)) return *number;
  return fail(ErrorCode::kCorruptData, "'{}' is no quantity of Kubernetes", text);
}

Result<std::vector<ClaimedGpu>> claimed_gpus(const json& claim, const std::string& driver,
                                             std::span<const Bytes> memory) {
  const json& allocated = at(claim, {"status", "allocation", "devices"});
  if (!allocated.is_object()) {
    return fail(ErrorCode::kUnavailable, "the scheduler has given it no devices");
  }
  for (const json& entry : at(allocated, {"config"})) {
    if (text_at(entry, {"opaque", "driver"}) == driver) GPEMU_TRY(check_configuration(entry));
  }
  std::vector<ClaimedGpu> gpus;
  for (const json& result : at(allocated, {"results"})) {
    if (text_at(result, {"driver"}) != driver) continue;
    const json& admin = at(result, {"adminAccess"});
    if (admin.is_boolean() && admin.get<bool>()) {
      return fail(ErrorCode::kUnsupported,
                  "adminAccess is not supported: a container sees its own GPUs only");
    }
    const std::string request = text_at(result, {"request"});
    ClaimedGpu gpu{.request = request.substr(0, request.find('/')),
                   .pool = text_at(result, {"pool"}),
                   .device = text_at(result, {"device"}),
                   .part = {}};
    GPEMU_ASSIGN(gpu.part, part_of(gpu.device, memory.size()));
    GPEMU_ASSIGN(const auto bytes,
                 consumed(result, "memory", static_cast<double>(memory[gpu.part.gpu])));
    GPEMU_ASSIGN(const auto percent, consumed(result, "cores", 100));
    gpu.part.memory = bytes.value_or(1);
    gpu.part.compute = percent.value_or(1);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<ClaimUse> claim_uses(const json& pod) {
  std::map<std::string, std::string> objects;  // by the name that the pod's containers use.
  for (const json& claim : at(pod, {"spec", "resourceClaims"})) {
    objects[text_at(claim, {"name"})] = text_at(claim, {"resourceClaimName"});
  }
  for (const json& status : at(pod, {"status", "resourceClaimStatuses"})) {
    objects[text_at(status, {"name"})] = text_at(status, {"resourceClaimName"});
  }
  std::vector<ClaimUse> uses;
  for (const char* kind : {"initContainers", "containers"}) {
    for (const json& container : at(pod, {"spec", kind})) {
      for (const json& claim : at(container, {"resources", "claims"})) {
        uses.push_back({.container = text_at(container, {"name"}),
                        .claim = objects[text_at(claim, {"name"})],
                        .request = text_at(claim, {"request"})});
      }
    }
  }
  const json& extended = at(pod, {"status", "extendedResourceClaimStatus"});
  for (const json& mapping : at(extended, {"requestMappings"})) {
    uses.push_back({.container = text_at(mapping, {"containerName"}),
                    .claim = text_at(extended, {"resourceClaimName"}),
                    .request = text_at(mapping, {"requestName"})});
  }
  return uses;
}

}  // namespace gpemu::tools
