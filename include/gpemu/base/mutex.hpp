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
/// The function, or the lambda, may be called only while the mutexes are held.
#define GPEMU_REQUIRES(...) GPEMU_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// The function must not be called while the mutexes are held: it acquires them.
#define GPEMU_EXCLUDES(...) GPEMU_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// The function, or the lambda, returns with the mutexes held, or releases them.
#define GPEMU_ACQUIRES(...) GPEMU_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define GPEMU_RELEASES(...) GPEMU_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
/// The function acquires or releases mutexes in a way that the analysis cannot follow.
#define GPEMU_NOT_ANALYSED GPEMU_THREAD_ANNOTATION(no_thread_safety_analysis)
/// An object of the class holds mutexes from its constructor to its destructor.
#define GPEMU_SCOPED_LOCK GPEMU_THREAD_ANNOTATION(scoped_lockable)

namespace gpemu {

/// A std::mutex that clang's analysis recognises as a mutex.
class GPEMU_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() GPEMU_ACQUIRES() { mutex_.lock(); }
  bool try_lock() GPEMU_THREAD_ANNOTATION(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }
  void unlock() GPEMU_RELEASES() { mutex_.unlock(); }

 private:
  friend class Lock;

  std::mutex mutex_;
};

/// Holds a mutex until the end of the lock's scope, or until unlock().
class GPEMU_SCOPED_LOCK Lock {
 public:
  explicit Lock(Mutex& mutex) GPEMU_ACQUIRES(mutex)
      : lock_(acquired(mutex.mutex_), std::adopt_lock) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() GPEMU_RELEASES() = default;

  void unlock() GPEMU_RELEASES() { lock_.unlock(); }
  void lock() GPEMU_ACQUIRES() { lock_.lock(); }

 private:
  friend class Condition;

  /// Unlike the constructor of std::unique_lock, this is small enough for g++ to inline it.
  static std::mutex& acquired(std::mutex& mutex) {
    mutex.lock();
    return mutex;
  }

  std::unique_lock<std::mutex> lock_;
};

}  // namespace gpemu
