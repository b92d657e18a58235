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

double SpeedProfile::with_host(const HostShare& per_gpu) const {
  if (by_host.empty()) return 1;
  double best = 0;
  for (const WithHost& entry : by_host) {
    if (entry.per_gpu.fits_in(per_gpu)) best = std::max(best, entry.speed);
  }
  return best;
}

double Job::iteration_s_on(std::size_t kind) const {
  if (!speed) return iteration_s;
  const double host = speed->with_host(for_each_gpu(demand.host, demand.gpus));
  return slowed(iteration_s, speed->on_kind(kind) * host);
}

double iteration_s_with(const Fleet& fleet, const Job& job, const GpuSet& gpus,
                        const HostShare& host) {
  if (!job.speed) return job.iteration_s;
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < gpus.parts(); ++i) {
    slowest = std::min(slowest, job.speed->on_kind(fleet.kind_of(gpus.part(i).server)));
  }
  const double with_host = job.speed->with_host(for_each_gpu(host, job.demand.gpus));
  return slowed(job.iteration_s, slowest * with_host);
}

}  // namespace gpemu::scheduling
