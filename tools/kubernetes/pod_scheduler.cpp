// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/pod_scheduler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placing_policy.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using scheduling::Decision;
using scheduling::Demand;
using scheduling::Fleet;
using scheduling::FreeResources;
using scheduling::GpuSet;
using scheduling::HostShare;
using scheduling::Job;
using scheduling::JobIndex;
using scheduling::JobPhase;
using scheduling::JobState;
using scheduling::PolicyScope;
using scheduling::Server;

/// How long a job is taken to run whose pods do not say it: longer than any that do.
constexpr double kUnknownSeconds = 1e9;
/// A job whose pods were evicted ends if none replaces them for so long.
constexpr double kReplacementS = 60;
/// Jobs that end within this time end together: policies see all of them, as in the simulation,
/// where jobs of the same length do. Source: kubelets report ends with some hundredths of a second
/// between them.
constexpr double kEndTogetherS = 0.1;
/// For so long, jobs wait for those that they are to arrive with.
constexpr double kTogetherS = 10;
/// A pod that waits is told why after so long; sooner, most have started.
constexpr double kExplainS = 5;
/// An eviction that failed, as by a budget of disruptions, is tried again after so long.
constexpr double kRetryS = 1;
constexpr int kMostPodsInGroup = 100'000;
/// Jobs that have ended are forgotten when they are so many, and more than half.
constexpr std::size_t kMostEnded = 10'000;
/// The names of how pods share their GPUs.
constexpr const char* kInTurns = "turns";
constexpr const char* kBeside = "beside";
/// What a pod was told that waits as others do.
const std::string kWaits = "waits";

/// Returns whether a pod's tolerations allow a taint. Source: Kubernetes, "Taints and Tolerations".
bool tolerates(const json& tolerations, const json& taint) {
  return std::ranges::any_of(tolerations, [&](const json& toleration) {
    const std::string effect = toleration.value("effect", "");
    if (!effect.empty() && effect != taint.value("effect", "")) return false;
    const bool any_value = toleration.value("operator", "Equal") == "Exists";
    const std::string key = toleration.value("key", "");
    if (key.empty()) return any_value;
    return key == taint.value("key", "") &&
           (any_value || toleration.value("value", "") == taint.value("value", ""));
  });
}

bool keeps_out(const json& taint) {
  return taint.value("effect", "") != "PreferNoSchedule";
}

std::string indices_of(std::uint64_t mask) {
  std::vector<int> indices;
  for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
    indices.push_back(std::countr_zero(rest));
  }
  return fmt::format("{}", fmt::join(indices, ","));
}

std::uint64_t mask_of(const PodFacts& facts) {
  std::uint64_t mask = 0;
  const auto indices = parse_numbers(facts.text(annotation::kGpuIndices));
  if (!indices) return 0;
  for (const double index : *indices) {
    if (index < 0 || index >= scheduling::kMaxGpusPerServer) return 0;
    mask |= std::uint64_t{1} << static_cast<std::uint32_t>(index);
  }
  return mask;
}

std::string text_of(double number) {
  return fmt::format("{:.9g}", number);
}

}  // namespace

struct PodScheduler::Node {
  std::string product;
  HostShare host;
  std::uint32_t gpus = 0;
  std::uint64_t pods = 0;
  bool is_ready = false;
  json taints = json::array();
  json labels = json::object();

  /// Returns whether policies see the same; labels only choose between nodes.
  [[nodiscard]] bool is_as(const Node& other) const {
    return product == other.product && host == other.host && gpus == other.gpus &&
           pods == other.pods && is_ready == other.is_ready && taints == other.taints;
  }
};

struct PodScheduler::Pod {
  PodFacts facts;
  json tolerations = json::array();
  json selector = json::object();
  std::string unsupported;  ///< what it asks for that no policy knows; empty: nothing.
  bool is_ours = false;
  std::string key;          ///< of its job; empty: it has none.
  std::string node;         ///< that it has, or is being bound to; empty: none.
  std::uint64_t mask = 0;   ///< its GPUs there.
  std::uint32_t epoch = 0;  ///< of its job, when it was bound.
  bool is_evicted = false;
  double seen_s = 0;
  std::string explained;  ///< what it was told.
  std::map<std::string, std::string> granted;
};

struct PodScheduler::LiveJob {
  std::string key;
  std::vector<std::string> pods;  ///< UIDs.
  std::uint32_t size = 1;
  std::uint64_t order = 0;
  std::optional<JobIndex> index;  ///< nothing: the policy does not know it.
  std::string refused;            ///< why not; empty: its pods are not complete.
  bool is_outside = false;        ///< it runs on nodes that are not in the fleet.
  std::string owner;              ///< whose next pod replaces an evicted one.
  double suspended_s = 0;         ///< since when it has no pods; 0: it has.
  std::optional<JobState> kept;   ///< of an earlier ledger.
  bool is_settled = false;        ///< its pods are as the policy wants, until something changes.
};

struct PodScheduler::Slot {
  std::string node;
  std::uint64_t mask = 0;
};

PodScheduler::PodScheduler(PodSchedulerSettings settings, double now_s)
    : settings_(std::move(settings)), epoch_s_(now_s) {}
PodScheduler::~PodScheduler() = default;

double PodScheduler::ask_again_s() const {
  const double by_policy_s = epoch_s_ + ask_again_s_ / settings_.speed;
  return ended_.empty() ? by_policy_s : std::min(by_policy_s, ends_until_s_);
}

std::vector<std::string> PodScheduler::take_complaints() {
  return std::exchange(complaints_, {});
}

// Nodes.

void PodScheduler::nodes_listed(const std::vector<json>& nodes) {
  std::set<std::string> names;
  for (const json& node : nodes) {
    names.insert(text_at(node, "/metadata/name"));
    node_changed("MODIFIED", node);
  }
  dirty_ =
      std::erase_if(nodes_, [&](const auto& known) { return !names.contains(known.first); }) != 0 ||
      dirty_;
}

void PodScheduler::node_changed(std::string_view type, const json& object) {
  const std::string name = text_at(object, "/metadata/name");
  if (type == "DELETED") {
    dirty_ = nodes_.erase(name) != 0 || dirty_;
    return;
  }
  const auto quantity = [&](const char* resource) {
    const json::json_pointer pointer = json::json_pointer("/status/allocatable") / resource;
    if (!object.contains(pointer) || !object.at(pointer).is_string()) return 0.0;
    return parse_quantity(object.at(pointer).get<std::string>()).value_or(0);
  };
  Node node;
  node.product = text_at(object, "/metadata/labels/nvidia.com~1gpu.product");
  node.labels = object.value(json::json_pointer("/metadata/labels"), json::object());
  const double replicas = parse_quantity(node.labels.value(kReplicasLabel, "1")).value_or(1);
  node.gpus = static_cast<std::uint32_t>(quantity(kGpuResource) +
                                         quantity(kSharedGpuResource) / std::max(replicas, 1.0));
  node.pods = static_cast<std::uint64_t>(quantity("pods"));
  node.host = {.millicores = static_cast<std::uint64_t>(std::floor(quantity("cpu") * 1000)),
               .memory_mib = static_cast<std::uint64_t>(std::floor(quantity("memory") / 0x1p20))};
  bool is_well = true;
  for (const json& taint : object.value(json::json_pointer("/spec/taints"), json::array())) {
    // Kubernetes' own come and go, as when a node is not ready.
    const bool is_own = taint.value("key", "").starts_with("node.kubernetes.io/");
    if (keeps_out(taint) && is_own) is_well = false;
    if (keeps_out(taint) && !is_own) node.taints.push_back(taint);
  }
  bool is_ready = false;
  for (const json& condition :
       object.value(json::json_pointer("/status/conditions"), json::array())) {
    if (condition.value("type", "") == "Ready") is_ready = condition.value("status", "") == "True";
  }
  const bool is_cordoned = object.value(json::json_pointer("/spec/unschedulable"), false);
  node.is_ready = is_ready && is_well && !is_cordoned && node.gpus != 0;
  if (node.gpus > scheduling::kMaxGpusPerServer) {
    complaints_.push_back(fmt::format("the node {} has {} GPUs, and is left out; it may have {}",
                                      name, node.gpus, scheduling::kMaxGpusPerServer));
    node.is_ready = false;
  }
  const auto known = nodes_.find(name);
  if (known != nodes_.end() && known->second.is_as(node)) {
    if (known->second.labels != node.labels) known_kinds_.clear();
    known->second.labels = std::move(node.labels);
    return;
  }
  const bool matters = node.is_ready || (known != nodes_.end() && known->second.is_ready);
  nodes_[name] = std::move(node);
  dirty_ = dirty_ || matters;
}

// Pods.

void PodScheduler::pods_listed(const std::vector<json>& pods, double now_s) {
  std::set<std::string> listed;
  std::vector<const json*> sorted;
  for (const json& pod : pods) {
    listed.insert(text_at(pod, "/metadata/uid"));
    sorted.push_back(&pod);
  }
  std::ranges::stable_sort(
      sorted, {}, [](const json* pod) { return text_at(*pod, "/metadata/creationTimestamp"); });
  for (const json* pod : sorted) pod_changed("MODIFIED", *pod, now_s);
  std::vector<std::string> gone;
  for (const auto& [uid, pod] : pods_) {
    if (!listed.contains(uid)) gone.push_back(uid);
  }
  for (const std::string& uid : gone) leave(uid, now_s);
}

void PodScheduler::pod_changed(std::string_view type, const json& object, double now_s) {
  const std::string uid = text_at(object, "/metadata/uid");
  if (type == "DELETED") {
    refused_.erase(uid);
    return leave(uid, now_s);
  }
  auto facts = facts_of(object);
  const bool is_ours = text_at(object, "/spec/schedulerName") == settings_.name;
  if (!facts) {
    const std::string phase = text_at(object, "/status/phase");
    const bool has_ended = phase == "Succeeded" || phase == "Failed";
    if (has_ended || pods_.contains(uid)) return has_ended ? leave(uid, now_s) : void();
    if (is_ours) return refuse(object, facts.error().message);
    // What it takes of its node counts, whatever its annotations say.
    json bare = object;
    bare["metadata"].erase("annotations");
    bare["metadata"].erase("labels");
    facts = facts_of(bare);
    if (!facts) return;
  }
  refused_.erase(uid);
  // Nobody may bind it yet.
  if (!object.value(json::json_pointer("/spec/schedulingGates"), json::array()).empty()) return;
  if (facts->has_ended()) return leave(uid, now_s);
  const bool is_new = !pods_.contains(uid);
  Pod& pod = pods_[uid];
  const bool starts = pod.facts.started_s != facts->started_s;
  const bool is_corrected = !is_new && pod.facts.annotations != facts->annotations;
  pod.facts = *std::move(facts);
  if (is_corrected) look_anew(pod);
  if (starts && !is_new) note_start(pod);
  if (!pod.facts.node.empty()) {
    const bool is_moved = pod.node != pod.facts.node;
    // Of others' pods, which GPUs they have is not known.
    const std::uint64_t mask = is_ours && pod.facts.gpus != 0 ? mask_of(pod.facts) : 0;
    if (is_moved || pod.mask != mask) place_on(pod, pod.facts.node, mask);
    if (is_moved && !is_ours) note_foreign(pod);
    // Another scheduler of this name has bound it: the ledger does not know.
    if (is_moved && is_ours && !is_new) dirty_ = true;
  }
  if (!is_new) {
    if (pod.facts.is_deleted && pod.facts.node.empty()) leave(uid, now_s);
    return;
  }
  pod.is_ours = is_ours;
  pod.seen_s = now_s;
  if (!is_ours || pod.facts.is_deleted) return;
  for (const char* name : {annotation::kGpuIndices, annotation::kPace, annotation::kSharing,
                           annotation::kCores, annotation::kMemoryMib}) {
    if (const std::string value = pod.facts.text(name); !value.empty()) pod.granted[name] = value;
  }
  pod.tolerations = object.value(json::json_pointer("/spec/tolerations"), json::array());
  pod.selector = object.value(json::json_pointer("/spec/nodeSelector"), json::object());
  if (object.contains(json::json_pointer("/spec/affinity"))) pod.unsupported = "an affinity";
  if (object.contains(json::json_pointer("/spec/topologySpreadConstraints"))) {
    pod.unsupported = "topology spread constraints";
  }
  if (object.contains(json::json_pointer("/spec/resourceClaims"))) {
    pod.unsupported = "claims of devices";
  }
  join(pod);
}

/// Tells a pod once what is wrong with it. If it is changed, it is looked at anew.
void PodScheduler::refuse(const json& object, const std::string& why) {
  Pod pod;
  pod.facts.uid = text_at(object, "/metadata/uid");
  pod.facts.name = text_at(object, "/metadata/name");
  pod.facts.name_space = text_at(object, "/metadata/namespace");
  std::string& told = refused_[pod.facts.uid];
  if (told == why) return;
  told = why;
  actions_.push_back(action(PodAction::Kind::kExplain, pod));
  actions_.back().message = why;
}

/// A pod that was refused has been changed.
void PodScheduler::look_anew(Pod& pod) {
  const auto job = live_.find(pod.key);
  if (job == live_.end() || job->second.refused.empty()) return;
  job->second.refused.clear();
  pod.explained.clear();
  new_.push_back(pod.key);
}

/// Makes what is known of a job's progress right: between its binding and its start is some time.
void PodScheduler::note_start(const Pod& pod) {
  const auto found = live_.find(pod.key);
  if (found == live_.end() || !found->second.index || !ledger_) return;
  const JobIndex index = *found->second.index;
  JobState state = ledger_->states()[index];
  if (state.phase != JobPhase::kRunning || pod.epoch != state.starts + state.moves) return;
  const Job& job = jobs_[index];
  const auto done_s = pod.facts.number(annotation::kDoneSeconds, 0);
  if (!done_s) return;
  const double time_s = time_of(pod.facts.started_s);
  state.held_s = std::max(0.0, state.held_s + time_s - state.as_of_s);
  state.as_of_s = time_s;
  state.progress_from_s = time_s + job.restart_s;
  state.iterations_left =
      job.iterations * std::max(1e-9, 1 - *done_s / (job.iterations * job.iteration_s));
  ledger_->recall(index, state);
}

void PodScheduler::note_foreign(const Pod& pod) {
  const auto node = nodes_.find(pod.node);
  const bool counts_hosts = settings_.policy == nullptr ||
                            settings_.policy->scope == PolicyScope::kAll ||
                            settings_.policy->scope == PolicyScope::kHosts;
  const bool asks =
      pod.facts.gpu_requests != 0 || (counts_hosts && pod.facts.requests != HostShare{});
  if (asks && node != nodes_.end() && node->second.is_ready) dirty_ = true;
}

void PodScheduler::place_on(Pod& pod, const std::string& node, std::uint64_t mask) {
  take_off(pod);
  pod.node = node;
  pod.mask = mask;
  on_node_[node].insert(pod.facts.uid);
}

void PodScheduler::take_off(Pod& pod) {
  if (pod.node.empty()) return;
  on_node_[pod.node].erase(pod.facts.uid);
  pod.node.clear();
  pod.mask = 0;
}

std::string PodScheduler::key_of(const Pod& pod) {
  const PodFacts& facts = pod.facts;
  for (const char* name : {annotation::kGroup, annotation::kJob}) {
    const std::string value = facts.text(name);
    if (!value.empty()) return fmt::format("{}/{}/{}", name, facts.name_space, value);
  }
  for (const auto& [key, job] : live_) {
    if (facts.owner.empty() || job.owner != facts.owner) continue;
    const bool has_evicted = std::ranges::any_of(
        job.pods, [&](const std::string& uid) { return pods_.at(uid).is_evicted; });
    if (job.suspended_s != 0 || has_evicted) return key;
  }
  return facts.uid;
}

void PodScheduler::join(Pod& pod) {
  const bool in_group = !pod.facts.text(annotation::kGroup).empty();
  const auto size = pod.facts.number(annotation::kGroupSize, 1, 1);
  if (in_group && (!size || *size > kMostPodsInGroup)) {
    actions_.push_back(action(PodAction::Kind::kExplain, pod));
    actions_.back().message =
        fmt::format("{} must be a number from 1 to {}", annotation::kGroupSize, kMostPodsInGroup);
    return;
  }
  pod.key = key_of(pod);
  const auto [found, is_new] = live_.try_emplace(pod.key);
  LiveJob& job = found->second;
  if (is_new) {
    job.key = pod.key;
    job.order = ++order_;
    if (in_group) job.size = static_cast<std::uint32_t>(*size);
  }
  const auto evicted = std::ranges::count_if(
      job.pods, [&](const std::string& uid) { return pods_.at(uid).is_evicted; });
  std::vector<std::string>& next = next_[pod.key];
  if (job.pods.size() >= job.size && std::cmp_less(next.size(), evicted)) {
    // It replaces one that is about to go.
    next.push_back(pod.facts.uid);
    return;
  }
  if (job.pods.size() >= job.size) {
    pod.unsupported = fmt::format("to be one more pod of {}, which has {}", job.key, job.size);
    pod.key.clear();
    actions_.push_back(action(PodAction::Kind::kExplain, pod));
    actions_.back().message = "it asks " + pod.unsupported;
    return;
  }
  job.pods.push_back(pod.facts.uid);
  job.is_settled = false;
  job.suspended_s = 0;
  job.owner = pod.facts.owner;
  // A leader before this one has bound it.
  if (!pod.node.empty()) dirty_ = true;
  if (!job.index && job.pods.size() == job.size) new_.push_back(pod.key);
}

void PodScheduler::leave(const std::string& uid, double now_s) {
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  Pod& pod = found->second;
  if (!pod.is_ours) note_foreign(pod);
  take_off(pod);
  const std::string key = pod.key;
  const bool is_replaced = pod.is_evicted && (key != uid || !pod.facts.owner.empty());
  pods_.erase(found);
  const auto job = live_.find(key);
  if (job == live_.end()) return;
  std::erase(job->second.pods, uid);
  job->second.is_settled = false;
  if (job->second.pods.empty() && !is_replaced) return end_job(key, now_s);
  if (job->second.pods.empty()) job->second.suspended_s = now_s;
  for (const std::string& other : std::exchange(next_[key], {})) {
    if (const auto waits = pods_.find(other); waits != pods_.end()) join(waits->second);
  }
}

void PodScheduler::binding_failed(const std::string& uid) {
  const auto found = pods_.find(uid);
  if (found == pods_.end() || !found->second.facts.node.empty()) return;
  take_off(found->second);
  if (const auto job = live_.find(found->second.key); job != live_.end()) {
    job->second.is_settled = false;
  }
}

void PodScheduler::eviction_failed(const std::string& uid, double now_s) {
  if (pods_.contains(uid)) retries_[uid] = now_s + kRetryS;
}

void PodScheduler::retry_evictions(double now_s) {
  std::erase_if(retries_, [&](const auto& retry) {
    if (now_s < retry.second) return false;
    const auto found = pods_.find(retry.first);
    if (found == pods_.end()) return true;
    found->second.is_evicted = false;
    const auto job = live_.find(found->second.key);
    if (job != live_.end()) job->second.is_settled = false;
    return true;
  });
}

// Jobs.

void PodScheduler::end_job(const std::string& key, double now_s) {
  const LiveJob& job = live_.at(key);
  if (job.index && ledger_) {
    ledger_->set_time(time_of(now_s));
    ledger_->end(*job.index);
    if (ended_.empty()) ends_until_s_ = now_s + kEndTogetherS;
    ended_.push_back(*job.index);
    keys_[*job.index].clear();
  }
  live_.erase(key);
  for (const std::string& uid : std::exchange(next_[key], {})) {
    if (const auto waits = pods_.find(uid); waits != pods_.end()) join(waits->second);
  }
  next_.erase(key);
}

void PodScheduler::end_forgotten(double now_s) {
  std::vector<std::string> forgotten;
  for (const auto& [key, job] : live_) {
    if (job.suspended_s != 0 && now_s - job.suspended_s > kReplacementS) forgotten.push_back(key);
  }
  for (const std::string& key : forgotten) end_job(key, now_s);
}

Result<std::uint64_t> PodScheduler::kinds_of(const Pod& pod) {
  if (!pod.unsupported.empty()) {
    return fail(ErrorCode::kUnsupported, "it asks for {}, which policies do not know",
                pod.unsupported);
  }
  const std::string question = pod.tolerations.dump() + pod.selector.dump();
  if (const auto known = known_kinds_.find(question); known != known_kinds_.end()) {
    return known->second;
  }
  std::uint64_t may = 0;
  std::uint64_t may_not = 0;
  for (const auto& [name, server] : servers_) {
    const Node& node = nodes_.at(name);
    const bool is_let_in = std::ranges::all_of(
        node.taints, [&](const json& taint) { return tolerates(pod.tolerations, taint); });
    const bool is_selected = std::ranges::all_of(pod.selector.items(), [&](const auto& wanted) {
      return node.labels.value(wanted.key(), json()) == wanted.value();
    });
    const std::uint64_t kind = std::uint64_t{1} << fleet_->kind_of(server);
    (is_let_in && is_selected ? may : may_not) |= kind;
  }
  if (may == 0) {
    return fail(ErrorCode::kUnsupported,
                "no node with GPUs has what its nodeSelector asks for, and no taint that it does "
                "not tolerate");
  }
  if ((may & may_not) != 0) {
    return fail(ErrorCode::kUnsupported,
                "its nodeSelector or its tolerations tell nodes with the same {} apart, which "
                "policies do not",
                kProductLabel);
  }
  return known_kinds_[question] = may;
}

Result<std::shared_ptr<const scheduling::SpeedProfile>> PodScheduler::speed_of(
    const PodFacts& facts, const std::string& model) {
  const std::string table = facts.text(annotation::kSpeeds);
  if (table.empty()) return nullptr;
  if (const auto known = known_speeds_.find(table); known != known_speeds_.end()) {
    return known->second;
  }
  // A table of speeds without the column of models: it is about this one.
  std::string text;
  std::string prefix = "model,";
  for (std::size_t begin = 0; begin < table.size();) {
    const std::size_t end = std::min(table.find('\n', begin), table.size());
    if (end > begin) text += prefix + table.substr(begin, end - begin) + "\n";
    prefix = model + ",";
    begin = end + 1;
  }
  GPEMU_ASSIGN(const scheduling::SpeedTable speeds,
               scheduling::parse_speeds(text, annotation::kSpeeds, *fleet_));
  const auto found = std::ranges::find_if(
      speeds, [](const auto& entry) { return entry.first.second == scheduling::kAnyGpus; });
  if (found == speeds.end()) {
    return fail(ErrorCode::kInvalidArgument, "{} has no row", annotation::kSpeeds);
  }
  return known_speeds_[table] = found->second;
}

Result<Job> PodScheduler::job_of(LiveJob& live) {
  const Pod& pod = pods_.at(live.pods.front());
  const PodFacts& facts = pod.facts;
  for (const std::string& uid : live.pods) {
    const PodFacts& other = pods_.at(uid).facts;
    if (other.gpus == facts.gpus && other.requests == facts.requests) continue;
    return fail(ErrorCode::kUnsupported, "the pods of {} ask for different things", live.key);
  }
  Job job;
  job.id = facts.name_space + "/" + facts.name;
  job.demand = {.gpus = facts.gpus * live.size, .gpu_share = facts.gpu_milli, .host = {}};
  job.demand.host = {.millicores = facts.requests.millicores * live.size,
                     .memory_mib = facts.requests.memory_mib * live.size};
  GPEMU_ASSIGN(job.demand.kinds, kinds_of(pod));
  GPEMU_ASSIGN(const double seconds, facts.number(annotation::kSeconds, kUnknownSeconds));
  GPEMU_ASSIGN(job.iterations, facts.number(annotation::kIterations, std::max(seconds, 1e-3)));
  job.iteration_s = std::max(seconds, 1e-3) / job.iterations;
  if (!(job.iterations > 0) || !std::isfinite(job.iteration_s)) {
    return fail(ErrorCode::kInvalidArgument, "{} of {} and {} of {} are no times of iterations",
                annotation::kSeconds, seconds, annotation::kIterations, job.iterations);
  }
  GPEMU_ASSIGN(job.restart_s, facts.number(annotation::kRestartSeconds, 0));
  GPEMU_ASSIGN(job.stated_s, facts.number(annotation::kStatedSeconds, 0));
  const auto stages = parse_numbers(facts.text(annotation::kStageSeconds));
  const bool are_times =
      stages && std::ranges::all_of(*stages, [](double stage_s) { return stage_s >= 0; });
  if (!are_times || (!stages->empty() && stages->size() != job.stages_s.size())) {
    return fail(ErrorCode::kInvalidArgument,
                "{} must be the seconds that an iteration spends on storage and processors, on "
                "GPUs and on the network, with commas between them",
                annotation::kStageSeconds);
  }
  std::ranges::copy(*stages, job.stages_s.begin());
  GPEMU_ASSIGN(job.speed, speed_of(facts, "model"));
  job.opportunistic = facts.text(annotation::kOpportunistic) == "true";
  const std::string user = facts.text(annotation::kUser);
  job.user = users_.try_emplace(user, static_cast<std::uint32_t>(users_.size())).first->second;
  return job;
}

Result<void> PodScheduler::check(const Job& job) {
  if (settings_.policy != nullptr) {
    GPEMU_TRY(scheduling::check_policy(*settings_.policy, *fleet_, std::span(&job, 1)));
    const HostShare each = fleet_->host_for_each_gpu();
    const HostShare share{.millicores = each.millicores * job.demand.gpus,
                          .memory_mib = each.memory_mib * job.demand.gpus};
    if (settings_.policy->scope == PolicyScope::kHosts && !job.demand.host.fits_in(share)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the policy {} hands out cores and memory, and job {} requests more than the {} "
                  "cores and {} MiB that its GPUs are worth",
                  settings_.policy->name, job.id, static_cast<double>(share.millicores) / 1000,
                  share.memory_mib);
    }
  }
  FreeResources all(*fleet_);
  if (all.take_together(job.demand)) return {};
  return fail(ErrorCode::kResourceLimit,
              "no nodes have together what it needs: {} GPUs, {} cores and {} MiB of memory",
              job.demand.gpus, static_cast<double>(job.demand.host.millicores) / 1000,
              job.demand.host.memory_mib);
}

JobState PodScheduler::known_state(const LiveJob& live, double now_s) const {
  const PodFacts& facts = pods_.at(live.pods.front()).facts;
  const Job& job = jobs_[*live.index];
  JobState state = ledger_->states()[*live.index];
  if (live.kept) {
    state.held_s = live.kept->held_s;
    state.iterations_left = live.kept->iterations_left;
    state.first_start_s = live.kept->first_start_s;
    state.progress_from_s = live.kept->progress_from_s;
    return state;
  }
  const double seconds = job.iterations * job.iteration_s;
  double done_s = facts.number(annotation::kDoneSeconds, 0).value_or(0);
  state.held_s = done_s;
  if (done_s > 0) state.first_start_s = 0;
  const double started_s = facts.started_s;
  if (started_s > 0) {
    const double ran_s = (now_s - started_s) * settings_.speed;
    const double pace = facts.number(annotation::kPace, 1).value_or(1);
    done_s += std::max(0.0, ran_s - job.restart_s) / (pace > 0 ? pace : 1);
    state.held_s += ran_s;
    state.first_start_s = time_of(started_s);
    state.progress_from_s = state.first_start_s + job.restart_s;
  }
  // It has not ended yet.
  state.iterations_left = job.iterations * std::max(1e-9, 1 - done_s / seconds);
  return state;
}

/// Shows new jobs to the policy: those of one second in the order of their names, which is that of
/// their numbers.
void PodScheduler::submit_new(double now_s) {
  std::vector<LiveJob*> jobs;
  std::map<std::string, std::size_t> together;
  std::map<std::string, double> first_s;  // When the first of those was made.
  for (const std::string& key : std::exchange(new_, {})) {
    const auto found = live_.find(key);
    if (found == live_.end() || found->second.index) continue;
    if (found->second.pods.size() != found->second.size) continue;
    jobs.push_back(&found->second);
    const PodFacts& facts = pods_.at(jobs.back()->pods.front()).facts;
    const std::string text = facts.text(annotation::kTogether);
    ++together[text];
    double& first = first_s.try_emplace(text, facts.created_s).first->second;
    first = std::min(first, facts.created_s);
  }
  std::erase_if(jobs, [&](const LiveJob* job) {
    const Pod& pod = pods_.at(job->pods.front());
    const std::string text = pod.facts.text(annotation::kTogether);
    const bool is_complete = together[text] >= std::strtoull(text.c_str(), nullptr, 10);
    if (is_complete || now_s - pod.seen_s > kTogetherS) return false;
    new_.push_back(job->key);
    return true;
  });
  std::ranges::stable_sort(jobs, {}, [&](const LiveJob* job) {
    const PodFacts& facts = pods_.at(job->pods.front()).facts;
    const std::string text = facts.text(annotation::kTogether);
    const double made_s = text.empty() ? facts.created_s : first_s.at(text);
    return std::tuple(made_s, facts.name.size(), facts.name);
  });
  for (LiveJob* job : jobs) {
    job->order = ++order_;  // Also for a policy that takes over.
    submit(*job, now_s);
  }
}

void PodScheduler::submit(LiveJob& live, double now_s) {
  auto job = job_of(live);
  const Result<void> checked = job ? check(*job) : std::unexpected(job.error());
  live.refused = checked ? "" : checked.error().message;
  if (!checked) return;
  live.index = static_cast<JobIndex>(jobs_.size());
  job->arrival_s = time_of(now_s);
  jobs_.push_back(*std::move(job));
  keys_.push_back(live.key);
  ledger_->set_jobs(jobs_);
  ledger_->set_time(time_of(now_s));
  ledger_->arrive(*live.index);
  ledger_->recall(*live.index, known_state(live, now_s));
  arrived_.push_back(*live.index);
}

// The fleet.

std::vector<Server> PodScheduler::servers() {
  std::vector<Server> servers;
  servers_.clear();
  for (const auto& [name, node] : nodes_) {
    if (!node.is_ready) continue;
    Server server{.name = name, .gpu = node.product, .gpus = node.gpus, .host = node.host};
    for (const std::string& uid : on_node_[name]) {
      const Pod& pod = pods_.at(uid);
      if (pod.is_ours) continue;
      // Which GPUs they have is not known; the last ones are left to them.
      server.gpus -= std::min(server.gpus, pod.facts.gpu_requests);
      const HostShare& used = pod.facts.requests;
      server.host.millicores -= std::min(server.host.millicores, used.millicores);
      server.host.memory_mib -= std::min(server.host.memory_mib, used.memory_mib);
    }
    servers_[name] = static_cast<std::uint32_t>(servers.size());
    servers.push_back(std::move(server));
  }
  return servers;
}

void PodScheduler::make_policy() {
  if (settings_.placement != nullptr) {
    std::vector<scheduling::TypicalDemand> typical;
    if (!settings_.expected.empty()) typical = typical_demands(*fleet_, settings_.expected);
    policy_ = make_placing_policy(*settings_.placement, std::move(typical));
  } else {
    policy_ = settings_.policy->make({.round_s = settings_.round_s});
  }
}

void PodScheduler::rebuild(double now_s) {
  dirty_ = false;
  std::vector<LiveJob*> live;
  if (ledger_) ledger_->set_time(time_of(now_s));
  if (ledger_) ledger_->touch_all();
  for (auto& [key, job] : live_) {
    if (job.index && ledger_) job.kept = ledger_->states()[*job.index];
    job.index.reset();
    job.is_outside = job.is_settled = false;
    live.push_back(&job);
  }
  ledger_.reset();
  jobs_.clear();
  keys_.clear();
  arrived_.clear();
  ended_.clear();
  new_.clear();
  known_kinds_.clear();
  known_speeds_.clear();
  auto fleet = Fleet::create(servers());
  if (!fleet) {
    fleet_.reset();
    return;
  }
  fleet_ = *std::move(fleet);
  ledger_.emplace(*fleet_, jobs_, scheduling::Accounting::kChange, scheduling::Tracking::kServers);
  make_policy();
  std::ranges::sort(live, {}, &LiveJob::order);
  for (LiveJob* job : live) adopt(*job, now_s);
  Decision running;
  FreeResources room(*fleet_);
  // First those that have all their GPUs.
  const auto is_partial = [&](LiveJob* job) {
    return std::ranges::any_of(job->pods,
                               [&](const std::string& uid) { return pods_.at(uid).node.empty(); });
  };
  std::ranges::stable_partition(live, std::not_fn(is_partial));
  for (LiveJob* job : live) {
    if (auto start = start_of(*job, room)) running.start.push_back(*std::move(start));
  }
  // One by one: what a pod's annotations say must not stop the others.
  for (Decision::Start& start : running.start) {
    const std::string& key = keys_[start.job];
    Decision one;
    one.start.push_back(std::move(start));
    if (const auto applied = ledger_->apply(one); !applied) {
      complaints_.push_back(fmt::format("{} cannot go on: {}", key, applied.error().message));
    }
  }
  for (LiveJob* job : live) {
    if (!job->index) continue;
    ledger_->recall(*job->index, known_state(*job, now_s));
    const JobState& state = ledger_->states()[*job->index];
    for (const std::string& uid : job->pods) pods_.at(uid).epoch = state.starts + state.moves;
    job->kept.reset();
  }
}

void PodScheduler::adopt(LiveJob& job, double now_s) {
  if (job.pods.empty()) return;
  const bool is_bound = std::ranges::any_of(
      job.pods, [&](const std::string& uid) { return !pods_.at(uid).node.empty(); });
  if (!job.kept && !is_bound) {
    new_.push_back(job.key);
    return;
  }
  for (const std::string& uid : job.pods) {
    const std::string& node = pods_.at(uid).node;
    if (!node.empty() && !servers_.contains(node)) job.is_outside = true;
  }
  if (job.is_outside || job.pods.size() < job.size) return;
  submit(job, now_s);
}

/// Returns the start of a job whose pods are bound, or some of them: then, the others get GPUs,
/// too.
std::optional<Decision::Start> PodScheduler::start_of(LiveJob& job, FreeResources& room) {
  if (!job.index) return std::nullopt;
  Decision::Start start{.job = *job.index, .gpus = {}};
  std::map<std::uint32_t, std::uint64_t> parts;
  const PodFacts& facts = pods_.at(job.pods.front()).facts;
  std::uint32_t unbound = 0;
  for (const std::string& uid : job.pods) {
    const Pod& pod = pods_.at(uid);
    // Jobs that share GPUs in turns or beside others start anew, as those that were to end.
    if (pod.is_evicted || !pod.facts.text(annotation::kSharing).empty()) return std::nullopt;
    if (pod.node.empty()) ++unbound;
    if (!pod.node.empty()) parts[servers_.at(pod.node)] |= pod.mask;
  }
  if (parts.empty()) return std::nullopt;
  const auto cores = facts.number(annotation::kCores, -1, -1);
  const auto memory = facts.number(annotation::kMemoryMib, -1, -1);
  Demand demand = jobs_[*job.index].demand;
  const bool hands_out =
      settings_.policy != nullptr && settings_.policy->scope == PolicyScope::kHosts;
  if (hands_out && cores && memory && *cores >= 0 && *memory >= 0) {
    demand.host = {.millicores = static_cast<std::uint64_t>(std::llround(*cores * 1000 * job.size)),
                   .memory_mib = static_cast<std::uint64_t>(std::llround(*memory * job.size))};
    start.host = demand.host;
  }
  GpuSet bound;
  for (const auto& [server, mask] : parts) bound.add({.server = server, .gpus = mask});
  if (!room.take(bound, demand)) return std::nullopt;
  Demand one = demand;
  one.gpus = facts.gpus;
  one.host = {.millicores = demand.host.millicores / job.size,
              .memory_mib = demand.host.memory_mib / job.size};
  for (std::uint32_t i = 0; i < unbound; ++i) {
    const std::optional<GpuSet> more = room.take_together(one);
    if (!more) break;
    parts[more->part(0).server] |= more->part(0).gpus;
  }
  for (const auto& [server, mask] : parts) start.gpus.add({.server = server, .gpus = mask});
  if (start.gpus.count() == demand.gpus) return start;
  return std::nullopt;
}

// Decisions.

bool PodScheduler::ask_policy(double now_s) {
  const double time_s = time_of(now_s);
  ledger_->set_time(time_s);
  Decision decision;
  policy_->decide({.now_s = time_s,
                   .fleet = &*fleet_,
                   .free = &ledger_->free(),
                   .jobs = jobs_,
                   .states = ledger_->states(),
                   .arrived = arrived_,
                   .ended = ended_},
                  decision);
  arrived_.clear();
  ended_.clear();
  ask_again_s_ = decision.ask_again_s;
  const auto applied = ledger_->apply(decision);
  for (const JobIndex job : decision.preempt) unsettle(job);
  for (const JobIndex job : ledger_->moved()) unsettle(job);
  ledger_->clear_moved();
  if (applied) return true;
  complaints_.push_back(applied.error().message);
  dirty_ = true;
  return false;
}

void PodScheduler::unsettle(JobIndex job) {
  const auto found = live_.find(keys_[job]);
  if (found != live_.end()) found->second.is_settled = false;
}

std::vector<PodAction> PodScheduler::decide(double now_s) {
  retry_evictions(now_s);
  end_forgotten(now_s);
  if (jobs_.size() > kMostEnded + 2 * live_.size()) dirty_ = true;
  const bool is_rebuilt = dirty_;
  if (dirty_) rebuild(now_s);
  if (ledger_) submit_new(now_s);
  // As in the simulation: those that decide anew each time would move jobs whenever a pod changes.
  const bool have_ended = !ended_.empty() && now_s >= ends_until_s_;
  const bool is_asked = is_rebuilt || !arrived_.empty() || have_ended;
  if (ledger_ && (is_asked || time_of(now_s) >= ask_again_s_)) {
    const bool is_right = ask_policy(now_s);
    if (!is_right && !is_rebuilt) {
      rebuild(now_s);
      static_cast<void>(ask_policy(now_s));
    }
  }
  if (!ledger_) ask_again_s_ = scheduling::kNever;
  for (auto& [key, job] : live_) reconcile(job, now_s);
  return std::exchange(actions_, {});
}

void PodScheduler::reconcile(LiveJob& job, double now_s) {
  if (job.is_outside || job.is_settled || job.pods.empty()) return;
  const bool runs = job.index && ledger_->states()[*job.index].phase == JobPhase::kRunning;
  if (runs && !dirty_) return reconcile_running(job);
  if (dirty_) return;
  for (const std::string& uid : job.pods) {
    if (job.index && !pods_.at(uid).node.empty()) evict(pods_.at(uid));
  }
  explain(job, now_s);
}

std::vector<PodScheduler::Slot> PodScheduler::slots_of(const LiveJob& job) const {
  const GpuSet& gpus = ledger_->states()[*job.index].gpus;
  const std::uint32_t each = pods_.at(job.pods.front()).facts.gpus;
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    const std::string& node = fleet_->servers()[gpus.part(i).server].name;
    std::uint64_t rest = gpus.part(i).gpus;
    if (each == 0) slots.assign(job.size, {.node = node, .mask = 0});
    while (each != 0 && rest != 0) {
      Slot slot{.node = node};
      for (std::uint32_t n = 0; n < each && rest != 0; ++n, rest &= rest - 1) {
        slot.mask |= rest & (~rest + 1);
      }
      slots.push_back(slot);
    }
  }
  return slots;
}

bool PodScheduler::may_share(const LiveJob& job, const Pod& other) const {
  const auto found = live_.find(other.key);
  if (found == live_.end() || !found->second.index || other.is_evicted) return false;
  const JobState& mine = ledger_->states()[*job.index];
  const JobState& its = ledger_->states()[*found->second.index];
  const bool both_run = its.phase == JobPhase::kRunning && other.epoch == its.starts + its.moves;
  if (!both_run) return false;
  return mine.beside || its.beside || (mine.group != 0 && mine.group == its.group);
}

bool PodScheduler::is_free(const Slot& slot, const Pod& pod, const LiveJob& job) const {
  const Node& node = nodes_.at(slot.node);
  std::array<std::uint32_t, scheduling::kMaxGpusPerServer> used{};
  HostShare host = pod.facts.requests;
  std::uint64_t requests = pod.facts.gpu_requests;
  std::uint64_t pods = 1;
  const auto on_node = on_node_.find(slot.node);
  if (on_node != on_node_.end()) {
    for (const std::string& uid : on_node->second) {
      const Pod& other = pods_.at(uid);
      ++pods;
      host.millicores += other.facts.requests.millicores;
      host.memory_mib += other.facts.requests.memory_mib;
      requests += other.facts.gpu_requests;
      if ((other.mask & slot.mask) == 0 || may_share(job, other)) continue;
      for (std::uint64_t rest = other.mask & slot.mask; rest != 0; rest &= rest - 1) {
        used[static_cast<std::size_t>(std::countr_zero(rest))] += other.facts.gpu_milli;
      }
    }
  }
  if (pods > node.pods || requests > node.gpus || !host.fits_in(node.host)) return false;
  return std::ranges::all_of(used, [&](std::uint32_t milli) {
    return milli == 0 || milli + pod.facts.gpu_milli <= scheduling::kWholeGpu;
  });
}

std::map<std::string, std::string> PodScheduler::grants(const LiveJob& job,
                                                        const Slot& slot) const {
  const JobState& state = ledger_->states()[*job.index];
  std::map<std::string, std::string> all;
  if (slot.mask != 0) all[annotation::kGpuIndices] = indices_of(slot.mask);
  const double pace = state.iteration_s / jobs_[*job.index].iteration_s;
  all[annotation::kPace] = text_of(pace);
  if (state.group != 0 || state.beside) {
    all[annotation::kSharing] = state.beside ? kBeside : kInTurns;
  }
  if (settings_.policy != nullptr && settings_.policy->scope == PolicyScope::kHosts) {
    const auto each = static_cast<double>(job.size);
    all[annotation::kCores] = text_of(static_cast<double>(state.host.millicores) / 1000 / each);
    all[annotation::kMemoryMib] = text_of(static_cast<double>(state.host.memory_mib) / each);
  }
  return all;
}

void PodScheduler::reconcile_running(LiveJob& job) {
  const JobState& state = ledger_->states()[*job.index];
  const std::uint32_t epoch = state.starts + state.moves;
  std::vector<Slot> slots = slots_of(job);
  std::vector<Pod*> unbound;
  bool all_bound = true;
  for (const std::string& uid : job.pods) {
    Pod& pod = pods_.at(uid);
    if (pod.is_evicted) continue;
    if (pod.node.empty()) {
      unbound.push_back(&pod);
      continue;
    }
    const auto slot = std::ranges::find_if(slots, [&](const Slot& candidate) {
      return candidate.node == pod.node && candidate.mask == pod.mask;
    });
    if (slot == slots.end() || pod.epoch != epoch) {
      evict(pod);
      continue;
    }
    const auto granted = grants(job, *slot);
    if (granted != pod.granted && !pod.facts.node.empty()) {
      actions_.push_back(action(PodAction::Kind::kAnnotate, pod));
      actions_.back().annotations = pod.granted = granted;
    }
    // Until the server has said so, what is bound may be changed no more.
    all_bound = all_bound && !pod.facts.node.empty();
    slots.erase(slot);
  }
  job.is_settled = all_bound && unbound.empty() && slots.empty();
  if (unbound.empty() || unbound.size() != slots.size()) return;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!is_free(slots[i], *unbound[i], job)) return;
  }
  for (std::size_t i = 0; i < slots.size(); ++i) bind(*unbound[i], slots[i], job);
}

void PodScheduler::bind(Pod& pod, const Slot& slot, const LiveJob& job) {
  const JobState& state = ledger_->states()[*job.index];
  place_on(pod, slot.node, slot.mask);
  pod.epoch = state.starts + state.moves;
  pod.granted = grants(job, slot);
  actions_.push_back(action(PodAction::Kind::kBind, pod));
  actions_.back().node = slot.node;
  actions_.back().annotations = pod.granted;
}

void PodScheduler::evict(Pod& pod) {
  // One that is being bound is evicted when it is.
  if (pod.is_evicted || pod.facts.node.empty()) return;
  pod.is_evicted = true;
  actions_.push_back(action(PodAction::Kind::kEvict, pod));
  actions_.back().message = fmt::format("the policy {} gives its GPUs to others", policy_name());
}

std::string PodScheduler::reason_of(const LiveJob& job) const {
  if (!job.refused.empty()) return job.refused;
  if (job.pods.size() != job.size) {
    return fmt::format("its group has {} of {} pods", job.pods.size(), job.size);
  }
  if (!ledger_) return "no node with GPUs is ready";
  if (!job.index) return "it waits for the jobs that arrive together with it";
  return fmt::format("the policy {} lets it wait: {} of {} GPUs are free, and it needs {}",
                     policy_name(), ledger_->free().count(), fleet_->gpus(),
                     jobs_[*job.index].demand.gpus);
}

void PodScheduler::explain(LiveJob& job, double now_s) {
  // How many GPUs are free changes all the time.
  const std::string& kind = job.refused.empty() ? kWaits : job.refused;
  for (const std::string& uid : job.pods) {
    Pod& pod = pods_.at(uid);
    const bool is_early = job.refused.empty() && now_s - pod.seen_s < kExplainS;
    if (is_early || pod.explained == kind || !pod.node.empty()) continue;
    pod.explained = kind;
    actions_.push_back(action(PodAction::Kind::kExplain, pod));
    actions_.back().message = reason_of(job);
  }
}

std::string_view PodScheduler::policy_name() const {
  return settings_.policy != nullptr ? settings_.policy->name : settings_.placement->name;
}

PodAction PodScheduler::action(PodAction::Kind kind, const Pod& pod) const {
  PodAction action;
  action.kind = kind;
  action.uid = pod.facts.uid;
  action.name = pod.facts.name;
  action.name_space = pod.facts.name_space;
  return action;
}

}  // namespace gpemu::tools
