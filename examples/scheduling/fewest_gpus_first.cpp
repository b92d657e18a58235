// SPDX-License-Identifier: Apache-2.0
// A scheduling policy of your own, beside those of gpemu: docs/how-to/try-your-own-policy.md.
#include <cstdio>
#include <random>
#include <vector>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/ranked_policy.hpp"
#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/schedule_metrics.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace {

using gpemu::scheduling::Fleet;
using gpemu::scheduling::Job;
using gpemu::scheduling::JobIndex;
using gpemu::scheduling::Policy;
using gpemu::scheduling::Snapshot;

/// Jobs that need few GPUs come first; those that run keep their GPUs until they end.
class FewestGpusFirst final : public gpemu::scheduling::RankedPolicy {
 public:
  FewestGpusFirst() : RankedPolicy(Running::kKept) {}

 private:
  [[nodiscard]] double rank(const Snapshot& snapshot, JobIndex job) const override {
    return snapshot.jobs[job].demand.gpus;
  }
};

/// A thousand jobs of 1 to 8 GPUs, which take an hour on average and arrive every four minutes.
std::vector<Job> jobs() {
  std::mt19937 draw(7);
  std::vector<Job> all(1000);
  double now_s = 0;
  for (Job& job : all) {
    now_s += static_cast<double>(draw() % 480);
    job.arrival_s = now_s;
    job.demand.gpus = 1U << draw() % 4;
    job.iterations = static_cast<double>(600 + draw() % 6000);
    job.iteration_s = 1;
  }
  return all;
}

double average_jct(const char* name, const std::vector<Job>& jobs, Policy& policy) {
  const Fleet fleet = Fleet::uniform(8, 8).value();
  const auto result = gpemu::scheduling::simulate(fleet, jobs, policy).value();
  const auto metrics = gpemu::scheduling::metrics_of(fleet, jobs, result);
  std::printf("%-18s average JCT %6.0f s, 99th percentile %6.0f s\n", name, metrics.average_jct_s,
              metrics.p99_jct_s);
  return metrics.average_jct_s;
}

}  // namespace

int main() {
  const std::vector<Job> all = jobs();
  const auto fifo = gpemu::scheduling::find_policy("fifo").value()->make({});
  const auto sjf = gpemu::scheduling::find_policy("sjf").value()->make({});
  FewestGpusFirst own;
  const double fifo_s = average_jct("fifo", all, *fifo);
  average_jct("sjf", all, *sjf);
  return average_jct("fewest GPUs first", all, own) < fifo_s ? 0 : 1;
}
