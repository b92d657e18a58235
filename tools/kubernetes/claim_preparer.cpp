// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/claim_preparer.hpp"

#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "gpemu/containers/cdi_spec.hpp"

#include "kubernetes/resource_slice.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kCdiKind = "gpemu/claim";

std::string path_of(const std::string& name_space, const std::string& claim) {
  return fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", name_space, claim);
}

/// Returns the names of the pods for which a claim is reserved.
std::vector<std::string> pods_of(const json& claim) {
  std::vector<std::string> pods;
  const json status = claim.value("status", json::object());
  for (const json& user : status.value("reservedFor", json::array())) {
    if (user.value("resource", "") == "pods") pods.push_back(user.value("name", ""));
  }
  return pods;
}

}  // namespace

ClaimPreparer::ClaimPreparer(ClaimOptions options, ApiServer server, containers::GpuPool& pool)
    : options_(std::move(options)), server_(std::move(server)), pool_(pool) {
  for (int gpu = 0; gpu < pool.machine().device_count(); ++gpu) {
    memory_.push_back(published_memory(pool.machine().device_snapshot(gpu, TimePoint{})));
  }
}

std::filesystem::path ClaimPreparer::spec_of(const std::string& uid) const {
  return options_.cdi / fmt::format("gpemu-{}.json", uid);
}

Result<std::vector<ClaimedGpu>> ClaimPreparer::gpus_of(const json& claim) const {
  return claimed_gpus(claim, options_.driver, memory_);
}

Result<void> ClaimPreparer::check_others(const ClaimName& claim, const std::string& container,
                                         std::span<const ClaimUse> uses) {
  for (const ClaimUse& use : uses) {
    if (use.container != container || use.claim == claim.name) continue;
    const auto other = server_.get(path_of(claim.name_space, use.claim));
    if (!other) continue;
    const auto gpus = gpus_of(*other);
    if (!gpus || gpus->empty()) continue;
    return fail(ErrorCode::kUnsupported,
                "the container '{}' uses GPUs of the claims {} and {}, but can have those of one "
                "only: make one claim with several requests",
                container, claim.name, use.claim);
  }
  return {};
}

Result<bool> ClaimPreparer::by_request(const ClaimName& claim, const json& object) {
  std::map<std::string, std::set<std::string>> named;  // requests, by pod and container.
  bool is_by_request = false;
  for (const std::string& pod_name : pods_of(object)) {
    const auto pod =
        server_.get(fmt::format("/api/v1/namespaces/{}/pods/{}", claim.name_space, pod_name));
    if (!pod && pod.error().code == ErrorCode::kNotFound) continue;
    if (!pod) return std::unexpected(pod.error());
    const std::vector<ClaimUse> uses = claim_uses(*pod);
    for (const ClaimUse& use : uses) {
      if (use.claim != claim.name) continue;
      GPEMU_TRY(check_others(claim, use.container, uses));
      named[pod_name + '/' + use.container].insert(use.request);
      is_by_request = is_by_request || !use.request.empty();
    }
  }
  if (!is_by_request) return false;
  for (const auto& [container, requests] : named) {
    if (requests.size() == 1 && !requests.contains("")) continue;
    return fail(ErrorCode::kUnsupported,
                "the container {} uses several requests of the claim {}, of which containers name "
                "requests: each must name one, or none may",
                container, claim.name);
  }
  return true;
}

Result<std::vector<PreparedDevice>> ClaimPreparer::prepare(const ClaimName& claim) {
  const std::lock_guard lock(mutex_);
  GPEMU_ASSIGN(const json object, server_.get(path_of(claim.name_space, claim.name)));
  if (object.value("metadata", json::object()).value("uid", "") != claim.uid) {
    return fail(ErrorCode::kNotFound, "there is another claim of this name now");
  }
  GPEMU_ASSIGN(const std::vector<ClaimedGpu> gpus, gpus_of(object));
  GPEMU_ASSIGN(const bool is_by_request, by_request(claim, object));
  std::map<std::string, std::vector<containers::GpuPart>> groups;  // by the CDI device's name.
  std::vector<PreparedDevice> devices;
  for (const ClaimedGpu& gpu : gpus) {
    const std::string name = is_by_request ? claim.uid + '.' + gpu.request : claim.uid;
    groups[name].push_back(gpu.part);
    devices.push_back({.request = gpu.request,
                       .pool = gpu.pool,
                       .device = gpu.device,
                       .cdi = fmt::format("{}={}", kCdiKind, name)});
  }
  std::vector<containers::CdiDevice> specified;
  for (const auto& [name, parts] : groups) {
    GPEMU_ASSIGN(containers::ContainerEdits edits, pool_.give(name, parts, options_.division));
    specified.push_back({.name = name, .edits = std::move(edits)});
  }
  GPEMU_TRY(containers::write_cdi_spec(spec_of(claim.uid), kCdiKind, specified));
  return devices;
}

Result<void> ClaimPreparer::unprepare(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  const std::filesystem::path spec = spec_of(uid);
  std::error_code error;
  std::filesystem::remove(spec, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", spec.string(), error.message());
  return pool_.take_back(uid);
}

bool ClaimPreparer::is_healthy(std::size_t gpu) {
  const std::lock_guard lock(mutex_);
  return pool_.is_healthy(gpu);
}

}  // namespace gpemu::tools
