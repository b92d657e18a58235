// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/host_load.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/file.hpp"

namespace gpemu::report {
namespace {

/// Stalls below this share are not worth a verdict, so a slowdown below it is not worth a warning.
constexpr double kMostSlowdown = 0.05;

/// If this share of the cores' time is free, a run hardly waits for others.
constexpr double kFreeCores = 0.05;

/// /proc/stat counts in ticks of 10 ms per core: a few ticks mean nothing.
constexpr Duration kLeastCounted = std::chrono::milliseconds(50);

Duration duration_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

double ratio(Duration part, Duration whole) {
  if (whole <= Duration::zero()) return 0;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

/// Returns for each thread of this process how long it was ready and had no core. Source: the
/// second number of /proc/PID/task/TID/schedstat, proc(5).
std::map<int, Duration> queued_by_thread() {
  std::map<int, Duration> queued;
  bool counted = false;  // Kernels without CONFIG_SCHED_INFO show zeros.
  for (const std::filesystem::path& thread : paths_in("/proc/self/task")) {
    std::ifstream file(thread / "schedstat");
    std::int64_t ran = 0, waited = 0;
    if (file >> ran >> waited) queued[std::stoi(thread.filename())] = Duration(waited);
    counted = counted || ran > 0;
  }
  return counted ? queued : std::map<int, Duration>();
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

HostLoad& HostLoad::operator+=(const HostLoad& other) {
  const bool first = elapsed == Duration::zero();
  if (first) {
    queued = other.queued;
  } else {
    queued = queued && other.queued ? std::optional(*queued + *other.queued) : std::nullopt;
  }
  elapsed += other.elapsed;
  own_cpu += other.own_cpu;
  others_cpu += other.others_cpu;
  preemptions += other.preemptions;
  return *this;
}

double HostLoad::slowdown(int cores) const {
  Duration lost = others_cpu;
  if (queued) {
    lost = std::min(*queued, others_cpu);
  } else {
    const Duration all = elapsed * cores;
    if (ratio(all - own_cpu - others_cpu, all) > kFreeCores) lost = Duration::zero();
  }
  return ratio(lost, own_cpu + lost);
}

bool HostLoad::too_busy(int cores) const {
  return others_cpu >= kLeastCounted && slowdown(cores) >= kMostSlowdown;
}

Duration busy_time(std::string_view proc_stat, const cpu_set_t& allowed, std::int64_t ticks_per_s) {
  std::istringstream lines{std::string(proc_stat)};
  std::int64_t ticks = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    int cpu = -1;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    std::from_chars(name.data() + 3, name.data() + name.size(), cpu);
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) continue;
    // user nice system idle iowait irq softirq steal, proc(5); guests are counted in user, too.
    for (int field = 0; field < 8; ++field) {
      std::int64_t value = 0;
      if (words >> value && field != 3 && field != 4) ticks += value;
    }
  }
  return std::chrono::nanoseconds(ticks * (1'000'000'000 / ticks_per_s));
}

HostSample sample_host(LoadScope scope) {
  HostSample sample;
  sample.time = std::chrono::steady_clock::now().time_since_epoch();
  rusage usage{};
  ::getrusage(scope == LoadScope::kChildren ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage);
  sample.own_cpu = duration_of(usage.ru_utime) + duration_of(usage.ru_stime);
  sample.preemptions = usage.ru_nivcsw;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  sample.busy = busy_time(text_of("/proc/stat"), allowed, ::sysconf(_SC_CLK_TCK));
  if (scope == LoadScope::kThisProcess) sample.queued = queued_by_thread();
  return sample;
}

HostLoadMeter::HostLoadMeter(LoadScope scope, Sampler sampler)
    : scope_(scope), sampler_(std::move(sampler)), start_(sampler_(scope)) {}

HostLoad HostLoadMeter::read() const {
  const HostSample now = sampler_(scope_);
  HostLoad load{.elapsed = now.time - start_.time,
                .own_cpu = now.own_cpu - start_.own_cpu,
                .preemptions = now.preemptions - start_.preemptions};
  load.others_cpu = std::max(Duration::zero(), now.busy - start_.busy - load.own_cpu);
  if (!now.queued.empty()) {
    Duration queued{};
    for (const auto& [thread, time] : now.queued) {
      const auto before = start_.queued.find(thread);
      queued += before == start_.queued.end() ? time : time - before->second;
    }
    load.queued = queued;
  }
  return load;
}

}  // namespace gpemu::report
