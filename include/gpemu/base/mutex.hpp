// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

/// Annotations that clang checks (-Wthread-safety) and other compilers ignore.
/// Source: Clang documentation, "Thread Safety Analysis".
#if defined(__clang__)
#define GPEMU_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define GPEMU_THREAD_ANNOTATION(annotation)
#endif

/// The variable may be used only while the mutex is held.
#define GPEMU_GUARDED_BY(mutex) GPEMU_THREAD_ANNOTATION(guarded_by(mutex))
/// The function may be called only while the mutexes are held.
#define GPEMU_REQUIRES(...) GPEMU_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))

namespace gpemu {

/// A std::mutex that clang knows as one.
class GPEMU_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() GPEMU_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  bool try_lock() GPEMU_THREAD_ANNOTATION(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }
  void unlock() GPEMU_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex until the end of its scope, or until it unlocks it.
class GPEMU_THREAD_ANNOTATION(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) GPEMU_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() GPEMU_THREAD_ANNOTATION(release_capability()) {
    if (holds_) mutex_.unlock();
  }

  void unlock() GPEMU_THREAD_ANNOTATION(release_capability()) {
    mutex_.unlock();
    holds_ = false;
  }
  void lock() GPEMU_THREAD_ANNOTATION(acquire_capability()) {
    mutex_.lock();
    holds_ = true;
  }

 private:
  Mutex& mutex_;
  bool holds_ = true;
};

}  // namespace gpemu
