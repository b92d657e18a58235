// SPDX-License-Identifier: Apache-2.0
#include "thread_list.hpp"

#include <array>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/skip/proc_text.hpp"

namespace gpemu::skip {
namespace {

/// After this time a list must be made again: by then, enough processes may have been started for
/// the number of the last one to recur.
constexpr Duration kGoodFor = std::chrono::milliseconds(100);

/// Attempts until two lists in a row are the same.
constexpr int kTries = 4;

}  // namespace

ThreadList::ThreadList(pid_t root, ProcessView& view, const sim::Clock& host)
    : root_(root), view_(view), host_(host), last_pid_file_(view.open("/proc/loadavg")) {}

/// Returns the process or thread that was started last on this host.
std::optional<pid_t> ThreadList::last_pid() const {
  std::array<char, 128> buffer{};
  return last_pid_in(view_.read(last_pid_file_, buffer));
}

bool ThreadList::is_current() const {
  return !threads_.empty() && last_pid() == last_pid_ && host_.now() - made_at_ < kGoodFor;
}

bool ThreadList::make() {
  // While no process or thread is created, every list contains all live threads, except children of
  // a process that ended while the first list was made, and those whose numbers were given before
  // they could be found. The latter's parents were not asleep.
  std::optional<pid_t> before = last_pid();
  if (!before) return false;
  std::optional<Threads> last = read();
  for (int i = 0; i < kTries; ++i) {
    ++tries_;
    const TimePoint begin = host_.now();
    std::optional<Threads> next = read();
    const std::optional<pid_t> after = last_pid();
    const bool complete = before == after && next && last == next;
    last = std::move(next);
    before = after;
    if (!complete) continue;
    threads_ = std::move(*last);
    last_pid_ = before;
    made_at_ = begin;
    return true;
  }
  return false;
}

/// Lists the threads once; returns nothing if some may have been missed.
std::optional<ThreadList::Threads> ThreadList::read() const {
  Threads found;
  std::vector<pid_t> to_visit = {root_};
  std::set<pid_t> visited;
  while (!to_visit.empty()) {
    const pid_t process = to_visit.back();
    to_visit.pop_back();
    if (!visited.insert(process).second) continue;
    const std::size_t size = found.size();
    const bool exists =
        view_.for_each_number(fmt::format("/proc/{}/task", process), [&](pid_t thread) {
          if (process != root_) found.emplace(thread, Listed{.process = process});
          for (const pid_t child : children_in(
                   view_.text_of(fmt::format("/proc/{}/task/{}/children", process, thread)))) {
            to_visit.push_back(child);
          }
        });
    // If it ended since its parent's children were read, its own are now children of another
    // process, and may have been missed there.
    if (!exists) return std::nullopt;
    if (const auto own = found.find(process); found.size() > size && own != found.end()) {
      own->second.is_zombie =
          state_in(view_.text_of(fmt::format("/proc/{}/task/{}/stat", process, process))) == 'Z';
    }
  }
  return found;
}

}  // namespace gpemu::skip
