// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <pthread.h>

#include "gpemu/base/error.hpp"

namespace gpemu::device {

/// Prepares a mutex in shared memory that survives the death of its holder.
inline void initialise_robust_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  GPEMU_CHECK(pthread_mutex_init(&mutex, &attributes) == 0, "cannot initialise a mutex");
  pthread_mutexattr_destroy(&attributes);
}

/// Holds a robust mutex. When the previous holder died with it, `repair` runs under the lock before
/// anything else; should this process die in `repair` too, the next one runs it again.
class RobustLock {
 public:
  template <typename Repair>
  RobustLock(pthread_mutex_t& mutex, Repair repair) : mutex_(mutex) {
    const int result = pthread_mutex_lock(&mutex_);
    if (result == EOWNERDEAD) {
      repair();
      pthread_mutex_consistent(&mutex_);
      return;
    }
    GPEMU_CHECK(result == 0, "cannot lock a mutex of the node segment");
  }
  RobustLock(const RobustLock&) = delete;
  RobustLock& operator=(const RobustLock&) = delete;
  ~RobustLock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace gpemu::device
