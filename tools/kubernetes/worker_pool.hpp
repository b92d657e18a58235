// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "gpemu/base/error.hpp"

#include "kubernetes/api_server.hpp"

namespace gpemu::tools {

/// Threads that each have a connection to an API server and send requests over it. Those with the
/// same key are sent one after another, in the order in which they were added.
///
/// Thread safety: full.
class WorkerPool {
 public:
  using Task = std::function<void(ApiServer& api)>;

  /// Errors: those of ApiServer::create; kResourceLimit if the system starts no more threads.
  [[nodiscard]] static Result<std::unique_ptr<WorkerPool>> create(const ApiAccess& access,
                                                                  std::size_t connections);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  /// Waits for the tasks that have begun; those that have not are dropped.
  ~WorkerPool();

  void add(std::string_view key, Task task);
  /// Waits until all tasks that were added have ended.
  void wait_until_idle();

 private:
  struct Worker {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    bool busy = false;
    std::thread thread;
  };
  WorkerPool() = default;
  void work(Worker& worker, ApiServer& api);

  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace gpemu::tools
