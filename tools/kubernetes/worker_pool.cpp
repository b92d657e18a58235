// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/worker_pool.hpp"

#include <utility>

#include "gpemu/base/thread.hpp"

namespace gpemu::tools {

Result<std::unique_ptr<WorkerPool>> WorkerPool::create(const ApiAccess& access,
                                                       std::size_t connections) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool);
  for (std::size_t i = 0; i < connections; ++i) {
    GPEMU_ASSIGN(ApiServer api, ApiServer::create(access));
    auto worker = std::make_unique<Worker>();
    worker->thread =
        start_thread("requests", [made = pool.get(), to = worker.get(),
                                  connection = std::make_shared<ApiServer>(std::move(api))] {
          made->work(*to, *connection);
        });
    if (!worker->thread.joinable()) {
      return fail(ErrorCode::kResourceLimit, "the system starts no more threads");
    }
    pool->workers_.push_back(std::move(worker));
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  stop_ = true;
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->changed.notify_all();
  }
  for (const auto& worker : workers_) worker->thread.join();
}

void WorkerPool::add(std::string_view key, Task task) {
  Worker& worker = *workers_[std::hash<std::string_view>{}(key) % workers_.size()];
  const std::lock_guard lock(worker.mutex);
  worker.tasks.push_back(std::move(task));
  worker.changed.notify_all();
}

void WorkerPool::wait_until_idle() {
  for (const auto& worker : workers_) {
    std::unique_lock lock(worker->mutex);
    worker->changed.wait(lock, [&] { return worker->tasks.empty() && !worker->busy; });
  }
}

void WorkerPool::work(Worker& worker, ApiServer& api) {
  std::unique_lock lock(worker.mutex);
  for (;;) {
    worker.changed.wait(lock, [&] { return stop_ || !worker.tasks.empty(); });
    if (stop_) return;
    const Task task = std::move(worker.tasks.front());
    worker.tasks.pop_front();
    worker.busy = true;
    lock.unlock();
    task(api);
    lock.lock();
    worker.busy = false;
    worker.changed.notify_all();
  }
}

}  // namespace gpemu::tools
