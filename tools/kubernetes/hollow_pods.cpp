// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/hollow_pods.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr double kForever = std::numeric_limits<double>::infinity();

json condition(const char* type, const char* status, const std::string& time) {
  return {{"type", type}, {"status", status}, {"lastTransitionTime", time}};
}

json conditions_of(const char* ready, const std::string& time) {
  return {condition("PodScheduled", "True", time), condition("Initialized", "True", time),
          condition("PodReadyToStartContainers", ready, time),
          condition("ContainersReady", ready, time), condition("Ready", ready, time)};
}

json container_statuses(const std::vector<std::string>& names, const json& state, bool ready) {
  json statuses = json::array();
  for (const std::string& name : names) {
    statuses.push_back({{"name", name},
                        {"image", "hollow"},
                        {"imageID", "hollow"},
                        {"ready", ready},
                        {"restartCount", 0},
                        {"state", state}});
  }
  return statuses;
}

std::vector<std::string> containers_of(const json& pod) {
  std::vector<std::string> names;
  for (const json& container : pod.value(json::json_pointer("/spec/containers"), json::array())) {
    names.push_back(container.value("name", ""));
  }
  return names;
}

json failed_status(const std::string& reason, const std::string& message) {
  return {{"status", {{"phase", "Failed"}, {"reason", reason}, {"message", message}}}};
}

json quantities(const HollowNode& node) {
  json all{{"cpu", fmt::format("{}m", node.host.millicores)},
           {"memory", fmt::format("{}Mi", node.host.memory_mib)},
           {"pods", std::to_string(node.pods)}};
  if (node.gpus != 0) all[kGpuResource] = std::to_string(node.gpus);
  return all;
}

}  // namespace

json node_conditions(double now_s) {
  const std::string time = api_time(now_s);
  json conditions = json::array();
  const auto add = [&](const char* type, const char* status, const char* reason) {
    conditions.push_back({{"type", type},
                          {"status", status},
                          {"reason", reason},
                          {"message", "a hollow node of gpemu-kubernetes"},
                          {"lastHeartbeatTime", time},
                          {"lastTransitionTime", time}});
  };
  add("Ready", "True", "KubeletReady");
  add("MemoryPressure", "False", "KubeletHasSufficientMemory");
  add("DiskPressure", "False", "KubeletHasNoDiskPressure");
  add("PIDPressure", "False", "KubeletHasSufficientPID");
  return conditions;
}

json node_object(const HollowNode& node, double now_s) {
  json labels = node.labels;
  labels[kHollowMark] = "true";
  labels["kubernetes.io/hostname"] = node.name;
  labels["kubernetes.io/os"] = "linux";
  labels["kubernetes.io/arch"] = "amd64";
  const json taint{{"key", kHollowMark}, {"value", "true"}, {"effect", "NoSchedule"}};
  const json address{{"type", "Hostname"}, {"address", node.name}};
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", {{"name", node.name}, {"labels", labels}}},
          {"spec", {{"taints", json::array({taint})}}},
          {"status",
           {{"capacity", quantities(node)},
            {"allocatable", quantities(node)},
            {"conditions", node_conditions(now_s)},
            {"addresses", json::array({address})},
            {"nodeInfo",
             {{"architecture", "amd64"},
              {"bootID", ""},
              {"containerRuntimeVersion", "hollow://1"},
              {"kernelVersion", ""},
              {"kubeProxyVersion", ""},
              {"kubeletVersion", "hollow"},
              {"machineID", ""},
              {"operatingSystem", "linux"},
              {"osImage", "hollow"},
              {"systemUUID", ""}}}}}};
}

HollowPods::HollowPods(std::vector<HollowNode> nodes, double speed)
    : nodes_(std::move(nodes)), speed_(speed), on_node_(nodes_.size()) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) places_[nodes_[i].name] = i;
}

void HollowPods::listed(const std::vector<json>& pods, double now_s) {
  std::set<std::string> listed;
  for (const json& pod : pods) {
    listed.insert(text_at(pod, "/metadata/uid"));
    changed("MODIFIED", pod, now_s);
  }
  std::vector<std::string> gone;
  for (const auto& [uid, pod] : pods_) {
    if (!listed.contains(uid)) gone.push_back(uid);
  }
  for (const std::string& uid : gone) forget(uid);
}

void HollowPods::changed(std::string_view type, const json& object, double now_s) {
  const std::string uid = text_at(object, "/metadata/uid");
  if (type == "DELETED") return forget(uid);
  const auto place = places_.find(text_at(object, "/spec/nodeName"));
  if (place == places_.end()) return;
  auto facts = facts_of(object);
  if (!facts) {
    const bool is_new = pods_.try_emplace(uid).second;
    const std::string path =
        fmt::format("/api/v1/namespaces/{}/pods/{}", text_at(object, "/metadata/namespace"),
                    text_at(object, "/metadata/name"));
    if (is_new) now_.push_back({uid, path, failed_status("InvalidPod", facts.error().message)});
    return;
  }
  const auto known = pods_.find(uid);
  if (known == pods_.end()) return accept(object, *std::move(facts), now_s);
  Pod& pod = known->second;
  pod.facts = *std::move(facts);
  if (pod.facts.is_deleted) {
    stop(pod, now_s);
  } else if (pod.phase == Phase::kRunning) {
    set_pace(pod, now_s);
  }
}

void HollowPods::accept(const json& object, PodFacts facts, double now_s) {
  Pod& pod = pods_[facts.uid];
  pod.facts = std::move(facts);
  pod.node = places_.at(pod.facts.node);
  pod.containers = containers_of(object);
  if (pod.facts.is_deleted) return stop(pod, now_s);
  if (pod.facts.has_ended()) return;
  const auto [reason, message] = misfit(pod);
  if (reason.empty()) return start(pod, now_s);
  now_.push_back({pod.facts.uid, pod.facts.path(), failed_status(reason, message)});
}

bool HollowPods::has_gpus_of_others(const Pod& pod) const {
  const auto mine = parse_numbers(pod.facts.text(annotation::kGpuIndices));
  if (!mine) return false;
  const std::string group = pod.facts.text(annotation::kSharing);
  for (const double gpu : *mine) {
    std::uint32_t used = pod.facts.gpu_milli;
    std::set<std::string> groups;
    if (!group.empty()) groups.insert(group);
    for (const std::string& uid : on_node_[pod.node]) {
      const PodFacts& other = pods_.at(uid).facts;
      const auto theirs = parse_numbers(other.text(annotation::kGpuIndices));
      if (!theirs || std::ranges::find(*theirs, gpu) == theirs->end()) continue;
      const std::string with = other.text(annotation::kSharing);
      // Those that share GPUs have them once; those that give way to others have none.
      if (with == "beside" || (!with.empty() && !groups.insert(with).second)) continue;
      used += other.gpu_milli;
    }
    if (group != "beside" && used > scheduling::kWholeGpu) return true;
  }
  return false;
}

std::pair<std::string, std::string> HollowPods::misfit(const Pod& pod) const {
  const HollowNode& node = nodes_[pod.node];
  std::uint64_t gpus = 0;
  scheduling::HostShare host;
  for (const std::string& uid : on_node_[pod.node]) {
    const PodFacts& other = pods_.at(uid).facts;
    gpus += other.gpu_requests;
    host.millicores += other.requests.millicores;
    host.memory_mib += other.requests.memory_mib;
  }
  // As a kubelet says it. Source: Kubernetes, pkg/kubelet/lifecycle/predicate.go.
  const auto lacks = [](const char* resource, std::uint64_t asked, std::uint64_t used,
                        std::uint64_t all) -> std::pair<std::string, std::string> {
    if (asked == 0 || used + asked <= all) return {};
    return {fmt::format("OutOf{}", resource),
            fmt::format("Node didn't have enough resource: {}, requested: {}, used: {}, capacity: "
                        "{}",
                        resource, asked, used, all)};
  };
  const PodFacts& facts = pod.facts;
  auto found = lacks("pods", 1, on_node_[pod.node].size(), node.pods);
  if (found.first.empty()) found = lacks(kGpuResource, facts.gpu_requests, gpus, node.gpus);
  if (found.first.empty()) {
    found = lacks("cpu", facts.requests.millicores, host.millicores, node.host.millicores);
  }
  if (found.first.empty()) {
    found = lacks("memory", facts.requests.memory_mib, host.memory_mib, node.host.memory_mib);
  }
  if (!found.first.empty() || !has_gpus_of_others(pod)) return found;
  return {"UnexpectedAdmissionError",
          fmt::format("the GPUs {} are not free", facts.text(annotation::kGpuIndices))};
}

void HollowPods::start(Pod& pod, double now_s) {
  const PodFacts& facts = pod.facts;
  const auto seconds = facts.number(annotation::kSeconds, kForever);
  const auto done = facts.number(annotation::kDoneSeconds, 0);
  const auto restart = facts.number(annotation::kRestartSeconds, 0);
  const auto pace = facts.number(annotation::kPace, 1);
  for (const auto* number : {&seconds, &done, &restart, &pace}) {
    if (*number) continue;
    now_.push_back({facts.uid, facts.path(), failed_status("InvalidPod", number->error().message)});
    return;
  }
  const auto started = facts.number(annotation::kStarted, now_s);
  const bool ran = facts.phase == "Running" && started.has_value();
  pod.started_s = ran ? *started : now_s;
  pod.pace = *pace;
  // It is told apart from its work: a restart takes as long at any pace.
  pod.as_of_s = pod.started_s + *restart / speed_;
  pod.left_s = std::max(0.0, *seconds - *done);
  pod.phase = Phase::kRunning;
  ++running_;
  on_node_[pod.node].insert(facts.uid);
  set_due(pod, std::max(now_s, pod.as_of_s + pod.left_s * pod.pace / speed_));
  if (ran) return;
  const std::string time = api_time(now_s);
  const json state{{"running", {{"startedAt", time}}}};
  now_.push_back({facts.uid,
                  facts.path(),
                  {{"metadata",
                    {{"uid", facts.uid},
                     {"annotations", {{annotation::kStarted, fmt::format("{:.6f}", now_s)}}}}},
                   {"status",
                    {{"phase", "Running"},
                     {"startTime", time},
                     {"conditions", conditions_of("True", time)},
                     {"containerStatuses", container_statuses(pod.containers, state, true)}}}}});
}

void HollowPods::set_pace(Pod& pod, double now_s) {
  const double pace = pod.facts.number(annotation::kPace, 1).value_or(pod.pace);
  if (pace == pod.pace) return;
  if (now_s > pod.as_of_s) {
    pod.left_s = std::max(0.0, pod.left_s - (now_s - pod.as_of_s) * speed_ / pod.pace);
    pod.as_of_s = now_s;
  }
  pod.pace = pace;
  set_due(pod, pod.as_of_s + pod.left_s * pod.pace / speed_);
}

void HollowPods::set_due(Pod& pod, double due_s) {
  due_.erase({pod.due_s, pod.facts.uid});
  pod.due_s = due_s;
  if (std::isfinite(due_s)) due_.insert({due_s, pod.facts.uid});
}

void HollowPods::stop(Pod& pod, double now_s) {
  if (pod.phase == Phase::kStopping) return;
  const bool ran = pod.phase == Phase::kRunning;
  pod.phase = Phase::kStopping;
  const double wanted = pod.facts.number(annotation::kStopSeconds, 0).value_or(0);
  const double takes = ran ? std::min(wanted, static_cast<double>(pod.facts.grace_s)) : 0;
  set_due(pod, now_s + takes);
}

void HollowPods::end(Pod& pod, double now_s) {
  const std::string uid = pod.facts.uid;
  const bool is_stopped = pod.phase == Phase::kStopping;
  if (on_node_[pod.node].erase(uid) != 0) --running_;
  if (is_stopped) {
    now_.push_back({uid, pod.facts.path(), nullptr});
    return;
  }
  pod.phase = Phase::kEnded;
  const std::string time = api_time(now_s);
  const json state{{"terminated",
                    {{"exitCode", 0},
                     {"reason", "Completed"},
                     {"startedAt", api_time(pod.started_s)},
                     {"finishedAt", time}}}};
  now_.push_back(
      {uid,
       pod.facts.path(),
       {{"metadata",
         {{"uid", uid}, {"annotations", {{annotation::kEnded, fmt::format("{:.6f}", pod.due_s)}}}}},
        {"status",
         {{"phase", "Succeeded"},
          {"conditions", conditions_of("False", time)},
          {"containerStatuses", container_statuses(pod.containers, state, false)}}}}});
}

void HollowPods::forget(const std::string& uid) {
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  due_.erase({found->second.due_s, uid});
  if (on_node_[found->second.node].erase(uid) != 0) --running_;
  pods_.erase(found);
}

std::vector<PodRequest> HollowPods::take_due(double now_s) {
  while (!due_.empty() && due_.begin()->first <= now_s) {
    const std::string uid = due_.begin()->second;
    due_.erase(due_.begin());
    end(pods_.at(uid), now_s);
  }
  return std::exchange(now_, {});
}

double HollowPods::next_due_s() const {
  if (!now_.empty()) return -kForever;
  return due_.empty() ? kForever : due_.begin()->first;
}

}  // namespace gpemu::tools
