// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// A policy that sorts all jobs by a rank and runs, from the first on, each one that still fits;
/// those that run and do not fit any more are preempted. A job gets GPUs close together.
///
/// Among equal ranks, the job that has had it for longer comes first.
class RankedPolicy : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) final;

 protected:
  /// Returns the rank of a job that waits or runs; the lowest is the first.
  ///
  /// Requires: it does not change while the job waits.
  [[nodiscard]] virtual double rank(const Snapshot& snapshot, JobIndex job) const = 0;

 private:
  struct Ranked {
    double rank = 0;
    std::uint64_t since = 0;  ///< counts changes of ranks.
    JobIndex job = 0;
    friend auto operator<=>(const Ranked&, const Ranked&) = default;
  };
  /// A job that is to run, and where it may.
  struct Chosen {
    Ranked ranked;
    GpuSet gpus;
    bool runs = false;
  };
  using Queue = std::set<Ranked>;  ///< waiting jobs that need the same number of GPUs.
  class Walk;

  void note_changes(const Snapshot& snapshot);
  /// Fills chosen_ and passed_over_ by a walk over all jobs, on a fleet without any job.
  void choose(const Snapshot& snapshot);
  /// Lets those that run have the GPUs that they have, if the others fit beside them.
  void avoid_moves(const Snapshot& snapshot);
  void fill(const Snapshot& snapshot, Decision& decision);

  std::uint64_t changes_ = 0;
  std::map<std::uint32_t, Queue> waiting_;  ///< by the number of GPUs.
  std::vector<Ranked> running_;             ///< sorted.
  std::vector<Chosen> chosen_;
  std::vector<Ranked> passed_over_;  ///< running jobs that are not to run.
  std::optional<FreeGpus> all_free_;
  std::optional<FreeGpus> room_;  ///< what is left during a walk.
};

}  // namespace gpemu::scheduling
