// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// A policy that sorts all jobs by a rank and runs, from the first on, each one that still fits. A
/// job gets GPUs close together.
///
/// Among equal ranks, the job that has had it for longer comes first.
class RankedPolicy : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) final;

 protected:
  enum class Running : std::uint8_t {
    kPreemptible,  ///< those that do not fit any more lose their GPUs.
    kKept,         ///< they keep their GPUs until they end; only those that wait have ranks.
  };
  /// With a round, running jobs are preempted only at its multiples, at which the policy is asked;
  /// between them, waiting jobs get what is free. Units: seconds; 0: there are no rounds.
  explicit RankedPolicy(Running running = Running::kPreemptible, double round_s = 0)
      : kept_(running == Running::kKept), round_s_(round_s) {}

  /// Returns the rank of a job that waits or runs; the lowest is the first.
  ///
  /// Requires: it does not change while the job waits, unless has_new_ranks() says so.
  [[nodiscard]] virtual double rank(const Snapshot& snapshot, JobIndex job) const = 0;
  /// Called first in each decision. Returns whether jobs that wait have other ranks from now on.
  [[nodiscard]] virtual bool has_new_ranks(const Snapshot& /*snapshot*/) { return false; }

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
  /// Jobs that ask for the same.
  struct Class {
    Demand demand;
    std::set<Ranked> waiting;
    bool full = false;  ///< during a walk: no other of them fits.
  };
  class Walk;

  [[nodiscard]] Class& class_of(JobIndex job) { return classes_[class_of_[job]]; }
  void add_to_class(const Snapshot& snapshot, JobIndex job);

  void note_changes(const Snapshot& snapshot);
  void rank_waiting(const Snapshot& snapshot);
  /// Fills chosen_ and passed_over_ by a walk over all jobs, on a fleet without any job.
  void choose(const Snapshot& snapshot);
  /// Lets those that run have the GPUs that they have, if the others fit beside them.
  void avoid_moves(const Snapshot& snapshot);
  void fill(const Snapshot& snapshot, Decision& decision);
  /// Starts waiting jobs that fit beside those that run.
  void start_only(const Snapshot& snapshot, Decision& decision);

  bool kept_;
  double round_s_;
  std::optional<double> next_round_s_;
  std::uint64_t changes_ = 0;
  bool any_small_ = false;  ///< a job needs less than a whole GPU.
  std::vector<Class> classes_;
  std::map<Demand, std::uint32_t> class_by_demand_;
  std::vector<std::uint32_t> class_of_;  ///< by job.
  std::vector<Ranked> running_;          ///< sorted; not filled if they are kept.
  std::vector<Chosen> chosen_;
  std::vector<Ranked> passed_over_;  ///< running jobs that are not to run.
  std::optional<FreeResources> all_free_;
  std::optional<FreeResources> room_;  ///< what is left during a walk.
};

}  // namespace gpemu::scheduling
