// SPDX-License-Identifier: Apache-2.0
#include "slurm/queue_scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Decision;
using scheduling::GpuSet;
using scheduling::Job;
using scheduling::JobIndex;
using scheduling::JobPhase;
using scheduling::JobState;
using scheduling::Server;

/// A job that waits is told why after so long; sooner, most have started.
constexpr double kExplainAfterS = 5;
/// Nor if the policy decides so soon again.
constexpr double kSoonS = 1;
/// What Slurm refused is tried again after so long.
constexpr double kTryAgainS = 2;
/// A start that was seen later than this is taken from Slurm, which knows it to a second.
constexpr double kSeenLateS = 2;
/// Jobs that have ended are forgotten when they are so many, and more than half.
constexpr std::size_t kMostEndedJobs = 10'000;
/// What a job was told that waits as others do.
const std::string kToldToWait = "waits";

}  // namespace

struct QueueScheduler::LiveJob {
  /// What was asked of Slurm, as far as squeue has not shown that it is done.
  enum class Asked : std::uint8_t { kNothing, kHold, kStart, kRequeue };

  QueuedJob facts;
  Asked asked = Asked::kNothing;
  double seen_s = 0;
  double not_before_s = 0;  ///< nothing is asked of Slurm earlier.
  std::uint64_t order = 0;
  std::optional<JobIndex> index;  ///< nothing: the policy does not know it.
  std::optional<JobState> kept;   ///< of an earlier fleet.
  std::string refused;            ///< why the policy does not know it; empty: it waits for others.
  std::uint32_t epoch = 0;        ///< starts and moves, when it was started.
  std::string node;               ///< on which it was started; empty: it was not.
  double begin_done_s = 0;        ///< seconds of its work that were done then.
  double noted_s = 0;             ///< what it said of that then.
  double pace = 0;                ///< that it was told.
  std::string explained;          ///< what it was told.

  /// Requires: the policy knows it.
  [[nodiscard]] JobIndex known() const {
    GPEMU_CHECK(index.has_value(), "a job that the policy does not know");
    return *index;
  }
};

QueueScheduler::QueueScheduler(QueueSchedulerSettings settings, double now_s)
    : settings_(std::move(settings)), schedule_(settings_.decides, now_s) {}
QueueScheduler::~QueueScheduler() = default;

std::vector<std::string> QueueScheduler::take_complaints() {
  return std::exchange(complaints_, {});
}

// What Slurm tells.

void QueueScheduler::nodes_listed(std::vector<QueueNode> nodes) {
  for (QueueNode& node : nodes) {
    if (node.fault.empty() && node.gpus > scheduling::kMaxGpusPerServer) {
      node.fault =
          fmt::format("it has {} GPUs, and may have {}", node.gpus, scheduling::kMaxGpusPerServer);
    }
    if (node.fault.empty()) continue;
    node.is_ready = false;
    if (!complained_.insert(node.name).second) continue;
    complaints_.push_back(fmt::format("the node {} is left out: {}", node.name, node.fault));
  }
  if (nodes == nodes_) return;
  nodes_ = std::move(nodes);
  dirty_ = true;
}

void QueueScheduler::count_foreign(const std::vector<QueuedJob>& jobs) {
  std::map<std::string, Use> foreign;
  for (const QueuedJob& job : jobs) {
    if (job.partition == settings_.partition || !job.has_nodes() || job.gpus == 0) continue;
    // How many it has on which node is not said: as many on each.
    const auto count = static_cast<std::uint32_t>(std::max<std::size_t>(job.nodes.size(), 1));
    for (const std::string& node : job.nodes) {
      foreign[node].gpus += (job.gpus + count - 1) / count;
    }
  }
  const auto is_as = [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.gpus == other.second.gpus;
  };
  if (std::ranges::equal(foreign, foreign_, is_as)) return;
  foreign_ = std::move(foreign);
  dirty_ = true;
}

void QueueScheduler::jobs_listed(std::vector<QueuedJob> jobs, double now_s) {
  count_foreign(jobs);
  std::set<std::string> listed;
  std::ranges::sort(jobs, {},
                    [](const QueuedJob& job) { return std::pair(job.id.size(), job.id); });
  for (QueuedJob& job : jobs) {
    const bool is_ours = job.partition == settings_.partition && job.asks_for_gpus;
    if (!is_ours || job.has_ended()) continue;
    listed.insert(job.id);
    job_listed(std::move(job), now_s);
  }
  std::vector<LiveJob*> gone;
  for (auto& [id, job] : live_) {
    if (!listed.contains(id)) gone.push_back(&job);
  }
  for (LiveJob* job : gone) {
    forget(*job, now_s);
    live_.erase(job->facts.id);
  }
}

void QueueScheduler::job_listed(QueuedJob facts, double now_s) {
  using Asked = LiveJob::Asked;
  const auto [found, is_new] = live_.try_emplace(facts.id);
  LiveJob& job = found->second;
  const QueuedJob before = std::exchange(job.facts, std::move(facts));
  const QueuedJob& now = job.facts;
  if (is_new) {
    job.seen_s = now_s;
    new_.push_back(now.id);
    // One that runs has GPUs already.
    if (now.has_nodes()) dirty_ = true;
    return;
  }
  if (before.texts != now.texts || before.fault != now.fault) look_anew(job);
  if (now.is_pending()) {
    if (before.has_nodes()) return lost_its_node(job, now_s);
    if (now.is_held && job.asked == Asked::kHold) {
      job.asked = Asked::kNothing;
      job.node.clear();
    }
    return;
  }
  if (!before.is_pending()) return;
  // It starts.
  if (job.asked == Asked::kNothing) {  // Somebody else has released it.
    dirty_ = true;
    return;
  }
  job.asked = Asked::kNothing;
  if (!job.index || !schedule_.has_fleet()) return;
  const JobState& state = schedule_.state(job.known());
  if (state.phase != JobPhase::kRunning || job.epoch != state.starts + state.moves) return;
  const bool is_late = now.started_s > 0 && now_s - now.started_s > kSeenLateS;
  schedule_.started(job.known(), is_late ? now.started_s : now_s, job.begin_done_s);
}

/// It was requeued, by this scheduler or by somebody else.
void QueueScheduler::lost_its_node(LiveJob& job, double now_s) {
  const bool was_asked = job.asked == LiveJob::Asked::kRequeue;
  job.asked = LiveJob::Asked::kNothing;
  job.node.clear();
  // Slurm's nodes tell a new start of a job by the second in which it was made.
  // Source: slurm_cred_handle_reissue() in Slurm 22.05.
  job.not_before_s = std::floor(now_s) + 1;
  if (was_asked && job.index) return;
  // For the policy, it is a new job that is as far.
  forget(job, now_s);
  new_.push_back(job.facts.id);
}

/// A job that was refused says something else now.
void QueueScheduler::look_anew(LiveJob& job) {
  if (job.refused.empty()) return;
  job.refused.clear();
  job.explained.clear();
  new_.push_back(job.facts.id);
}

/// Returns how much of a job is done: what it says, if that is new, or else what the policy knows.
double QueueScheduler::done_s_of(LiveJob& job) const {
  const double noted_s = job.facts.notes().number(note::kDoneSeconds, 0).value_or(0);
  if (std::exchange(job.noted_s, noted_s) != noted_s) return noted_s;
  const Job& known = schedule_.jobs()[job.known()];
  const double left = schedule_.state(job.known()).iterations_left / known.iterations;
  return std::max(0.0, 1 - left) * known.work_s();
}

void QueueScheduler::forget(LiveJob& job, double now_s) {
  std::erase(new_, job.facts.id);
  job.kept.reset();
  if (!job.index || !schedule_.has_fleet()) return;
  schedule_.end(job.known(), now_s);
  keys_[job.known()].clear();
  job.index.reset();
}

void QueueScheduler::action_failed(const QueueAction& action, double now_s) {
  const auto found = live_.find(action.job);
  if (found == live_.end()) return;
  LiveJob& job = found->second;
  job.not_before_s = now_s + kTryAgainS;
  if (action.kind == QueueAction::Kind::kStart) job.node.clear();
  if (action.kind == QueueAction::Kind::kPace) job.pace = 0;
  if (action.kind == QueueAction::Kind::kExplain) job.explained.clear();
  job.asked = LiveJob::Asked::kNothing;
}

// What the policy sees.

std::vector<Server> QueueScheduler::servers() {
  std::vector<Server> servers;
  servers_.clear();
  for (const QueueNode& node : nodes_) {
    if (!node.is_ready || node.gpus == 0) continue;
    const auto found = foreign_.find(node.name);
    // Which GPUs others have is Slurm's matter: they are that many fewer.
    const std::uint32_t taken = found == foreign_.end() ? 0 : found->second.gpus;
    servers_[node.name] = static_cast<std::uint32_t>(servers.size());
    servers.push_back({.name = node.name,
                       .gpu = node.gpu_type,
                       .gpus = node.gpus - std::min(node.gpus, taken),
                       .host = {}});
  }
  return servers;
}

void QueueScheduler::rebuild(double now_s) {
  dirty_ = false;
  const bool knew = schedule_.has_fleet();
  if (knew) schedule_.update(now_s);
  std::vector<LiveJob*> live;
  live.reserve(live_.size());
  for (auto& [id, job] : live_) {
    if (job.index && knew) job.kept = schedule_.state(job.known());
    job.index.reset();
    live.push_back(&job);
  }
  keys_.clear();
  new_.clear();
  speeds_.clear();
  schedule_.set_fleet(servers());
  std::ranges::sort(live, {}, &LiveJob::order);
  for (LiveJob* job : live) {
    const bool is_known = job->kept || job->facts.has_nodes() || !job->node.empty();
    if (!schedule_.has_fleet() || !is_known || !adopt(*job, now_s)) new_.push_back(job->facts.id);
  }
}

/// Shows a job that the policy knew, or that has its GPUs already. Returns false if it cannot.
bool QueueScheduler::adopt(LiveJob& job, double now_s) {
  const std::string node = job.facts.nodes.empty() ? job.node : job.facts.nodes.front();
  if (job.order == 0) job.order = ++order_;
  // One on a node that is being drained runs on there.
  if (job.facts.has_nodes() && !servers_.contains(node)) return true;
  submit(job, now_s);
  if (!job.index) return job.facts.has_nodes();
  const auto server = servers_.find(node);
  // Jobs that share a GPU start anew, as those that are about to end.
  const bool may_keep = job.facts.shards == 0 && !job.facts.is_leaving() &&
                        job.asked != LiveJob::Asked::kRequeue && job.asked != LiveJob::Asked::kHold;
  if (!node.empty() && server != servers_.end() && may_keep) {
    scheduling::Demand demand = schedule_.jobs()[job.known()].demand;
    const std::uint64_t free = schedule_.free().on(server->second);
    Decision::Start start{.job = job.known(), .gpus = {}};
    std::uint64_t mask = 0;
    for (std::uint64_t rest = free; rest != 0 && demand.gpus != 0; rest &= rest - 1) {
      mask |= rest & (~rest + 1);
      --demand.gpus;
    }
    start.gpus.add({.server = server->second, .gpus = mask});
    const auto applied = demand.gpus == 0 ? schedule_.adopt(std::move(start)) : Result<void>();
    if (!applied) {
      complaints_.push_back(
          fmt::format("job {} cannot go on: {}", job.facts.id, applied.error().message));
    }
    if (demand.gpus == 0 && applied) {
      schedule_.recall(job.known(), known_state(job, now_s));
      const JobState& state = schedule_.state(job.known());
      job.node = node;
      job.epoch = state.starts + state.moves;
    }
  }
  job.kept.reset();
  return true;
}

JobState QueueScheduler::known_state(const LiveJob& live, double now_s) const {
  const Job& job = schedule_.jobs()[live.known()];
  JobState state = schedule_.state(live.known());
  if (live.kept) {
    state.held_s = live.kept->held_s;
    state.iterations_left = live.kept->iterations_left;
    state.first_start_s = live.kept->first_start_s;
    state.progress_from_s = live.kept->progress_from_s;
    return state;
  }
  double done_s = live.facts.notes().number(note::kDoneSeconds, 0).value_or(0);
  state.held_s = done_s;
  if (done_s > 0) state.first_start_s = 0;
  const double started_s = live.facts.started_s;
  if (live.facts.has_nodes() && started_s > 0) {
    const double ran_s = (now_s - started_s) * settings_.decides.speed;
    const double pace =
        std::isfinite(schedule_.pace(live.known())) ? schedule_.pace(live.known()) : 1;
    done_s += std::max(0.0, ran_s - job.restart_s) / (pace > 0 ? pace : 1);
    state.held_s += ran_s;
    state.first_start_s = schedule_.time_of(started_s);
    state.progress_from_s = state.first_start_s + job.restart_s;
  }
  // It has not ended yet.
  state.iterations_left = job.iterations * std::max(1e-9, 1 - done_s / job.work_s());
  return state;
}

void QueueScheduler::submit_new(double now_s) {
  std::vector<Newcomer> newcomers;
  for (const std::string& id : std::exchange(new_, {})) {
    const auto found = live_.find(id);
    if (found == live_.end() || found->second.index) continue;
    const QueuedJob& facts = found->second.facts;
    // One that is not held yet may be started by Slurm at any moment.
    const bool comes_later = !facts.is_pending() || !facts.is_held;
    if (comes_later && facts.fault.empty()) {
      new_.push_back(id);
      continue;
    }
    newcomers.push_back({.key = id,
                         .name = id,
                         .together = facts.notes().text(note::kTogether),
                         .made_s = facts.submitted_s,
                         .seen_s = found->second.seen_s});
  }
  for (const std::string& id : take_complete(newcomers, now_s)) {
    LiveJob& job = live_.at(id);
    job.order = ++order_;
    submit(job, now_s);
  }
  for (Newcomer& waits : newcomers) new_.push_back(std::move(waits.key));
}

void QueueScheduler::submit(LiveJob& live, double now_s) {
  auto job = job_of(live);
  const Result<void> checked = job ? schedule_.check(*job) : std::unexpected(job.error());
  live.refused = checked ? "" : checked.error().message;
  if (!checked) return;
  live.index = schedule_.submit(*std::move(job), now_s);
  keys_.push_back(live.facts.id);
  schedule_.recall(live.known(), known_state(live, now_s));
}

Result<Job> QueueScheduler::job_of(const LiveJob& live) {
  const QueuedJob& facts = live.facts;
  if (!facts.fault.empty()) return fail(ErrorCode::kUnsupported, "{}", facts.fault);
  GPEMU_ASSIGN(Job job, job_of_notes(facts.notes(), schedule_.fleet(), speeds_));
  job.id = facts.id;
  job.demand = {.gpus = facts.gpus, .host = {}};
  if (!facts.gpu_type.empty()) {
    const auto& kinds = schedule_.fleet().kinds();
    const auto kind = std::ranges::find(kinds, facts.gpu_type);
    if (kind == kinds.end()) {
      return fail(ErrorCode::kNotFound, "no node of the partition {} has GPUs of the type {}",
                  settings_.partition, facts.gpu_type);
    }
    job.demand.kinds = std::uint64_t{1} << (kind - kinds.begin());
  }
  GPEMU_TRY(check_sharing(live, job.demand.kinds));
  const std::string said = facts.notes().text(note::kUser);
  const std::string& user = said.empty() ? facts.user : said;
  job.user = users_.try_emplace(user, static_cast<std::uint32_t>(users_.size())).first->second;
  return job;
}

/// Returns an error if Slurm could not give a job the GPUs that the policy chooses.
Result<void> QueueScheduler::check_sharing(const LiveJob& job, std::uint64_t kinds) const {
  const scheduling::PolicyEntry* const policy = settings_.decides.policy;
  const bool lets_share = policy != nullptr && shares_gpus(*policy);
  if (lets_share && job.facts.shards == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the policy {} lets jobs share GPUs: ask for a shard in place of a GPU "
                "(--gres=shard:1)",
                policy->name);
  }
  std::uint32_t most = 0;
  for (const auto& [name, server] : servers_) {
    if ((kinds >> schedule_.fleet().kind_of(server) & 1U) == 0) continue;
    const auto node = std::ranges::find(nodes_, name, &QueueNode::name);
    if (job.facts.shards != 0 && node->gpus != 1) {
      return fail(ErrorCode::kUnsupported,
                  "it asks for shards, and the node {} has {} GPUs: Slurm, not the policy, chooses "
                  "between GPUs that are shared, so that each node may have one",
                  name, node->gpus);
    }
    most = std::max(most, node->gpus);
  }
  if (job.facts.gpus <= most) return {};
  return fail(
      ErrorCode::kUnsupported,
      "it asks for {} GPUs, and no node has more than {}: gpemu-slurm does not support jobs "
      "on several nodes",
      job.facts.gpus, most);
}

bool QueueScheduler::ask_policy(double now_s) {
  const auto changed = schedule_.decide(now_s);
  if (changed) return true;
  complaints_.push_back(changed.error().message);
  dirty_ = true;
  return false;
}

std::vector<QueueAction> QueueScheduler::decide(double now_s) {
  if (keys_.size() > kMostEndedJobs + 2 * live_.size()) dirty_ = true;
  const bool is_rebuilt = dirty_;
  if (dirty_) rebuild(now_s);
  if (schedule_.has_fleet()) submit_new(now_s);
  if (schedule_.is_due(now_s)) {
    const bool is_right = ask_policy(now_s);
    if (!is_right && !is_rebuilt) {
      rebuild(now_s);
      static_cast<void>(ask_policy(now_s));
    }
  }
  std::vector<LiveJob*> jobs;
  jobs.reserve(live_.size());
  for (auto& [id, job] : live_) jobs.push_back(&job);
  std::ranges::sort(jobs, {}, &LiveJob::order);
  for (LiveJob* job : jobs) reconcile(*job, now_s);
  return std::exchange(actions_, {});
}

// What is to be done.

QueueAction& QueueScheduler::act(QueueAction::Kind kind, const LiveJob& job) {
  return actions_.emplace_back(QueueAction{.kind = kind, .job = job.facts.id});
}

std::string QueueScheduler::node_of(const LiveJob& job) const {
  const GpuSet& gpus = schedule_.state(job.known()).gpus;
  return gpus.parts() == 1 ? schedule_.fleet().servers()[gpus.part(0).server].name : "";
}

void QueueScheduler::reconcile(LiveJob& job, double now_s) {
  using Asked = LiveJob::Asked;
  const QueuedJob& facts = job.facts;
  if (dirty_ || now_s < job.not_before_s || facts.is_leaving()) return;
  const bool is_busy = job.asked == Asked::kHold || job.asked == Asked::kRequeue;
  if (is_busy) return;
  if (facts.is_pending() && !facts.is_held && job.asked == Asked::kNothing) {
    // Slurm would start it where and when it likes.
    job.asked = Asked::kHold;
    act(QueueAction::Kind::kHold, job);
    return;
  }
  const bool runs = job.index && schedule_.state(job.known()).phase == JobPhase::kRunning;
  if (!runs) {
    if (job.index && facts.has_nodes()) return requeue(job);
    if (job.asked == Asked::kStart) {
      job.asked = Asked::kHold;
      act(QueueAction::Kind::kHold, job);
      return;
    }
    return explain(job, now_s);
  }
  const JobState& state = schedule_.state(job.known());
  const std::string node = node_of(job);
  const bool is_there = job.node == node && job.epoch == state.starts + state.moves;
  if (facts.has_nodes() && !is_there) return requeue(job);
  if (job.asked == Asked::kStart && !is_there) {
    job.asked = Asked::kHold;
    act(QueueAction::Kind::kHold, job);
    return;
  }
  if (facts.has_nodes() || job.asked == Asked::kStart) {
    if (schedule_.pace(job.known()) == job.pace) return;
    act(QueueAction::Kind::kPace, job).pace = job.pace = schedule_.pace(job.known());
    return;
  }
  if (!node.empty() && is_free(node, job)) start(job, node);
}

bool QueueScheduler::may_share(const LiveJob& job, const LiveJob& other) const {
  if (!other.index || other.facts.is_leaving() || other.asked == LiveJob::Asked::kRequeue)
    return false;
  const JobState& mine = schedule_.state(job.known());
  const JobState& its = schedule_.state(other.known());
  if (its.phase != JobPhase::kRunning || other.epoch != its.starts + its.moves) return false;
  return mine.beside || its.beside || (mine.group != 0 && mine.group == its.group);
}

bool QueueScheduler::is_free(const std::string& node, const LiveJob& job) const {
  const auto has = std::ranges::find(nodes_, node, &QueueNode::name);
  if (has == nodes_.end()) return false;
  const auto foreign = foreign_.find(node);
  Use use = foreign == foreign_.end() ? Use{} : foreign->second;
  for (const auto& [id, other] : live_) {
    const bool is_there =
        other.facts.nodes.empty() ? other.node == node : other.facts.nodes.front() == node;
    if (&other == &job || !is_there) continue;
    use.shards += other.facts.shards;
    if (job.facts.shards == 0 || !may_share(job, other)) use.gpus += other.facts.gpus;
  }
  return use.gpus + job.facts.gpus <= has->gpus &&
         (job.facts.shards == 0 || use.shards + job.facts.shards <= has->shards);
}

void QueueScheduler::start(LiveJob& job, const std::string& node) {
  const JobState& state = schedule_.state(job.known());
  job.asked = LiveJob::Asked::kStart;
  job.node = node;
  job.epoch = state.starts + state.moves;
  job.begin_done_s = done_s_of(job);
  job.pace = schedule_.pace(job.known());
  QueueAction& action = act(QueueAction::Kind::kStart, job);
  action.node = node;
  action.pace = job.pace;
}

void QueueScheduler::requeue(LiveJob& job) {
  job.asked = LiveJob::Asked::kRequeue;
  act(QueueAction::Kind::kRequeue, job).message =
      fmt::format("the policy {} gives its GPUs to others", schedule_.name());
}

std::string QueueScheduler::reason_of(const LiveJob& job) const {
  if (!job.refused.empty()) return job.refused;
  if (!schedule_.has_fleet()) {
    return fmt::format("no node with GPUs of the partition {} is ready", settings_.partition);
  }
  if (!job.index) return "it waits for the jobs that arrive together with it";
  return fmt::format("the policy {} lets it wait: {} of {} GPUs are free, and it needs {}",
                     schedule_.name(), schedule_.free().count(), schedule_.fleet().gpus(),
                     schedule_.jobs()[job.known()].demand.gpus);
}

void QueueScheduler::explain(LiveJob& job, double now_s) {
  if (!job.facts.is_pending()) return;
  // How many GPUs are free changes all the time.
  const std::string& kind = job.refused.empty() ? kToldToWait : job.refused;
  const bool is_early = job.refused.empty() && (now_s - job.seen_s < kExplainAfterS ||
                                                schedule_.ask_again_s() < now_s + kSoonS);
  if (is_early || job.explained == kind) return;
  job.explained = kind;
  act(QueueAction::Kind::kExplain, job).message = reason_of(job);
}

}  // namespace gpemu::tools
