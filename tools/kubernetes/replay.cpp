// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/replay.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/thread.hpp"
#include "gpemu/containers/container_edits.hpp"

#include "kubernetes/watched_list.hpp"
#include "kubernetes/worker_pool.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using scheduling::Fleet;
using scheduling::Job;
using scheduling::JobIndex;

/// The annotation of a pod with the place of its job in the table.
constexpr const char* kPlace = "gpemu.dev/replayed";
/// Removing the pods, and finding out what is to be done, are asked for so often.
constexpr std::chrono::milliseconds kTurn{20};
/// How long a job that is evicted may take to write how far it is, in seconds.
constexpr int kGraceS = 10;
/// Where a container finds its pace.
constexpr const char* kPaceFolder = "/etc/gpemu-job";
/// So many pods are made at once.
constexpr std::size_t kMakers = 4;

double unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string number_of(double number) {
  return fmt::format("{:.12g}", number);
}

/// Returns into how many pods a job is divided: as few as there may be.
std::uint32_t pods_for(const Fleet& fleet, const Job& job) {
  std::uint32_t pods = 1;
  const std::uint32_t most = fleet.most_on_one(job.demand.kinds);
  while (job.demand.gpus % pods != 0 || job.demand.gpus / pods > most) ++pods;
  return pods;
}

json annotations_of(const Fleet& fleet, const Job& job, double done_s) {
  json all = json::object();
  for (const auto& [name, text] : notes_of_job(fleet, job, done_s)) all["gpemu.dev/" + name] = text;
  if (job.demand.shares_gpus()) all[annotation::kGpuMilli] = std::to_string(job.demand.gpu_share);
  return all;
}

/// Returns the label of nodes that a job's pods must have; empty: any node does.
Result<json> selector_of(const Fleet& fleet, const Job& job) {
  const std::uint64_t all = fleet.kinds().size() == scheduling::kMaxKinds
                                ? ~std::uint64_t{0}
                                : (std::uint64_t{1} << fleet.kinds().size()) - 1;
  const std::uint64_t may = job.demand.kinds & all;
  if (may == all) return json::object();
  if (std::popcount(may) != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "job {} may have some kinds of GPUs; a pod has one of them, or any", job.id);
  }
  return json{{kProductLabel, fleet.kinds()[static_cast<std::size_t>(std::countr_zero(may))]}};
}

/// Returns the container of a hollow node's pod, which no one runs.
json hollow_container(const json& limits) {
  return {{"name", "job"}, {"image", "none"}, {"resources", {{"limits", limits}}}};
}

/// Returns the container in which a job runs on its emulated GPUs, from where `done_s` says.
json running_container(const Job& job, std::uint32_t gpus, double done_s, const json& limits,
                       const ReplayOptions& options) {
  const double left = std::ceil(job.iterations * (1 - done_s / job.work_s()) - 1e-9);
  const auto real = [&](double seconds) { return number_of(seconds / options.speed); };
  json command{std::string(containers::kInstallation) + "/bin/gpemu", "jobs", "run"};
  command.insert(command.end(),
                 {"--iterations", number_of(std::max(left, 1.0)), "--iteration",
                  real(job.iteration_s), "--gpus", std::to_string(gpus), "--pace",
                  std::string(kPaceFolder) + "/pace", "--progress", "/dev/termination-log"});
  if (std::ranges::any_of(job.stages_s, [](double stage_s) { return stage_s > 0; })) {
    command.insert(command.end(),
                   {"--stages", fmt::format("{},{},{}", real(job.stages_s[0]),
                                            real(job.stages_s[1]), real(job.stages_s[2]))});
  }
  const json mount{{"name", "pace"}, {"mountPath", kPaceFolder}};
  return {{"name", "job"},
          {"image", options.image},
          {"imagePullPolicy", "IfNotPresent"},
          {"command", command},
          {"resources", {{"limits", limits}}},
          {"volumeMounts", json::array({mount})}};
}

/// Returns the volume from which a container reads its pace, which the scheduler may change.
json pace_volume() {
  const json path = fmt::format("metadata.annotations['{}']", annotation::kPace);
  const json item{{"path", "pace"}, {"fieldRef", {{"fieldPath", path}}}};
  return {{"name", "pace"}, {"downwardAPI", {{"items", json::array({item})}}}};
}

}  // namespace

Result<std::vector<json>> pods_of(const Fleet& fleet, const Job& job, JobIndex index, double done_s,
                                  int round, std::size_t together, const ReplayOptions& options) {
  const std::uint32_t count = pods_for(fleet, job);
  const std::uint32_t gpus = job.demand.gpus / count;
  GPEMU_ASSIGN(const json selector, selector_of(fleet, job));
  json annotations = annotations_of(fleet, job, done_s);
  annotations[kPlace] = std::to_string(index);
  if (together > 1 && round == 0) {
    annotations[annotation::kTogether] =
        fmt::format("{}/{} at {}", together, options.run, job.arrival_s);
  }
  json limits = json::object();
  const bool is_hollow = options.image.empty();
  if (!is_hollow && (gpus == 0 || job.demand.shares_gpus())) {
    return fail(ErrorCode::kUnsupported,
                "job {} has no whole GPUs; with --image, only jobs that have are replayed", job.id);
  }
  const bool by_resource = is_hollow ? !options.shares_gpus && !job.demand.shares_gpus() : true;
  if (gpus != 0 && by_resource) limits[options.resource] = std::to_string(gpus);
  // Else, the pod would ask for none.
  if (!limits.contains(kGpuResource)) annotations[annotation::kGpus] = std::to_string(gpus);
  const scheduling::HostShare host = job.demand.host_beside(gpus);
  if (host.millicores != 0) limits["cpu"] = fmt::format("{}m", host.millicores);
  if (host.memory_mib != 0) limits["memory"] = fmt::format("{}Mi", host.memory_mib);
  const std::string name = fmt::format("{}-{}", options.run, index);
  json labels{{kPlace, options.run}};
  if (count > 1) {
    labels[annotation::kGroup] = name;
    annotations[annotation::kGroupSize] = std::to_string(count);
  } else {
    annotations[annotation::kJob] = name;
  }
  const json toleration{{"key", kHollowMark}, {"operator", "Exists"}};
  const json container =
      is_hollow ? hollow_container(limits) : running_container(job, gpus, done_s, limits, options);
  std::vector<json> pods;
  for (std::uint32_t i = 0; i < count; ++i) {
    pods.push_back({{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata",
                     {{"name", fmt::format("{}-{}-{}", name, round, i)},
                      {"namespace", options.name_space},
                      {"labels", labels},
                      {"annotations", annotations}}},
                    {"spec",
                     {{"schedulerName", options.scheduler},
                      {"restartPolicy", "Never"},
                      {"terminationGracePeriodSeconds", is_hollow ? 1 : kGraceS},
                      {"nodeSelector", selector},
                      {"tolerations", json::array({toleration})},
                      {"containers", json::array({container})}}}});
    if (!is_hollow) pods.back()["spec"]["volumes"] = json::array({pace_volume()});
  }
  return pods;
}

namespace {

/// Returns how long an iteration of a pod's job takes.
double iteration_s(const PodFacts& pod) {
  const double iterations = pod.number(annotation::kIterations, 1).value_or(1);
  return pod.number(annotation::kSeconds, 0).value_or(0) / std::max(iterations, 1.0);
}

}  // namespace

ReplayedJobs::ReplayedJobs(std::size_t jobs, double begin_s, double speed)
    : begin_s_(begin_s), speed_(speed), jobs_(jobs), running_(jobs) {}

void ReplayedJobs::note_progress(Running& running, double now_s) const {
  if (running.as_of_s < 0) return;
  const double ran_s = (now_s - running.as_of_s) * speed_;
  if (ran_s <= 0) return;  // It restarts.
  running.done_s += ran_s / running.pace;
  running.as_of_s = now_s;
}

std::optional<double> ReplayedJobs::changed(JobIndex job, std::string_view type,
                                            const PodFacts& pod, double now_s) {
  Running& running = running_[job];
  const bool is_gone = type == "DELETED" || pod.has_ended();
  if (!is_gone && pods_.try_emplace(pod.uid, job).second) {
    ++running.pods;
    // It may be evicted before it runs.
    running.done_s = pod.number(annotation::kDoneSeconds, 0).value_or(0);
  }
  // Kubelets do not say it exactly.
  const double seen_s = pod.phase == "Running" ? now_s : -1;
  const double started_s = pod.number(annotation::kStarted, seen_s, -1).value_or(-1);
  if (started_s >= 0 && running.as_of_s < 0 && !is_gone) {
    const double restart_s = pod.number(annotation::kRestartSeconds, 0).value_or(0);
    running.as_of_s = started_s + restart_s / speed_;
    running.pace = pod.number(annotation::kPace, 1).value_or(1);
    if (jobs_[job].start_s < 0) jobs_[job].start_s = (started_s - begin_s_) * speed_;
  }
  const double pace = pod.number(annotation::kPace, running.pace).value_or(running.pace);
  if (pace != running.pace && pace > 0) {
    note_progress(running, now_s);
    running.pace = pace;
  }
  if (pod.is_deleted && !running.is_evicted && pod.phase != "Succeeded") {
    running.is_evicted = true;
    note_progress(running, now_s);
  }
  if (!is_gone || pods_.erase(pod.uid) == 0) return std::nullopt;
  if (pod.phase == "Failed" && !pod.is_deleted) failed_[job] = pod.name;
  if (--running.pods != 0) return std::nullopt;
  // One that was never seen to run was short.
  if (jobs_[job].start_s < 0 && pod.phase == "Succeeded") {
    jobs_[job].start_s =
        (pod.number(annotation::kEnded, now_s).value_or(now_s) - begin_s_) * speed_;
  }
  if (running.is_evicted && pod.phase != "Succeeded") {
    const double done_s = pod.progress ? pod.number(annotation::kDoneSeconds, 0).value_or(0) +
                                             *pod.progress * iteration_s(pod)
                                       : running.done_s;
    running = {};
    ++jobs_[job].evictions;
    return done_s;
  }
  const double ended_s = pod.number(annotation::kEnded, now_s).value_or(now_s);
  jobs_[job].end_s = (ended_s - begin_s_) * speed_;
  ++ended_;
  return std::nullopt;
}

namespace {

/// The pods of a replay. Thread safety: full.
class Replay final : public ListFollower {
 public:
  Replay(const Fleet& fleet, std::span<const Job> jobs, const ReplayOptions& options,
         WorkerPool& workers)
      : fleet_(fleet),
        jobs_(jobs),
        options_(options),
        workers_(workers),
        begin_s_(unix_s()),
        state_(jobs.size(), begin_s_, options.speed) {}

  void listed(const std::vector<json>& items) override {
    std::set<std::string> listed;
    for (const json& item : items) {
      listed.insert(text_at(item, "/metadata/uid"));
      changed("MODIFIED", item);
    }
    // What went while nobody watched.
    std::map<std::string, json> gone;
    {
      const std::lock_guard lock(mutex_);
      gone = known_;
      std::erase_if(gone, [&](const auto& pod) { return listed.contains(pod.first); });
    }
    for (const auto& [uid, pod] : gone) changed("DELETED", pod);
  }
  void changed(std::string_view type, const json& object) override {
    const auto facts = facts_of(object);
    if (!facts) return fail_with(facts.error());
    const std::string place = facts->text(kPlace);
    JobIndex job = 0;
    const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), job);
    if (error != std::errc{} || job >= jobs_.size()) return;
    const std::lock_guard lock(mutex_);
    if (type == "DELETED") {
      known_.erase(facts->uid);
    } else {
      known_[facts->uid] = object;
    }
    const auto done_s = state_.changed(job, type, *facts, unix_s());
    if (done_s) make(job, *done_s, state_.round_of(job));
    // One that is evicted ends early.
    if (facts->phase == "Failed" && !facts->is_deleted && !error_) {
      error_ = Error{.code = ErrorCode::kUnsupported,
                     .message = fmt::format(
                         "the pod {} failed: {}{}", facts->name, text_at(object, "/status/message"),
                         text_at(object, "/status/containerStatuses/0/state/terminated/message"))};
    }
    came_.notify_all();
  }
  void failed(const Error& error) override { fail_with(error); }

  Result<void> run(const std::atomic<bool>& stop,
                   const std::function<void(std::size_t)>& progress) {
    std::size_t next = 0;
    std::unique_lock lock(mutex_);
    while (!stop && !error_ && state_.ended() < jobs_.size()) {
      const double time_s = (unix_s() - begin_s_) * options_.speed;
      for (; next < jobs_.size() && jobs_[next].arrival_s <= time_s; ++next) {
        make(static_cast<JobIndex>(next), 0, 0);
      }
      progress(state_.ended());
      auto wait = std::chrono::duration<double>(kTurn);
      if (next < jobs_.size()) {
        wait = std::min(
            wait, std::chrono::duration<double>((jobs_[next].arrival_s - time_s) / options_.speed));
      }
      came_.wait_for(lock, wait);
    }
    if (error_) return std::unexpected(*error_);
    if (stop) return fail(ErrorCode::kInterrupted, "the replay was stopped");
    return {};
  }

  std::vector<ReplayedJob> result() {
    const std::lock_guard lock(mutex_);
    return {state_.jobs().begin(), state_.jobs().end()};
  }

 private:
  void fail_with(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    came_.notify_all();
  }

  void make(JobIndex job, double done_s, int round) {
    workers_.add(std::to_string(job), [this, job, done_s, round](ApiServer& api) {
      const auto same = std::ranges::equal_range(jobs_, jobs_[job].arrival_s, {}, &Job::arrival_s);
      auto pods = pods_of(fleet_, jobs_[job], job, done_s, round, same.size(), options_);
      if (!pods) return fail_with(pods.error());
      for (const json& pod : *pods) {
        const auto made = api.create("/api/v1/namespaces/" + options_.name_space + "/pods", pod);
        if (!made) return fail_with(made.error());
      }
    });
  }

  const Fleet& fleet_;
  std::span<const Job> jobs_;
  const ReplayOptions& options_;
  WorkerPool& workers_;
  double begin_s_;
  std::mutex mutex_;
  std::condition_variable came_;
  ReplayedJobs state_;
  std::map<std::string, json> known_;  ///< pods by UID.
  std::optional<Error> error_;
};

/// Removes the pods of a replay. Errors: those of the API server.
Result<void> remove_pods(const ApiAccess& access, const ReplayOptions& options) {
  GPEMU_ASSIGN(ApiServer api, ApiServer::create(access));
  return api.remove(
      fmt::format("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0&labelSelector={}%3D{}",
                  options.name_space, "gpemu.dev%2Freplayed", options.run));
}

}  // namespace

Result<std::vector<ReplayedJob>> replay(const ApiAccess& access, const Fleet& fleet,
                                        std::span<const Job> jobs, const ReplayOptions& options,
                                        const std::atomic<bool>& stop,
                                        const std::function<void(std::size_t ended)>& progress) {
  // Before anything is made: what pods cannot ask for.
  for (JobIndex job = 0; job < jobs.size(); ++job) {
    GPEMU_ASSIGN([[maybe_unused]] const auto pods,
                 pods_of(fleet, jobs[job], job, 0, 0, 1, options));
  }
  GPEMU_ASSIGN(std::unique_ptr<WorkerPool> workers, WorkerPool::create(access, kMakers));
  Replay running(fleet, jobs, options, *workers);
  std::atomic<bool> ends = false;
  std::thread follower = start_thread("pods", [&] {
    follow_list(access,
                fmt::format("/api/v1/namespaces/{}/pods?labelSelector=gpemu.dev%2Freplayed%3D{}",
                            options.name_space, options.run),
                ends, running);
  });
  if (!follower.joinable()) {
    return fail(ErrorCode::kResourceLimit, "the system starts no more threads");
  }
  const auto ran = running.run(stop, progress);
  ends = true;
  workers.reset();
  follower.join();
  const auto removed = remove_pods(access, options);
  if (!ran) return std::unexpected(ran.error());
  if (!removed) return std::unexpected(removed.error());
  return running.result();
}

}  // namespace gpemu::tools
