// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/host_facts.hpp"

#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <string_view>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>

namespace gpemu::report {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  constexpr std::string_view kKey = "model name";
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(kKey) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

}  // namespace

HostFacts host_facts() {
  HostFacts facts;
  facts.cpu = cpu_name();
  facts.cores = usable_cores();
  facts.memory =
      static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
  utsname system{};
  if (::uname(&system) == 0) facts.kernel = fmt::format("{} {}", system.sysname, system.release);
  double load = 0;
  if (::getloadavg(&load, 1) == 1) facts.load_average = load;
  return facts;
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // More cores than the set holds: rather the set's size than a failure.
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return CPU_SETSIZE;
  return CPU_COUNT(&cores);
}

}  // namespace gpemu::report
