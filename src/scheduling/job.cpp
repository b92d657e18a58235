// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job.hpp"

#include <algorithm>
#include <limits>

namespace gpemu::scheduling {
namespace {

HostShare for_each_gpu(const HostShare& host, std::uint32_t gpus) {
  const std::uint32_t count = std::max(gpus, 1U);
  return {.millicores = host.millicores / count, .memory_mib = host.memory_mib / count};
}

double slowed(double iteration_s, double speed) {
  return speed > 0 ? iteration_s / speed : std::numeric_limits<double>::infinity();
}

}  // namespace

std::span<const SpeedProfile::WithHost> SpeedProfile::hosts_on(std::size_t kind) const {
  if (by_kind_and_host.empty()) return by_host;
  return by_kind_and_host[kind];
}

bool SpeedProfile::runs_on(std::size_t kind) const {
  if (by_kind_and_host.empty()) return by_kind.empty() || by_kind[kind] > 0;
  return std::ranges::any_of(by_kind_and_host[kind],
                             [](const WithHost& entry) { return entry.speed > 0; });
}

double SpeedProfile::speed(std::size_t kind, const HostShare& per_gpu) const {
  const double alone = by_kind.empty() ? 1 : by_kind[kind];
  const std::span<const WithHost> hosts = hosts_on(kind);
  if (hosts.empty()) return by_kind_and_host.empty() ? alone : 0;
  double best = 0;
  for (const WithHost& entry : hosts) {
    if (entry.per_gpu.fits_in(per_gpu)) best = std::max(best, entry.speed);
  }
  return alone * best;
}

double Job::iteration_s_on(std::size_t kind) const {
  if (!speed) return iteration_s;
  return slowed(iteration_s, speed->speed(kind, for_each_gpu(demand.host, demand.gpus)));
}

double iteration_s_with(const Fleet& fleet, const Job& job, const GpuSet& gpus,
                        const HostShare& host) {
  if (!job.speed) return job.iteration_s;
  const HostShare per_gpu = for_each_gpu(host, job.demand.gpus);
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    slowest = std::min(slowest, job.speed->speed(fleet.kind_of(gpus.part(i).server), per_gpu));
  }
  return slowed(job.iteration_s, slowest);
}

}  // namespace gpemu::scheduling
