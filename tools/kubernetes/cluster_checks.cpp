// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/cluster_checks.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kubernetes/pod_facts.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr std::string_view kVendor = "nvidia.com/";

const json& member(const json& object, const char* pointer) {
  static const json kNothing;
  const json::json_pointer place(pointer);
  return object.contains(place) ? object.at(place) : kNothing;
}

Result<json> items_of(ApiServer& server, const std::string& path) {
  GPEMU_ASSIGN(const json list, server.get(path));
  return list.value("items", json::array());
}

double quantity_in(const json& quantities, const std::string& resource) {
  const json value = quantities.is_object() ? quantities.value(resource, json()) : json();
  return value.is_string() ? parse_quantity(value.get<std::string>()).value_or(0) : 0;
}

bool is_ready(const json& node) {
  return std::ranges::any_of(member(node, "/status/conditions"), [](const json& condition) {
    return condition.value("type", "") == "Ready" && condition.value("status", "") == "True";
  });
}

/// Adds what a node offers; returns whether it has GPUs.
bool check_node(const json& node, std::vector<Finding>& findings) {
  const std::string name = text_at(node, "/metadata/name");
  const json& capacity = member(node, "/status/capacity");
  bool has_gpus = false;
  for (const auto& [resource, value] : capacity.items()) {
    const double all = quantity_in(capacity, resource);
    const bool is_gpu = resource.starts_with(kVendor) && all > 0;
    if (!is_gpu) continue;
    has_gpus = true;
    const double healthy = quantity_in(member(node, "/status/allocatable"), resource);
    findings.push_back(
        {.is_fault = healthy < all,
         .text = fmt::format("node {}: {} of {} {} are healthy", name, healthy, all, resource)});
    if (healthy < all) {
      findings.back().text +=
          "; `kubectl get events` and the plugin's log say which fault they have";
    }
  }
  if (has_gpus && !is_ready(node)) {
    findings.push_back({.is_fault = true, .text = fmt::format("node {} is not ready", name)});
  }
  return has_gpus;
}

/// Adds the devices of claims; returns whether there are any.
Result<bool> check_slices(ApiServer& server, std::vector<Finding>& findings) {
  const auto slices = server.get("/apis/resource.k8s.io/v1/resourceslices");
  if (!slices && slices.error().code == ErrorCode::kNotFound) return false;
  if (!slices) return std::unexpected(slices.error());
  bool has_any = false;
  for (const json& slice : slices->value("items", json::array())) {
    const json& devices = member(slice, "/spec/devices");
    // Other drivers publish slices, too.
    const bool has_gpus = std::ranges::any_of(devices, [](const json& device) {
      const std::string type = text_at(device, "/attributes/type/string");
      return type == "gpu" || type == "mig";
    });
    if (!has_gpus) continue;
    const auto tainted = std::ranges::count_if(
        devices, [](const json& device) { return device.contains("taints"); });
    has_any = true;
    findings.push_back({.is_fault = tainted != 0,
                        .text = fmt::format("node {}: {} devices of {}, {} with taints",
                                            text_at(slice, "/spec/nodeName"), devices.size(),
                                            text_at(slice, "/spec/driver"), tainted)});
  }
  return has_any;
}

bool asks_for_gpus(const json& pod) {
  if (!member(pod, "/spec/resourceClaims").empty()) return true;
  return std::ranges::any_of(member(pod, "/spec/containers"), [](const json& container) {
    for (const auto& [resource, value] : member(container, "/resources/limits").items()) {
      if (resource.starts_with(kVendor)) return true;
    }
    return false;
  });
}

/// Returns why a pod does not run: as the scheduler says it, or its container's state.
std::string reason_of(const json& pod) {
  for (const json& condition : member(pod, "/status/conditions")) {
    const bool waits =
        condition.value("type", "") == "PodScheduled" && condition.value("status", "") == "False";
    if (waits) return condition.value("message", "no scheduler has bound it");
  }
  for (const json& status : member(pod, "/status/containerStatuses")) {
    const std::string reason = text_at(status, "/state/waiting/reason");
    const std::string message = text_at(status, "/state/waiting/message");
    if (!reason.empty()) return message.empty() ? reason : reason + ": " + message;
  }
  const std::string message = text_at(pod, "/status/message");
  return message.empty() ? "`kubectl describe pod` has its events" : message;
}

}  // namespace

Result<std::vector<Finding>> check_cluster(ApiServer& server) {
  std::vector<Finding> findings;
  GPEMU_ASSIGN(const json nodes, items_of(server, "/api/v1/nodes"));
  bool has_gpus = false;
  for (const json& node : nodes) has_gpus = check_node(node, findings) || has_gpus;
  GPEMU_ASSIGN(const bool has_slices, check_slices(server, findings));
  if (!has_gpus && !has_slices) {
    findings.push_back(
        {.is_fault = true,
         .text = fmt::format("none of {} nodes offers GPUs: start `gpemu-kubernetes device-plugin` "
                             "or `dra-driver` on them, or apply `gpemu-kubernetes manifests`",
                             nodes.size())});
  }
  GPEMU_ASSIGN(const json pods, items_of(server, "/api/v1/pods"));
  for (const json& pod : pods) {
    const std::string phase = text_at(pod, "/status/phase");
    const bool is_over = phase == "Running" || phase == "Succeeded" || phase == "Failed";
    if (is_over || !asks_for_gpus(pod)) continue;
    findings.push_back(
        {.is_fault = true,
         .text = fmt::format("pod {}/{} is {}: {}", text_at(pod, "/metadata/namespace"),
                             text_at(pod, "/metadata/name"), phase, reason_of(pod))});
  }
  return findings;
}

}  // namespace gpemu::tools
