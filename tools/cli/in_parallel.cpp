// SPDX-License-Identifier: Apache-2.0
#include "cli/in_parallel.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::tools {
namespace {

/// So often progress is shown while no call returns.
constexpr std::chrono::milliseconds kBetweenCalls{200};

/// What the threads share.
class Work {
 public:
  Work(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work) {}

  /// Works until nothing is left.
  void take_part() {
    for (;;) {
      const std::size_t mine = next();
      if (mine >= count_) return;
      work_(mine);
      const Lock lock(mutex_);
      ++done_;
      changed_.notify_one();
    }
  }

  void wait(const std::function<void(std::size_t)>& progress) {
    for (std::size_t seen = 0; seen < count_;) {
      Lock lock(mutex_);
      changed_.wait_for(lock, kBetweenCalls, [&]() GPEMU_REQUIRES(mutex_) { return done_ > seen; });
      seen = done_;
      lock.unlock();
      progress(seen);
    }
  }

 private:
  std::size_t next() {
    const Lock lock(mutex_);
    return next_++;
  }

  const std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  Mutex mutex_;
  Condition changed_;
  std::size_t next_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::size_t done_ GPEMU_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void in_parallel(std::size_t count, std::size_t threads,
                 const std::function<void(std::size_t)>& work,
                 const std::function<void(std::size_t)>& progress) {
  Work shared(count, work);
  std::vector<std::thread> started;
  for (std::size_t i = 0; i < std::min(threads, count); ++i) {
    std::thread thread = start_thread("gpemu-work", [&shared] { shared.take_part(); });
    if (!thread.joinable()) break;
    started.push_back(std::move(thread));
  }
  if (started.empty()) shared.take_part();
  shared.wait(progress);
  for (std::thread& thread : started) thread.join();
}

}  // namespace gpemu::tools
