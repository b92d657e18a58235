// SPDX-License-Identifier: Apache-2.0
#include "death_watch.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::device {
namespace {

constexpr std::string_view kPidfd = "[pidfd]";
constexpr std::string_view kEventfd = "[eventfd]";

/// Returns whether a descriptor still refers to a file of that kind: programs close descriptors
/// that they did not open, and the next file that they open gets the number.
bool is_still(const FileDescriptor& descriptor, std::string_view kind) {
  std::array<char, 64> target{};
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor.get());
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 &&
         std::string_view(target.data(), static_cast<std::size_t>(length)).ends_with(kind);
}

/// Closes a descriptor unless it is the program's by now.
void close_own(FileDescriptor& descriptor, std::string_view kind) {
  if (descriptor.valid() && !is_still(descriptor, kind)) static_cast<void>(descriptor.release());
  descriptor = FileDescriptor();
}

}  // namespace

struct DeathWatch::Shared {
  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { close_own(bell, kEventfd); }

  std::atomic<bool> works{true};
  Mutex mutex;
  std::function<void()> tell GPEMU_GUARDED_BY(mutex);  ///< null: the watch has ended.
  std::set<pid_t> wanted GPEMU_GUARDED_BY(mutex);
  FileDescriptor bell;  ///< an eventfd, set before the thread starts.

  /// Returns whether the thread wakes up.
  bool wake() {
    const std::uint64_t one = 1;
    return is_still(bell, kEventfd) && ::write(bell.get(), &one, sizeof one) == sizeof one;
  }
};

DeathWatch::DeathWatch(std::function<void()> tell) : shared_(std::make_shared<Shared>()) {
  const Lock lock(shared_->mutex);
  shared_->tell = std::move(tell);
}

DeathWatch::~DeathWatch() {
  {
    const Lock lock(shared_->mutex);
    shared_->tell = nullptr;
  }
  if (!thread_.joinable()) return;
  if (shared_->wake()) {
    thread_.join();
  } else {
    thread_.detach();  // Nothing wakes it but the death of a process, which it does not tell.
  }
}

bool DeathWatch::works() const {
  return shared_->works;
}

void DeathWatch::watch(std::set<pid_t> processes) {
  {
    const Lock lock(shared_->mutex);
    if (processes == shared_->wanted) return;
    shared_->wanted = std::move(processes);
  }
  if (thread_.joinable()) {
    if (!shared_->wake()) shared_->works = false;
    return;
  }
  shared_->bell = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (shared_->bell.valid()) {
    thread_ = start_thread("gpemu deaths", [shared = shared_] { run(*shared); });
  }
  if (!thread_.joinable()) shared_->works = false;
}

void DeathWatch::run(Shared& shared) {
  std::map<pid_t, FileDescriptor> watched;  // Not valid: it has ended.
  while (true) {
    std::vector<pid_t> ended;
    for (auto& [process, descriptor] : watched) {
      pollfd entry{.fd = descriptor.get(), .events = POLLIN, .revents = 0};
      if (!descriptor.valid() || ::poll(&entry, 1, 0) == 0) continue;
      if (!is_still(descriptor, kPidfd)) shared.works = false;
      close_own(descriptor, kPidfd);
      ended.push_back(process);
    }
    std::set<pid_t> wanted;
    {
      const Lock lock(shared.mutex);
      if (shared.tell == nullptr) break;
      wanted = shared.wanted;
    }
    for (auto entry = watched.begin(); entry != watched.end();) {
      if (!wanted.contains(entry->first)) {
        close_own(entry->second, kPidfd);
        entry = watched.erase(entry);
      } else {
        ++entry;
      }
    }
    for (const pid_t process : wanted) {
      if (watched.contains(process)) continue;
      const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
      if (descriptor < 0) {
        if (errno != ESRCH) shared.works = false;
        ended.push_back(process);
      }
      watched.emplace(process, FileDescriptor(descriptor));
    }
    if (!ended.empty()) {
      const Lock lock(shared.mutex);
      bool matters = false;
      for (const pid_t process : ended) {
        // Nobody may watch it any more since the thread looked; who watches it again is told.
        if (shared.wanted.contains(process)) {
          matters = true;
        } else {
          watched.erase(process);
        }
      }
      if (matters && shared.tell != nullptr) shared.tell();
    }
    std::vector<pollfd> entries = {{.fd = shared.bell.get(), .events = POLLIN, .revents = 0}};
    for (const auto& [process, descriptor] : watched) {
      if (descriptor.valid()) {
        entries.push_back({.fd = descriptor.get(), .events = POLLIN, .revents = 0});
      }
    }
    if (!is_still(shared.bell, kEventfd)) break;
    static_cast<void>(::poll(entries.data(), entries.size(), -1));
    std::uint64_t count = 0;
    if (is_still(shared.bell, kEventfd)) {
      static_cast<void>(!::read(shared.bell.get(), &count, sizeof count));
    }
  }
  shared.works = false;
  for (auto& [process, descriptor] : watched) close_own(descriptor, kPidfd);
}

}  // namespace gpemu::device
