// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/hollow_nodes.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/thread.hpp"

#include "kubernetes/watched_list.hpp"
#include "kubernetes/worker_pool.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// A kubelet's lease lasts 40 s, and the controllers give a node up after 50 s without renewal
/// (node-monitor-grace-period); a kubelet renews it every 10 s, which would be many requests.
constexpr int kLeaseS = 40;
constexpr double kRenewS = 20;
/// As often as a kubelet that nothing happens to. Source: nodeStatusReportFrequency.
constexpr double kConditionsS = 300;
/// The longest until the flag that ends all is looked at.
constexpr std::chrono::milliseconds kPause{100};
/// A request that failed is sent so often in all.
constexpr int kTries = 5;

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

json lease_of(const std::string& node) {
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", {{"name", node}}},
          {"spec",
           {{"holderIdentity", node},
            {"leaseDurationSeconds", kLeaseS},
            {"renewTime", api_time(now_s(), true)}}}};
}

/// Registers a node and its lease, in place of a hollow one of the same name.
Result<void> make_node(ApiServer& api, const HollowNode& node) {
  const std::string path = "/api/v1/nodes/" + node.name;
  auto made = api.create("/api/v1/nodes", node_object(node, now_s()));
  if (!made && made.error().code == ErrorCode::kUnavailable) {
    GPEMU_ASSIGN(const json old, api.get(path));
    const json::json_pointer labels("/metadata/labels");
    if (!old.contains(labels) || !old.at(labels).contains(kHollowMark)) {
      return fail(ErrorCode::kUnavailable,
                  "there is a node {} that is not hollow; give --prefix another name", node.name);
    }
    GPEMU_TRY(api.remove(path));
    made = api.create("/api/v1/nodes", node_object(node, now_s()));
  }
  if (!made) return std::unexpected(std::move(made).error());
  const auto lease = api.create(kLeases, lease_of(node.name));
  if (lease || lease.error().code == ErrorCode::kUnavailable) return {};
  return std::unexpected(lease.error());
}

/// Kubelets of all nodes. Thread safety: full.
class Kubelets final : public ListFollower {
 public:
  Kubelets(const HollowNodesOptions& options, WorkerPool& workers,
           const std::function<void(const std::string&)>& log)
      : options_(options), workers_(workers), log_(log), pods_(options.nodes, options.speed) {}

  void listed(const std::vector<json>& items) override {
    const std::lock_guard lock(mutex_);
    pods_.listed(items, now_s());
    changed_.notify_all();
  }
  void changed(std::string_view type, const json& object) override {
    const std::lock_guard lock(mutex_);
    pods_.changed(type, object, now_s());
    changed_.notify_all();
  }
  void failed(const Error& error) override { log_(error.message); }

  /// Does what is due until `stop` is set.
  void run(const std::atomic<bool>& stop) {
    double renewed_s = now_s();
    double reported_s = renewed_s;
    while (!stop) {
      send(wait_for_due());
      const double time_s = now_s();
      if (time_s - renewed_s >= kRenewS) {
        renewed_s = time_s;
        renew_leases();
      }
      if (time_s - reported_s >= kConditionsS) {
        reported_s = time_s;
        report_conditions();
      }
    }
  }

 private:
  std::vector<PodRequest> wait_for_due() {
    std::unique_lock lock(mutex_);
    const double until_s =
        std::min(pods_.next_due_s() - now_s(), std::chrono::duration<double>(kPause).count());
    if (until_s > 0) changed_.wait_for(lock, std::chrono::duration<double>(until_s));
    return pods_.take_due(now_s());
  }

  void send(std::vector<PodRequest> requests) {
    for (PodRequest& request : requests) {
      const std::string key = request.uid;
      workers_.add(
          key, [this, request = std::move(request)](ApiServer& api) { send_one(api, request); });
    }
  }

  void send_one(ApiServer& api, const PodRequest& request) {
    for (int i = 0; i < kTries; ++i) {
      const bool removes = request.status.is_null();
      std::optional<Error> error;
      if (removes) {
        if (const auto done = api.remove(request.path + "?gracePeriodSeconds=0"); !done) {
          error = done.error();
        }
      } else if (const auto done = api.patch(request.path + "/status", request.status); !done) {
        error = done.error();
      }
      // A pod that is gone, or another one of its name, is none of ours.
      if (!error || error->code == ErrorCode::kNotFound) return;
      if (error->code != ErrorCode::kIo) return log_(error->message);
      if (i + 1 == kTries) return log_(error->message);
      std::this_thread::sleep_for(kPause * (1 << i));
    }
  }

  void renew_leases() {
    for (const HollowNode& node : options_.nodes) {
      workers_.add(node.name, [this, &node](ApiServer& api) {
        const auto done = api.patch(std::string(kLeases) + "/" + node.name,
                                    {{"spec", {{"renewTime", api_time(now_s(), true)}}}});
        if (!done) log_(done.error().message);
      });
    }
  }

  void report_conditions() {
    for (const HollowNode& node : options_.nodes) {
      workers_.add(node.name, [this, &node](ApiServer& api) {
        const auto done = api.patch("/api/v1/nodes/" + node.name + "/status",
                                    {{"status", {{"conditions", node_conditions(now_s())}}}});
        if (!done) log_(done.error().message);
      });
    }
  }

  const HollowNodesOptions& options_;
  WorkerPool& workers_;
  const std::function<void(const std::string&)>& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  HollowPods pods_;
};

/// Does something with each node over several connections. Errors: the first one.
Result<void> for_each_node(const HollowNodesOptions& options, WorkerPool& workers,
                           const std::function<Result<void>(ApiServer&, const HollowNode&)>& what) {
  std::mutex mutex;
  std::optional<Error> first;
  for (const HollowNode& node : options.nodes) {
    workers.add(node.name, [&](ApiServer& api) {
      auto done = what(api, node);
      const std::lock_guard lock(mutex);
      if (!done && !first) first = std::move(done).error();
    });
  }
  workers.wait_until_idle();
  if (first) return std::unexpected(*std::move(first));
  return {};
}

Result<void> remove_nodes(const HollowNodesOptions& options, WorkerPool& workers) {
  return for_each_node(options, workers, [](ApiServer& api, const HollowNode& node) {
    for (const std::string& path :
         {"/api/v1/nodes/" + node.name, std::string(kLeases) + "/" + node.name}) {
      const auto removed = api.remove(path);
      if (!removed && removed.error().code != ErrorCode::kNotFound) return removed;
    }
    return Result<void>{};
  });
}

}  // namespace

Result<void> serve_hollow_nodes(const ApiAccess& access, const HollowNodesOptions& options,
                                const std::atomic<bool>& stop,
                                const std::function<void(const std::string&)>& log) {
  GPEMU_ASSIGN(const std::unique_ptr<WorkerPool> workers,
               WorkerPool::create(access, options.connections));
  const auto made = for_each_node(options, *workers, make_node);
  if (!made && made.error().code == ErrorCode::kUnavailable) return made;
  if (!made) {
    // Without what there is of them: the error matters more than another one.
    static_cast<void>(remove_nodes(options, *workers));
    return made;
  }
  log(fmt::format("{} hollow nodes are ready", options.nodes.size()));
  Kubelets kubelets(options, *workers, log);
  std::thread follower = start_thread("pods", [&] {
    follow_list(access, "/api/v1/pods?fieldSelector=spec.nodeName%21%3D", stop, kubelets);
  });
  if (!follower.joinable()) {
    return fail(ErrorCode::kResourceLimit, "the system starts no more threads");
  }
  kubelets.run(stop);
  follower.join();
  return remove_nodes(options, *workers);
}

}  // namespace gpemu::tools
