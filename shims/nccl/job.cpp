// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include "status.hpp"

std::shared_ptr<Job> Job::start(Work work) {
  std::shared_ptr<Job> job(new Job);
  // The program's signals reach only the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    job->thread_ = std::thread([own = job.get(), work = std::move(work)] {
      const int status = work(&own->cancelled_);
      own->warning_ = last_warning();
      own->status_.store(status, std::memory_order_release);
      own->status_.notify_all();
    });
  } catch (const std::system_error&) {
    job = nullptr;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return job;
}

Job::~Job() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

int Job::status() const {
  const int status = status_.load(std::memory_order_acquire);
  if (status != kSuccess && status != kInProgress && *warning_ != 0) last_warning() = warning_;
  return status;
}
