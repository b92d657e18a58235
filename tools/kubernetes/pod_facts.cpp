// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/pod_facts.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <utility>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

using nlohmann::json;
using scheduling::HostShare;

constexpr double kMilli = 1000;
constexpr double kMostGpusOfPod = 4096;
constexpr double kMostOfResource = 0x1p50;
constexpr double kMib = 1024.0 * 1024.0;

/// The suffixes of quantities. Source: Kubernetes' API reference, "Quantity".
constexpr auto kSuffixes = std::to_array<std::pair<std::string_view, double>>({{"", 1},
                                                                               {"n", 1e-9},
                                                                               {"u", 1e-6},
                                                                               {"m", 1e-3},
                                                                               {"k", 1e3},
                                                                               {"M", 1e6},
                                                                               {"G", 1e9},
                                                                               {"T", 1e12},
                                                                               {"P", 1e15},
                                                                               {"E", 1e18},
                                                                               {"Ki", 0x1p10},
                                                                               {"Mi", 0x1p20},
                                                                               {"Gi", 0x1p30},
                                                                               {"Ti", 0x1p40},
                                                                               {"Pi", 0x1p50},
                                                                               {"Ei", 0x1p60}});

/// What containers ask for.
struct Requests {
  double cores = 0;
  double bytes = 0;
  double gpus = 0;
};

Result<double> request_of(const json& container, const char* resource) {
  for (const char* list : {"requests", "limits"}) {
    const json::json_pointer pointer = json::json_pointer("/resources") / list / resource;
    if (!container.contains(pointer)) continue;
    const json& value = container.at(pointer);
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const std::optional<double> number = parse_quantity(text);
    // Sums of them fit into 64 bits.
    if (number && *number >= 0 && *number <= kMostOfResource) return *number;
    return fail(ErrorCode::kInvalidArgument,
                "{} of a container is '{}', which is no quantity, or too large a one", resource,
                text);
  }
  return 0;
}

Result<Requests> requests_of(const json& container) {
  Requests requests;
  GPEMU_ASSIGN(requests.cores, request_of(container, "cpu"));
  GPEMU_ASSIGN(requests.bytes, request_of(container, "memory"));
  GPEMU_ASSIGN(requests.gpus, request_of(container, kGpuResource));
  return requests;
}

/// The containers' sum, or what one that runs before them asks for, if that is more. Source:
/// Kubernetes, "Resource sharing within containers" of init containers; those that go on beside the
/// others count with them.
Result<Requests> requests_of_pod(const json& spec) {
  Requests sum;
  const auto add = [](Requests& to, const Requests& more) {
    to.cores += more.cores;
    to.bytes += more.bytes;
    to.gpus += more.gpus;
  };
  for (const json& container : spec.value("containers", json::array())) {
    GPEMU_ASSIGN(const Requests more, requests_of(container));
    add(sum, more);
  }
  Requests most;
  for (const json& container : spec.value("initContainers", json::array())) {
    GPEMU_ASSIGN(const Requests more, requests_of(container));
    if (container.value("restartPolicy", "") == "Always") add(sum, more);
    most.cores = std::max(most.cores, more.cores);
    most.bytes = std::max(most.bytes, more.bytes);
    most.gpus = std::max(most.gpus, more.gpus);
  }
  return Requests{.cores = std::max(sum.cores, most.cores),
                  .bytes = std::max(sum.bytes, most.bytes),
                  .gpus = std::max(sum.gpus, most.gpus)};
}

/// Fills what the pod asks of GPUs.
Result<void> read_gpus(PodFacts& facts) {
  facts.gpus = facts.gpu_requests;
  GPEMU_ASSIGN(const double milli, facts.number(annotation::kGpuMilli, scheduling::kWholeGpu, 1));
  const bool shares = facts.annotations.contains(annotation::kGpuMilli);
  if (milli > scheduling::kWholeGpu || milli != std::floor(milli)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} is {}; it must be a whole number from 1 to 1000, thousandths of a GPU",
                annotation::kGpuMilli, milli);
  }
  facts.gpu_milli = static_cast<std::uint32_t>(milli);
  const double otherwise = facts.gpus == 0 && shares ? 1 : facts.gpus;
  GPEMU_ASSIGN(const double gpus, facts.number(annotation::kGpus, otherwise));
  if (gpus != std::floor(gpus) || gpus > scheduling::kMaxGpusPerServer) {
    return fail(ErrorCode::kInvalidArgument, "{} is {}; it must be a whole number from 0 to {}",
                annotation::kGpus, gpus, scheduling::kMaxGpusPerServer);
  }
  const bool differs = gpus != facts.gpu_requests || shares;
  if (facts.gpu_requests != 0 && differs) {
    return fail(ErrorCode::kInvalidArgument,
                "the pod asks for {} {} and has {} or {}: give one of them", facts.gpu_requests,
                kGpuResource, annotation::kGpus, annotation::kGpuMilli);
  }
  facts.gpus = static_cast<std::uint32_t>(gpus);
  return {};
}

void read_annotations(const json& pod, PodFacts& facts) {
  for (const char* from : {"/metadata/labels", "/metadata/annotations"}) {
    const json::json_pointer pointer(from);
    if (!pod.contains(pointer) || !pod.at(pointer).is_object()) continue;
    const bool labels = pointer.back() == "labels";
    for (const auto& [key, value] : pod.at(pointer).items()) {
      const bool is_ours = key.starts_with("gpemu.dev/") || key.starts_with("scheduling.x-k8s.io/");
      if (is_ours && value.is_string()) facts.annotations[key] = value.get<std::string>();
      // Volcano's, Kubeflow's and scheduler-plugins' names of the same.
      if (labels && key == "pod-group.scheduling.sigs.k8s.io" && value.is_string()) {
        facts.annotations[annotation::kGroup] = value.get<std::string>();
      }
    }
  }
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto* const found =
      std::ranges::find(kSuffixes, suffix, &std::pair<std::string_view, double>::first);
  if (found == kSuffixes.end()) return std::nullopt;
  return number * found->second;
}

std::string text_at(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  if (!object.contains(place) || !object.at(place).is_string()) return "";
  return object.at(place).get<std::string>();
}

std::string PodFacts::text(const char* annotation) const {
  const auto found = annotations.find(annotation);
  return found == annotations.end() ? "" : found->second;
}

Result<double> PodFacts::number(const char* annotation, double otherwise, double least) const {
  return JobNotes("the annotation", "", annotations).number(annotation, otherwise, least);
}

namespace {

/// Fills what is known of how it runs: by a hollow node's annotation, else by the kubelet.
Result<void> read_status(const json& pod, PodFacts& facts) {
  const double started_s =
      facts.phase == "Running" ? parse_api_time(text_at(pod, "/status/startTime")).value_or(0) : 0;
  GPEMU_ASSIGN(facts.started_s, facts.number(annotation::kStarted, started_s));
  const std::string message = text_at(pod, "/status/containerStatuses/0/state/terminated/message");
  double progress = 0;
  const auto [end, error] =
      std::from_chars(message.data(), message.data() + message.size(), progress);
  if (error == std::errc{} && progress >= 0) facts.progress = progress;
  return {};
}

}  // namespace

Result<PodFacts> facts_of(const json& pod) {
  PodFacts facts;
  facts.uid = text_at(pod, "/metadata/uid");
  facts.name = text_at(pod, "/metadata/name");
  facts.name_space = text_at(pod, "/metadata/namespace");
  facts.node = text_at(pod, "/spec/nodeName");
  facts.phase = text_at(pod, "/status/phase");
  facts.scheduler = text_at(pod, "/spec/schedulerName");
  facts.is_deleted = !text_at(pod, "/metadata/deletionTimestamp").empty();
  facts.grace_s = pod.value(json::json_pointer("/metadata/deletionGracePeriodSeconds"), 0);
  facts.created_s = parse_api_time(text_at(pod, "/metadata/creationTimestamp")).value_or(0);
  for (const json& owner :
       pod.value(json::json_pointer("/metadata/ownerReferences"), json::array())) {
    if (owner.value("controller", false)) facts.owner = owner.value("uid", "");
  }
  for (const json& condition : pod.value(json::json_pointer("/status/conditions"), json::array())) {
    facts.has_disruption =
        facts.has_disruption || condition.value("type", "") == "DisruptionTarget";
  }
  read_annotations(pod, facts);
  GPEMU_TRY(read_status(pod, facts));
  GPEMU_ASSIGN(const Requests requests, requests_of_pod(pod.value("spec", json::object())));
  facts.requests = {.millicores = static_cast<std::uint64_t>(std::ceil(requests.cores * kMilli)),
                    .memory_mib = static_cast<std::uint64_t>(std::ceil(requests.bytes / kMib))};
  if (requests.gpus > kMostGpusOfPod) {
    return fail(ErrorCode::kInvalidArgument, "the pod asks for {} {}; no node has so many",
                requests.gpus, kGpuResource);
  }
  facts.gpu_requests = static_cast<std::uint32_t>(requests.gpus);
  GPEMU_TRY(read_gpus(facts));
  return facts;
}

std::string api_time(double time_s, bool exact) {
  const double whole = std::floor(time_s);
  const auto seconds = static_cast<std::time_t>(whole);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (exact) text += fmt::format(".{:06}", static_cast<int>((time_s - whole) * 1e6));
  return text + "Z";
}

std::optional<double> parse_api_time(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* const rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  double fraction = 0;
  const char* const end = copy.c_str() + copy.size();
  if (*rest == '.') std::from_chars(rest, end, fraction);
  return static_cast<double>(::timegm(&parts)) + fraction;
}

}  // namespace gpemu::tools
