// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "abi.hpp"

/// Work that a nonblocking call has left to a thread of its own.
///
/// Thread safety: any thread, but not the job's own.
class Job {
 public:
  /// What the thread does; returns an ncclResult_t. It is to give up when the flag is not 0.
  using Work = std::function<int(const int32_t* cancelled)>;

  /// Returns null if the system starts no thread.
  static std::shared_ptr<Job> start(Work work);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Cancels the work and waits for it.
  ~Job();

  /// Returns kInProgress until the work is done, then its result, whose warning becomes the calling
  /// thread's.
  [[nodiscard]] int status() const;
  void cancel() { __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE); }
  /// Waits until the work is done.
  void wait() const { status_.wait(kInProgress, std::memory_order_acquire); }

 private:
  Job() = default;
  std::atomic<int> status_{kInProgress};
  const char* warning_ = "";  ///< written before the status.
  int32_t cancelled_ = 0;
  std::thread thread_;
};
