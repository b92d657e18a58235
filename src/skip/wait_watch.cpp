// SPDX-License-Identifier: Apache-2.0
#include "wait_watch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "call_wait.hpp"

namespace gpemu::skip {
namespace {

/// Passes until all threads that slept anew were seen twice, with a list that was made while they
/// slept.
constexpr int kPasses = 6;

std::optional<std::uint64_t> runs_of(ProcessView& view, const FileDescriptor& file) {
  std::array<char, 128> buffer{};
  return run_count_in(view.read(file, buffer));
}

char state_of(ProcessView& view, const FileDescriptor& file) {
  std::array<char, 256> buffer{};
  return state_in(view.read(file, buffer));
}

/// Returns whether a process shares this one's PID and time namespaces. If it cannot be seen, it
/// has ended, or its threads decide.
bool has_own_namespaces(ProcessView& view, pid_t process) {
  for (const char* const name : {"pid", "time"}) {
    const std::string theirs = view.link_text(fmt::format("/proc/{}/ns/{}", process, name));
    if (!theirs.empty() && theirs != view.link_text(fmt::format("/proc/self/ns/{}", name))) {
      return false;
    }
  }
  return true;
}

}  // namespace

WaitWatch::WaitWatch(pid_t root, std::string shared_file, ProcessView& view, const sim::Clock& host)
    : shared_file_(std::move(shared_file)),
      view_(view),
      connections_(view),
      list_(root, view, host) {}

// ---- Which threads there are

bool WaitWatch::make_list(bool all_sleep) {
  const bool none_started = list_.is_current();
  const bool is_made = list_.make();
  counts_.lists = list_.tries();
  if (!is_made) return false;
  const ThreadList::Threads& listed = list_.threads();
  const std::size_t gone = std::erase_if(threads_, [&listed](const auto& thread) {
    const auto same = listed.find(thread.first);
    return same == listed.end() || same->second.process != thread.second.process;
  });
  is_sure_ = all_sleep && none_started && gone == 0 && threads_.size() == listed.size();
  std::set<pid_t> processes;
  for (const auto& [id, of] : listed) {
    processes.insert(of.process);
    Thread& thread = threads_[id];
    if (thread.call.valid()) continue;
    const std::string folder = fmt::format("/proc/{}/task/{}/", of.process, id);
    thread.process = of.process;
    thread.state = view_.open(folder + "stat");
    thread.runs = view_.open(folder + "schedstat");
    thread.call = view_.open(folder + "syscall");
  }
  if (processes == processes_) return true;
  processes_ = std::move(processes);
  one_time_ = std::ranges::all_of(
      processes_, [this](pid_t process) { return has_own_namespaces(view_, process); });
  connections_.set_inside({processes_.begin(), processes_.end()});
  own_memory_.clear();
  for (auto& [id, thread] : threads_) thread.known = false;
  return true;
}

pid_t WaitWatch::process_of(pid_t thread) const {
  const auto found = threads_.find(thread);
  return found == threads_.end() ? 0 : found->second.process;
}

// ---- What one thread does

WaitWatch::Look WaitWatch::computes(pid_t id, std::string_view way) {
  computing_ = id;
  way_ = way;
  return Look::kComputes;
}

WaitWatch::Look WaitWatch::ended(Thread& thread) {
  // Its last action may have woken threads that were examined before it.
  return std::exchange(thread.ended, true) ? Look::kSleeps : Look::kSleepsAnew;
}

WaitWatch::Look WaitWatch::look(pid_t id, Thread& thread,
                                const std::function<bool(pid_t)>& has_time) {
  ++counts_.looks;
  // First whether it sleeps, then for how long: a thread that is asleep and has not run since it
  // was seen asleep has slept all the while. The state says whether it sleeps: the file of its
  // system call also shows a thread that has been woken but is not yet in a processor's queue.
  const char before = state_of(view_, thread.state);
  if (before == '?') return ended(thread);
  if (before == 'R') return computes(id, kRuns);
  const auto runs = runs_of(view_, thread.runs);
  if (!runs) return computes(id, "may not be inspected");
  if (thread.known && before == 'S' && *runs == thread.run_count) {
    if (!thread.timed || has_time(id)) return Look::kSleeps;
    return computes(id, "waits for a timeout of its own");
  }
  ++counts_.looks_anew;
  thread.known = false;
  thread.run_count = *runs;
  std::array<char, 256> buffer{};
  const std::string_view text = view_.read(thread.call, buffer);
  const std::optional<SystemCall> call = system_call_in(text);
  // Read only now: if the thread has run since its system call was read, the count shows it.
  const char state = state_of(view_, thread.state);
  if (state == '?') return ended(thread);
  if (text.empty()) return computes(id, "may not be inspected");
  // A process becomes a zombie shortly before it wakes its parent. If it is in no system call and
  // does not run, it has woken the parent.
  if (state == 'Z' && !call && !text.starts_with("running")) return ended(thread);
  if (state != 'S') return computes(id, state == 'R' ? kRuns : "waits for the host");
  if (!call) return computes(id, "waits in no system call");
  thread.last_call = resumed(*call, thread.last_call);
  thread.carriers.clear();
  if (!counts_as_waiting(thread)) {
    return computes(id, kOutside);
  }
  thread.known = true;
  if (thread.timed && !has_time(id)) return computes(id, "waits for a timeout of its own");
  return Look::kSleepsAnew;
}

bool WaitWatch::counts_as_waiting(Thread& thread) {
  const auto wait =
      wait_of(thread.last_call, [this, &thread](std::uint64_t address, std::span<std::byte> to) {
        return view_.read_memory(thread.process, address, to);
      });
  thread.timed = wait && wait->timed;
  return wait && (!wait->shared_futex || is_own_memory(thread.process, *wait->shared_futex)) &&
         std::ranges::all_of(wait->files, [&](FileWait file) {
           return connections_.is_inside(thread.process, file, thread.carriers);
         });
}

bool WaitWatch::is_own_memory(pid_t process, std::uint64_t address) {
  constexpr std::uint64_t kPage = 4096;
  const std::pair key(process, address / kPage);
  if (const auto found = own_memory_.find(key); found != own_memory_.end()) return found->second;
  const auto is_there = [this, process](std::string_view path) {
    return view_.is_there(fmt::format("/proc/{}/root{}", process, path));
  };
  const bool own = skip::is_own_memory(view_.text_of(fmt::format("/proc/{}/maps", process)),
                                       address, shared_file_, is_there);
  own_memory_.emplace(key, own);
  return own;
}

std::string WaitWatch::who_computes() const {
  const auto found = threads_.find(computing_);
  if (found == threads_.end()) return fmt::format("a process {}", way_);
  std::string name = view_.text_of(fmt::format("/proc/{}/comm", found->second.process));
  if (name.ends_with('\n')) name.pop_back();
  return fmt::format("{} ({}) {}", name, found->second.process, way_);
}

// ---- All of them

bool WaitWatch::all_wait(const std::function<bool(pid_t)>& has_time) {
  ++counts_.checks;
  if (const auto found = threads_.find(computing_); found != threads_.end()) {
    const bool still_computes = look(computing_, found->second, has_time) == Look::kComputes;
    // What it waits for may belong to a process that has started since.
    if (still_computes && (way_ != kOutside || list_.is_current())) return false;
  }
  bool all_slept = false;  // In the last pass.
  for (int pass = 0; pass < kPasses; ++pass) {
    const bool is_listed = all_slept ? make_list(true) : list_.is_current() || make_list(false);
    if (!is_listed) {
      computing_ = 0;
      way_ = "starts all the time";
      return false;
    }
    if (threads_.empty()) return false;
    if (!one_time_) {
      computing_ = 0;
      way_ = "is in another PID or time namespace";
      return false;
    }
    Connections::Carriers carriers;
    for (const auto& [id, thread] : threads_) {
      carriers.add(thread.carriers);
    }
    // This comes before the pass: data that arrives later wakes a thread, and the pass sees that.
    connections_.look_again(carriers);
    bool anew = false, lives = false;
    for (auto& [id, thread] : threads_) {
      const Look seen = look(id, thread, has_time);
      if (seen == Look::kComputes) return false;
      anew = anew || seen == Look::kSleepsAnew;
      lives = lives || !thread.ended;
    }
    all_slept = false;
    if (anew) continue;
    if (!lives) return false;
    for (auto& [id, thread] : threads_) {
      if (connections_.are_quiet(thread.carriers)) continue;
      static_cast<void>(computes(id, "waits for bytes in transit, or for the kernel"));
      return false;
    }
    // If no process or thread was started since the list was made, none was missed, unless the
    // start was under way then: so the list must have been made while all slept.
    if (is_sure_ && list_.is_current()) return true;
    all_slept = true;
  }
  computing_ = 0;
  way_ = "wakes now and then";
  return false;
}

}  // namespace gpemu::skip
