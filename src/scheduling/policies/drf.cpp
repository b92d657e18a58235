// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>

#include "policies/one_gpu_policy.hpp"
#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Dominant resource fairness, as AlloX compares itself with it: the next job is of the user whose
/// largest share of a kind of GPUs is the least. It waits for the kind on which it is fastest.
class Drf final : public OneGpuPolicy {
 public:
  explicit Drf(bool shortest_first) : shortest_first_(shortest_first) {}

 private:
  [[nodiscard]] double dominant_share(const Snapshot& snapshot, std::uint32_t user) const {
    double share = 0;
    for (std::size_t kind = 0; kind < kinds(); ++kind) {
      share = std::max(
          share, static_cast<double>(held_by(snapshot, user, kind)) / std::max(all_of(kind), 1U));
    }
    return share;
  }

  /// Returns the user's next job.
  [[nodiscard]] JobIndex next_of(const Snapshot& snapshot, std::uint32_t user) const {
    std::optional<JobIndex> next;
    double least = kNever;
    for (const JobIndex job : waiting()) {
      if (snapshot.jobs[job].user != user) continue;
      if (!shortest_first_) return job;
      const double time = time_s(snapshot, job, best_kind(snapshot, job));
      if (!next || time < least) next = job;
      least = std::min(least, time);
    }
    return *next;
  }

  void choose(const Snapshot& snapshot, Decision& decision) override {
    for (;;) {
      std::optional<std::tuple<double, std::uint32_t, JobIndex>> first;
      for (const std::uint32_t user : waiting_users(snapshot)) {
        const JobIndex job = next_of(snapshot, user);
        if (free_of(best_kind(snapshot, job)) == 0) continue;
        const std::tuple candidate(dominant_share(snapshot, user), user, job);
        if (!first || candidate < *first) first = candidate;
      }
      if (!first) return;
      const JobIndex job = std::get<2>(*first);
      start(snapshot, job, best_kind(snapshot, job), decision);
    }
  }

  bool shortest_first_;
};

/// Equal shares of each kind: as long as one of a kind is free, the user that has the fewest of it
/// gets it, for the job that is shortest there.
class EqualShare final : public OneGpuPolicy {
  void choose(const Snapshot& snapshot, Decision& decision) override {
    for (std::size_t kind = 0; kind < kinds(); ++kind) {
      while (free_of(kind) != 0) {
        std::optional<std::tuple<std::uint32_t, std::uint32_t, double, JobIndex>> first;
        for (const JobIndex job : waiting()) {
          const double time = time_s(snapshot, job, kind);
          if (time == kNever) continue;
          const std::uint32_t user = snapshot.jobs[job].user;
          const std::tuple candidate(held_by(snapshot, user, kind), user, time, job);
          if (!first || candidate < *first) first = candidate;
        }
        if (!first) break;
        start(snapshot, std::get<3>(*first), kind, decision);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Policy> make_drf_fifo(const PolicySettings& /*settings*/) {
  return std::make_unique<Drf>(false);
}

std::unique_ptr<Policy> make_drf_sjf(const PolicySettings& /*settings*/) {
  return std::make_unique<Drf>(true);
}

std::unique_ptr<Policy> make_equal_share(const PolicySettings& /*settings*/) {
  return std::make_unique<EqualShare>();
}

}  // namespace gpemu::scheduling
