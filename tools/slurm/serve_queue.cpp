// SPDX-License-Identifier: Apache-2.0
#include "slurm/serve_queue.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "slurm/pace_files.hpp"
#include "slurm/slurm_programs.hpp"

namespace gpemu::tools {
namespace {

/// How often Slurm is asked, in seconds. Slurm itself starts jobs once a second.
constexpr double kAskJobsS = 0.1;
constexpr double kAskNodesS = 2;
/// Slurm is asked less often if an answer takes long: so many times as long as that.
constexpr double kRest = 4;

class QueueServer {
 public:
  QueueServer(const World& world, const ServeQueueOptions& options,
              const std::function<void(const std::string&)>& log)
      : world_(world),
        options_(options),
        log_(log),
        slurm_(world),
        paces_(options.folder),
        scheduler_(options.settings, now_s()) {}

  Result<void> run(const std::atomic<bool>& stop) {
    GPEMU_TRY(ask_nodes());
    GPEMU_TRY(ask_jobs());
    while (!stop) {
      std::vector<QueueAction> placed;
      for (QueueAction& action : scheduler_.decide(now_s())) {
        const auto done = act(action);
        if (!done) fail_with(action, done.error());
        if (done && action.kind == QueueAction::Kind::kStart) placed.push_back(std::move(action));
      }
      release(placed);
      for (const std::string& line : scheduler_.take_complaints()) log_(line);
      const double wait_s =
          std::clamp(scheduler_.ask_again_s() - now_s(), 0.0, std::max(kAskJobsS, kRest * took_s_));
      std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
      note(now_s() >= next_nodes_s_ ? ask_nodes() : Result<void>());
      note(ask_jobs());
    }
    return {};
  }

 private:
  [[nodiscard]] double now_s() const {
    return std::chrono::duration<double>(world_.time_of_day().time_since_epoch()).count();
  }

  Result<void> ask_nodes() {
    next_nodes_s_ = now_s() + kAskNodesS;
    GPEMU_ASSIGN(std::vector<QueueNode> nodes, slurm_.nodes(options_.settings.partition));
    scheduler_.nodes_listed(std::move(nodes));
    return {};
  }

  Result<void> ask_jobs() {
    const double asked_s = now_s();
    GPEMU_ASSIGN(std::vector<QueuedJob> jobs, slurm_.jobs());
    took_s_ = now_s() - asked_s;
    std::set<std::string> live;
    for (const QueuedJob& job : jobs) {
      if (!job.has_ended()) live.insert(job.id);
    }
    scheduler_.jobs_listed(std::move(jobs), now_s());
    paces_.keep(live);
    std::erase_if(failed_, [&](const auto& failed) { return !live.contains(failed.first); });
    return {};
  }

  /// Says once what is wrong while it is: Slurm's controller may be started anew.
  void note(const Result<void>& asked) {
    const std::string what = asked ? "" : asked.error().message;
    if (!what.empty() && what != wrong_) log_(what);
    wrong_ = what;
  }

  Result<void> act(const QueueAction& action) {
    switch (action.kind) {
      case QueueAction::Kind::kHold:
        return slurm_.hold(action.job);
      case QueueAction::Kind::kStart:
        GPEMU_TRY(paces_.write(action.job, action.pace));
        return slurm_.place(action.job, action.node);
      case QueueAction::Kind::kRequeue:
        return slurm_.requeue_held(action.job);
      case QueueAction::Kind::kPace:
        return paces_.write(action.job, action.pace);
      case QueueAction::Kind::kExplain:
        log_(fmt::format("job {} waits: {}", action.job, action.message));
        return slurm_.set(action.job, "AdminComment", action.message);
    }
    return {};
  }

  /// All at once, as the policy decided; if that fails, one by one.
  void release(const std::vector<QueueAction>& placed) {
    if (placed.empty()) return;
    std::vector<std::string> jobs;
    jobs.reserve(placed.size());
    for (const QueueAction& action : placed) jobs.push_back(action.job);
    if (slurm_.release(jobs)) return;
    for (const QueueAction& action : placed) {
      const auto done = slurm_.release({action.job});
      if (!done) fail_with(action, done.error());
    }
  }

  void fail_with(const QueueAction& action, const Error& error) {
    // It is tried again and again.
    if (std::exchange(failed_[action.job], error.message) != error.message) {
      log_(fmt::format("job {}: {}", action.job, error.message));
    }
    scheduler_.action_failed(action, now_s());
  }

  const World& world_;
  const ServeQueueOptions& options_;
  const std::function<void(const std::string&)>& log_;
  SlurmPrograms slurm_;
  PaceFiles paces_;
  QueueScheduler scheduler_;
  double next_nodes_s_ = 0;
  double took_s_ = 0;                          ///< the last question about jobs.
  std::map<std::string, std::string> failed_;  ///< what Slurm refused, by job.
  std::string wrong_;
};

}  // namespace

Result<void> serve_queue(const World& world, const ServeQueueOptions& options,
                         const std::atomic<bool>& stop,
                         const std::function<void(const std::string&)>& log) {
  QueueServer server(world, options, log);
  return server.run(stop);
}

}  // namespace gpemu::tools
