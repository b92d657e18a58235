// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/pod_devices.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <grpcpp/grpcpp.h>
#include <optional>
#include <pod_resources.grpc.pb.h>
#include <set>
#include <string_view>

namespace gpemu::tools {
namespace {

constexpr std::chrono::seconds kPatience(5);

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A GPU of the machine, and which replica of it.
struct Place {
  std::size_t gpu = 0;
  int tenant = 0;

  bool operator<(const Place& other) const { return gpu < other.gpu; }
};

/// Reads the name of a device of the device plugin: "UUID", or "UUID::REPLICA".
std::optional<Place> place_of(std::string_view id, std::span<const std::string> uuids) {
  const std::size_t end = std::min(id.find("::"), id.size());
  const auto gpu = std::ranges::find(uuids, id.substr(0, end));
  if (gpu == uuids.end()) return std::nullopt;
  Place place{.gpu = static_cast<std::size_t>(gpu - uuids.begin())};
  if (end < id.size()) place.tenant = number_in(id.substr(end + 2)).value_or(-1) + 1;
  return place;
}

/// Reads the name of a device of the DRA driver: "gpu-NUMBER".
std::optional<Place> place_of_claim(std::string_view name, std::span<const std::string> uuids) {
  constexpr std::string_view kPrefix = "gpu-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto number = number_in(name.substr(kPrefix.size()));
  if (!number || *number < 0 || std::cmp_greater_equal(*number, uuids.size())) return std::nullopt;
  return Place{.gpu = static_cast<std::size_t>(*number)};
}

/// Returns the GPUs of a container, each with the first of the replicas that it has.
std::set<Place> places_of(const v1::ContainerResources& container,
                          std::span<const std::string> uuids) {
  std::set<Place> places;
  const auto add = [&places](const std::optional<Place>& place) {
    if (!place) return;
    const auto known = places.find(*place);
    if (known != places.end() && known->tenant <= place->tenant) return;
    places.erase(*place);
    places.insert(*place);
  };
  for (const auto& resource : container.devices()) {
    for (const std::string& id : resource.device_ids()) add(place_of(id, uuids));
  }
  for (const auto& claim : container.dynamic_resources()) {
    for (const auto& device : claim.claim_resources()) {
      add(place_of_claim(device.device_name(), uuids));
    }
  }
  return places;
}

}  // namespace

Result<GpuHolders> ask_kubelet(const std::filesystem::path& socket,
                               std::span<const std::string> uuids) {
  const auto channel =
      grpc::CreateChannel("unix://" + socket.string(), grpc::InsecureChannelCredentials());
  const auto kubelet = v1::PodResourcesLister::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::ListPodResourcesResponse answer;
  const grpc::Status status = kubelet->List(&context, {}, &answer);
  if (!status.ok()) {
    return fail(ErrorCode::kIo, "the kubelet does not say at {} which pods have GPUs: {}",
                socket.string(), status.error_message());
  }
  GpuHolders holders;
  for (const auto& pod : answer.pod_resources()) {
    for (const auto& container : pod.containers()) {
      for (const Place& place : places_of(container, uuids)) {
        holders.emplace(place.gpu, GpuHolder{.name_space = pod.namespace_(),
                                             .pod = pod.name(),
                                             .container = container.name(),
                                             .tenant = place.tenant});
      }
    }
  }
  return holders;
}

}  // namespace gpemu::tools
