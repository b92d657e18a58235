// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/thread.hpp"

#include "kubernetes/watched_list.hpp"
#include "kubernetes/worker_pool.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

/// The longest until a policy is asked again, and the flag that ends all is looked at.
constexpr double kTurnS = 0.1;
constexpr std::chrono::milliseconds kBetweenTries{50};

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What the lists told that the policy has not seen.
struct News {
  bool of_nodes = false;
  std::optional<std::vector<json>> list;  ///< else a change:
  std::string type;
  json object;
};

/// Takes news from the threads that follow lists. Thread safety: full.
class Inbox {
 public:
  void add(News news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    came_.notify_all();
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    came_.notify_all();
  }
  /// Waits for news, no longer than so many seconds.
  std::deque<News> take(double most_s) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, std::chrono::duration<double>(std::max(most_s, 0.0)),
                   [&] { return is_woken_ || !news_.empty(); });
    is_woken_ = false;
    return std::exchange(news_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool is_woken_ = false;
  std::deque<News> news_;
};

class ToInbox final : public ListFollower {
 public:
  ToInbox(Inbox& inbox, bool of_nodes, const std::function<void(const std::string&)>& log)
      : inbox_(inbox), of_nodes_(of_nodes), log_(log) {}
  void listed(const std::vector<json>& items) override {
    inbox_.add({.of_nodes = of_nodes_, .list = items, .type = {}, .object = {}});
  }
  void changed(std::string_view type, const json& object) override {
    inbox_.add({.of_nodes = of_nodes_, .list = {}, .type = std::string(type), .object = object});
  }
  void failed(const Error& error) override { log_(error.message); }

 private:
  Inbox& inbox_;
  bool of_nodes_;
  const std::function<void(const std::string&)>& log_;
};

/// Keeps the lease. Thread safety: full.
class Leadership {
 public:
  Leadership(LeaderElectionOptions options, const std::function<void(const std::string&)>& log)
      : election_(std::move(options)), log_(log) {}

  /// Returns when this candidate leads, or `stop` is set. Errors: kUnsupported if it may not.
  Result<void> wait(ApiServer& api, const std::atomic<bool>& stop) {
    std::string holder;
    while (!stop) {
      const auto held = try_hold(api);
      if (held && *held) return {};
      if (!held && held.error().code != ErrorCode::kIo) return std::unexpected(held.error());
      if (!held) log_(held.error().message);
      if (held && holder != election_.holder()) {
        holder = election_.holder();
        log_(fmt::format("{} leads; this one waits", holder));
      }
      pause(stop);
    }
    return {};
  }
  /// Renews it until `stop` is set, or it is lost.
  void keep(ApiServer& api, const std::atomic<bool>& stop) {
    while (!stop && leads()) {
      pause(stop);
      const auto held = try_hold(api);
      if (!held) log_(held.error().message);
    }
  }
  [[nodiscard]] bool leads() {
    const std::lock_guard lock(mutex_);
    return election_.leads(steady_clock::now());
  }
  Result<void> release(ApiServer& api) { return election_.release(api); }

 private:
  Result<bool> try_hold(ApiServer& api) {
    // The request takes time, in which leads() must be answered; a copy asks.
    LeaderElection asking = [&] {
      const std::lock_guard lock(mutex_);
      return election_;
    }();
    auto held = asking.try_hold(api, steady_clock::now());
    const std::lock_guard lock(mutex_);
    election_ = std::move(asking);
    return held;
  }
  void pause(const std::atomic<bool>& stop) const {
    const auto until = steady_clock::now() + election_.pause();
    while (!stop && steady_clock::now() < until) std::this_thread::sleep_for(kBetweenTries);
  }

  std::mutex mutex_;
  LeaderElection election_;
  const std::function<void(const std::string&)>& log_;
};

/// Sends what the policy wants to the API server.
class Actor {
 public:
  Actor(const SchedulerOptions& options, WorkerPool& workers, Leadership& leadership, Inbox& inbox,
        const std::function<void(const std::string&)>& log)
      : options_(options), workers_(workers), leadership_(leadership), inbox_(inbox), log_(log) {}

  void act(PodAction action) {
    const std::string uid = action.uid;
    workers_.add(uid, [this, action = std::move(action)](ApiServer& api) {
      if (!leadership_.leads()) return;  // Another one decides now.
      const auto done = send(api, action);
      if (done || done.error().code == ErrorCode::kNotFound) {
        if (!done && action.kind == PodAction::Kind::kBind) fail_binding(action.uid);
        return;
      }
      if (action.kind == PodAction::Kind::kBind) fail_binding(action.uid);
      if (action.kind == PodAction::Kind::kEvict) fail_eviction(action.uid);
      // Another one bound it, or it is another pod: the watch says so.
      if (done.error().code != ErrorCode::kUnavailable) log_(done.error().message);
    });
  }

  std::vector<std::string> take_failed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failed_, {});
  }
  std::vector<std::string> take_failed_evictions() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failed_evictions_, {});
  }

 private:
  void fail_binding(const std::string& uid) {
    {
      const std::lock_guard lock(mutex_);
      failed_.push_back(uid);
    }
    inbox_.wake();
  }

  void fail_eviction(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    failed_evictions_.push_back(uid);
  }

  Result<void> send(ApiServer& api, const PodAction& action) {
    switch (action.kind) {
      case PodAction::Kind::kBind:
        return done(api.create(
            action.path() + "/binding",
            {{"apiVersion", "v1"},
             {"kind", "Binding"},
             {"metadata",
              {{"name", action.name},
               {"namespace", action.name_space},
               {"uid", action.uid},
               {"annotations", action.annotations}}},
             {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", action.node}}}}));
      case PodAction::Kind::kAnnotate:
        return done(
            api.patch(action.path(),
                      {{"metadata", {{"uid", action.uid}, {"annotations", action.annotations}}}}));
      case PodAction::Kind::kEvict:
        // Whoever looks at events may miss one; the eviction counts.
        static_cast<void>(note(api, action, "Preempted", "Normal"));
        return done(
            api.create(action.path() + "/eviction",
                       {{"apiVersion", "policy/v1"},
                        {"kind", "Eviction"},
                        {"metadata", {{"name", action.name}, {"namespace", action.name_space}}},
                        {"deleteOptions", {{"preconditions", {{"uid", action.uid}}}}}}));
      case PodAction::Kind::kExplain:
        GPEMU_TRY(explain(api, action));
        return note(api, action, "FailedScheduling", "Warning");
    }
    return {};
  }

  static Result<void> done(Result<json> answer) {
    if (!answer) return std::unexpected(std::move(answer).error());
    return {};
  }

  static Result<void> explain(ApiServer& api, const PodAction& action) {
    json condition{{"type", "PodScheduled"},
                   {"status", "False"},
                   {"reason", "Unschedulable"},
                   {"message", action.message},
                   {"lastTransitionTime", api_time(wall_s())}};
    return done(api.patch(action.path() + "/status",
                          {{"metadata", {{"uid", action.uid}}},
                           {"status", {{"conditions", json::array({std::move(condition)})}}}}));
  }

  Result<void> note(ApiServer& api, const PodAction& action, const char* reason,
                    const char* type) const {
    const std::string time = api_time(wall_s());
    return done(api.create("/api/v1/namespaces/" + action.name_space + "/events",
                           {{"apiVersion", "v1"},
                            {"kind", "Event"},
                            {"metadata", {{"generateName", action.name + "."}}},
                            {"involvedObject",
                             {{"apiVersion", "v1"},
                              {"kind", "Pod"},
                              {"name", action.name},
                              {"namespace", action.name_space},
                              {"uid", action.uid}}},
                            {"reason", reason},
                            {"message", action.message},
                            {"type", type},
                            {"firstTimestamp", time},
                            {"lastTimestamp", time},
                            {"count", 1},
                            {"source", {{"component", options_.settings.name}}}}));
  }

  const SchedulerOptions& options_;
  WorkerPool& workers_;
  Leadership& leadership_;
  Inbox& inbox_;
  const std::function<void(const std::string&)>& log_;
  std::mutex mutex_;
  std::vector<std::string> failed_, failed_evictions_;
};

void tell(PodScheduler& scheduler, const News& news) {
  const double now_s = wall_s();
  if (news.of_nodes && news.list) return scheduler.nodes_listed(*news.list);
  if (news.of_nodes) return scheduler.node_changed(news.type, news.object);
  if (news.list) return scheduler.pods_listed(*news.list, now_s);
  scheduler.pod_changed(news.type, news.object, now_s);
}

/// Schedules until `stop` is set or the lease is lost.
void schedule(const SchedulerOptions& options, Leadership& leadership, Inbox& inbox, Actor& actor,
              const std::atomic<bool>& stop, const std::function<void(const std::string&)>& log) {
  PodScheduler scheduler(options.settings, wall_s());
  bool has_nodes = false;
  bool has_pods = false;
  double wait_s = kTurnS;
  while (!stop && leadership.leads()) {
    for (const News& news : inbox.take(wait_s)) {
      has_nodes = has_nodes || (news.of_nodes && news.list);
      has_pods = has_pods || (!news.of_nodes && news.list);
      tell(scheduler, news);
    }
    for (const std::string& uid : actor.take_failed()) scheduler.binding_failed(uid);
    for (const std::string& uid : actor.take_failed_evictions()) {
      scheduler.eviction_failed(uid, wall_s());
    }
    wait_s = kTurnS;
    // Before both lists are known, what pods have might be given away.
    if (!has_nodes || !has_pods) continue;
    for (PodAction& action : scheduler.decide(wall_s())) actor.act(std::move(action));
    for (const std::string& line : scheduler.take_complaints()) log(line);
    wait_s = std::min(scheduler.ask_again_s() - wall_s(), kTurnS);
  }
}

}  // namespace

Result<void> serve_scheduler(const ApiAccess& access, const SchedulerOptions& options,
                             const std::atomic<bool>& stop,
                             const std::function<void(const std::string&)>& log) {
  GPEMU_ASSIGN(ApiServer api, ApiServer::create(access));
  Leadership leadership(options.election, log);
  GPEMU_TRY(leadership.wait(api, stop));
  if (stop) return {};
  log(fmt::format("{} leads", options.election.identity));
  std::atomic<bool> ends = false;
  Inbox inbox;
  ToInbox nodes(inbox, true, log);
  ToInbox pods(inbox, false, log);
  std::vector<std::thread> threads;
  threads.push_back(start_thread("lease", [&] { leadership.keep(api, ends); }));
  threads.push_back(
      start_thread("nodes", [&] { follow_list(access, "/api/v1/nodes", ends, nodes); }));
  threads.push_back(start_thread("pods", [&] { follow_list(access, "/api/v1/pods", ends, pods); }));
  {
    auto workers = WorkerPool::create(access, options.connections);
    if (workers) {
      Actor actor(options, **workers, leadership, inbox, log);
      schedule(options, leadership, inbox, actor, stop, log);
      workers->reset();
    } else {
      log(workers.error().message);
    }
  }
  const bool led = leadership.leads();
  ends = true;
  for (std::thread& thread : threads) thread.join();
  if (!led) {
    return fail(ErrorCode::kUnavailable, "the lease {}/{} was not renewed in time; start it anew",
                options.election.name_space, options.election.name);
  }
  return leadership.release(api);
}

}  // namespace gpemu::tools
