// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <sys/types.h>
#include <thread>

namespace gpemu::device {

/// A thread that tells when one of some processes ends. It uses no time until then.
class DeathWatch {
 public:
  /// `tell`: called by the watch's thread each time that a process has ended; it must not call the
  /// watch.
  explicit DeathWatch(std::function<void()> tell);
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;
  ~DeathWatch();

  /// From now on, watches these processes, of this pid namespace, and no others. Starts the thread
  /// with the first of them. If one has ended already, tells that, too.
  void watch(std::set<pid_t> processes);

  /// Returns whether all processes are watched. They are not if the system has no descriptors of
  /// processes (before Linux 5.3), or if the program has closed the watch's own.
  [[nodiscard]] bool works() const;

 private:
  struct Shared;
  static void run(Shared& shared);

  std::shared_ptr<Shared> shared_;  ///< with the thread.
  std::thread thread_;
};

}  // namespace gpemu::device
