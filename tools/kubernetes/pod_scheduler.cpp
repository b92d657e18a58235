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

namespace gpemu::tools {
namespace {

using nlohmann::json;
using scheduling::Decision;
using scheduling::Demand;
using scheduling::FreeResources;
using scheduling::GpuSet;
using scheduling::HostShare;
using scheduling::Job;
using scheduling::JobIndex;
using scheduling::JobPhase;
using scheduling::JobState;
using scheduling::PolicyScope;
using scheduling::Server;

/// A job whose pods were evicted ends if none replaces them for so long.
constexpr double kReplacementS = 60;
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
    : settings_(std::move(settings)), schedule_(settings_.decides, now_s) {}
PodScheduler::~PodScheduler() = default;

double PodScheduler::ask_again_s() const {
  return schedule_.ask_again_s();
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
  if (found == live_.end() || !found->second.index || !schedule_.has_fleet()) return;
  const JobIndex index = *found->second.index;
  const JobState& state = schedule_.state(index);
  if (pod.epoch != state.starts + state.moves) return;
  const auto done_s = pod.facts.number(annotation::kDoneSeconds, 0);
  if (done_s) schedule_.started(index, pod.facts.started_s, *done_s);
}

void PodScheduler::note_foreign(const Pod& pod) {
  const auto node = nodes_.find(pod.node);
  const scheduling::PolicyEntry* const policy = settings_.decides.policy;
  const bool counts_hosts = policy == nullptr || policy->scope == PolicyScope::kAll ||
                            policy->scope == PolicyScope::kHosts;
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
  if (job.index && schedule_.has_fleet()) {
    schedule_.end(*job.index, now_s);
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
    const std::uint64_t kind = std::uint64_t{1} << schedule_.fleet().kind_of(server);
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

Result<Job> PodScheduler::job_of(LiveJob& live) {
  const Pod& pod = pods_.at(live.pods.front());
  const PodFacts& facts = pod.facts;
  for (const std::string& uid : live.pods) {
    const PodFacts& other = pods_.at(uid).facts;
    if (other.gpus == facts.gpus && other.requests == facts.requests) continue;
    return fail(ErrorCode::kUnsupported, "the pods of {} ask for different things", live.key);
  }
  GPEMU_ASSIGN(Job job, job_of_notes(facts.notes(), schedule_.fleet(), known_speeds_));
  job.id = facts.name_space + "/" + facts.name;
  job.demand = {.gpus = facts.gpus * live.size, .gpu_share = facts.gpu_milli, .host = {}};
  job.demand.host = {.millicores = facts.requests.millicores * live.size,
                     .memory_mib = facts.requests.memory_mib * live.size};
  GPEMU_ASSIGN(job.demand.kinds, kinds_of(pod));
  const std::string user = facts.text(annotation::kUser);
  job.user = users_.try_emplace(user, static_cast<std::uint32_t>(users_.size())).first->second;
  return job;
}

JobState PodScheduler::known_state(const LiveJob& live, double now_s) const {
  const PodFacts& facts = pods_.at(live.pods.front()).facts;
  const Job& job = schedule_.jobs()[*live.index];
  JobState state = schedule_.state(*live.index);
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
    const double ran_s = (now_s - started_s) * settings_.decides.speed;
    const double pace = facts.number(annotation::kPace, 1).value_or(1);
    done_s += std::max(0.0, ran_s - job.restart_s) / (pace > 0 ? pace : 1);
    state.held_s += ran_s;
    state.first_start_s = schedule_.time_of(started_s);
    state.progress_from_s = state.first_start_s + job.restart_s;
  }
  // It has not ended yet.
  state.iterations_left = job.iterations * std::max(1e-9, 1 - done_s / seconds);
  return state;
}

/// Shows new jobs to the policy.
void PodScheduler::submit_new(double now_s) {
  std::vector<Newcomer> newcomers;
  for (const std::string& key : std::exchange(new_, {})) {
    const auto found = live_.find(key);
    if (found == live_.end() || found->second.index) continue;
    if (found->second.pods.size() != found->second.size) continue;
    const Pod& pod = pods_.at(found->second.pods.front());
    newcomers.push_back({.key = key,
                         .name = pod.facts.name,
                         .together = pod.facts.text(annotation::kTogether),
                         .made_s = pod.facts.created_s,
                         .seen_s = pod.seen_s});
  }
  for (const std::string& key : take_complete(newcomers, now_s)) {
    LiveJob& job = live_.at(key);
    job.order = ++order_;  // Also for a policy that takes over.
    submit(job, now_s);
  }
  for (Newcomer& waits : newcomers) new_.push_back(std::move(waits.key));
}

void PodScheduler::submit(LiveJob& live, double now_s) {
  auto job = job_of(live);
  const Result<void> checked = job ? schedule_.check(*job) : std::unexpected(job.error());
  live.refused = checked ? "" : checked.error().message;
  if (!checked) return;
  live.index = schedule_.submit(*std::move(job), now_s);
  keys_.push_back(live.key);
  schedule_.recall(*live.index, known_state(live, now_s));
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

void PodScheduler::rebuild(double now_s) {
  dirty_ = false;
  std::vector<LiveJob*> live;
  const bool knew = schedule_.has_fleet();
  if (knew) schedule_.update(now_s);
  for (auto& [key, job] : live_) {
    if (job.index && knew) job.kept = schedule_.state(*job.index);
    job.index.reset();
    job.is_outside = job.is_settled = false;
    live.push_back(&job);
  }
  keys_.clear();
  new_.clear();
  known_kinds_.clear();
  known_speeds_.clear();
  schedule_.set_fleet(servers());
  if (!schedule_.has_fleet()) return;
  std::ranges::sort(live, {}, &LiveJob::order);
  for (LiveJob* job : live) adopt(*job, now_s);
  Decision running;
  FreeResources room(schedule_.fleet());
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
    if (const auto applied = schedule_.adopt(std::move(start)); !applied) {
      complaints_.push_back(fmt::format("{} cannot go on: {}", key, applied.error().message));
    }
  }
  for (LiveJob* job : live) {
    if (!job->index) continue;
    schedule_.recall(*job->index, known_state(*job, now_s));
    const JobState& state = schedule_.state(*job->index);
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
  Demand demand = schedule_.jobs()[*job.index].demand;
  const scheduling::PolicyEntry* const policy = settings_.decides.policy;
  const bool hands_out = policy != nullptr && policy->scope == PolicyScope::kHosts;
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
  const auto changed = schedule_.decide(now_s);
  if (!changed) {
    complaints_.push_back(changed.error().message);
    dirty_ = true;
    return false;
  }
  for (const JobIndex job : *changed) unsettle(job);
  return true;
}

void PodScheduler::unsettle(JobIndex job) {
  const auto found = live_.find(keys_[job]);
  if (found != live_.end()) found->second.is_settled = false;
}

std::vector<PodAction> PodScheduler::decide(double now_s) {
  retry_evictions(now_s);
  end_forgotten(now_s);
  if (keys_.size() > kMostEnded + 2 * live_.size()) dirty_ = true;
  const bool is_rebuilt = dirty_;
  if (dirty_) rebuild(now_s);
  if (schedule_.has_fleet()) submit_new(now_s);
  if (is_rebuilt ? schedule_.has_fleet() : schedule_.is_due(now_s)) {
    const bool is_right = ask_policy(now_s);
    if (!is_right && !is_rebuilt) {
      rebuild(now_s);
      static_cast<void>(ask_policy(now_s));
    }
  }
  for (auto& [key, job] : live_) reconcile(job, now_s);
  return std::exchange(actions_, {});
}

void PodScheduler::reconcile(LiveJob& job, double now_s) {
  if (job.is_outside || job.is_settled || job.pods.empty()) return;
  const bool runs = job.index && schedule_.state(*job.index).phase == JobPhase::kRunning;
  if (runs && !dirty_) return reconcile_running(job);
  if (dirty_) return;
  for (const std::string& uid : job.pods) {
    if (job.index && !pods_.at(uid).node.empty()) evict(pods_.at(uid));
  }
  explain(job, now_s);
}

std::vector<PodScheduler::Slot> PodScheduler::slots_of(const LiveJob& job) const {
  const GpuSet& gpus = schedule_.state(*job.index).gpus;
  const std::uint32_t each = pods_.at(job.pods.front()).facts.gpus;
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    const std::string& node = schedule_.fleet().servers()[gpus.part(i).server].name;
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
  const JobState& mine = schedule_.state(*job.index);
  const JobState& its = schedule_.state(*found->second.index);
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
  const JobState& state = schedule_.state(*job.index);
  std::map<std::string, std::string> all;
  if (slot.mask != 0) all[annotation::kGpuIndices] = indices_of(slot.mask);
  all[annotation::kPace] = text_of(schedule_.pace(*job.index));
  if (state.group != 0 || state.beside) {
    all[annotation::kSharing] = state.beside ? kBeside : kInTurns;
  }
  const scheduling::PolicyEntry* const policy = settings_.decides.policy;
  if (policy != nullptr && policy->scope == PolicyScope::kHosts) {
    const auto each = static_cast<double>(job.size);
    all[annotation::kCores] = text_of(static_cast<double>(state.host.millicores) / 1000 / each);
    all[annotation::kMemoryMib] = text_of(static_cast<double>(state.host.memory_mib) / each);
  }
  return all;
}

void PodScheduler::reconcile_running(LiveJob& job) {
  const JobState& state = schedule_.state(*job.index);
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
  const JobState& state = schedule_.state(*job.index);
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
  actions_.back().message = fmt::format("the policy {} gives its GPUs to others", schedule_.name());
}

std::string PodScheduler::reason_of(const LiveJob& job) const {
  if (!job.refused.empty()) return job.refused;
  if (job.pods.size() != job.size) {
    return fmt::format("its group has {} of {} pods", job.pods.size(), job.size);
  }
  if (!schedule_.has_fleet()) return "no node with GPUs is ready";
  if (!job.index) return "it waits for the jobs that arrive together with it";
  return fmt::format("the policy {} lets it wait: {} of {} GPUs are free, and it needs {}",
                     schedule_.name(), schedule_.free().count(), schedule_.fleet().gpus(),
                     schedule_.jobs()[*job.index].demand.gpus);
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

PodAction PodScheduler::action(PodAction::Kind kind, const Pod& pod) const {
  PodAction action;
  action.kind = kind;
  action.uid = pod.facts.uid;
  action.name = pod.facts.name;
  action.name_space = pod.facts.name_space;
  return action;
}

}  // namespace gpemu::tools
