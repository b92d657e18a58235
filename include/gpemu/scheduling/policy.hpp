// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"

namespace gpemu::scheduling {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Returns the first multiple of a round's length that is later than `now_s`.
[[nodiscard]] double next_round_after(double now_s, double round_s);

struct Snapshot;
/// Returns when the first round of a policy begins: at once, unless it takes over from another
/// object, whose round goes on.
[[nodiscard]] double first_round_s(const Snapshot& snapshot, double round_s);

/// What a policy may see of a fleet at one time. It refers to what the driver owns, and is valid
/// during the call alone.
struct Snapshot {
  double now_s = 0;
  const Fleet* fleet = nullptr;
  const FreeResources* free = nullptr;
  std::span<const Job> jobs;         ///< by JobIndex; a policy looks only at those that arrived.
  std::span<const JobState> states;  ///< by JobIndex.
  /// Since the last decision, in the order of arrival. To a policy that takes over from another
  /// object, all jobs arrive that have not ended; those that run already have their GPUs.
  std::span<const JobIndex> arrived;
  std::span<const JobIndex> ended;  ///< since the last decision.
  /// A job that runs on may get other GPUs at no cost; so a policy need not avoid it.
  bool moves_are_free = false;

  [[nodiscard]] bool runs(JobIndex job) const { return states[job].phase == JobPhase::kRunning; }
  /// Returns the iterations that the job has left now.
  [[nodiscard]] double iterations_left(JobIndex job) const;
  /// Returns how long the job would need for them with GPUs of its own.
  [[nodiscard]] double work_left_s(JobIndex job) const {
    return iterations_left(job) * jobs[job].iteration_s;
  }
  /// Returns when a job that runs will end, if nothing changes for it.
  [[nodiscard]] double end_s(JobIndex job) const;
  /// Returns for how long the job had GPUs until now.
  [[nodiscard]] double held_s(JobIndex job) const;
};

/// What a policy wants. First the jobs of `preempt` lose their GPUs; then those of `start` lose
/// theirs, if they have any, and get the new ones.
struct Decision {
  struct Start {
    JobIndex job = 0;
    GpuSet gpus;
    /// Jobs with the same number share their GPUs in turns (interleaving.hpp); 0: it shares none.
    /// The jobs of a group are kMostInGroup or fewer, have the same GPUs, and known stages.
    std::uint32_t group = 0;
    /// It shares its GPUs with whatever jobs have them, and gives way to these
    /// (iteration_beside_s()). Others may get its GPUs while it runs.
    bool beside = false;
    /// The cores and memory that it gets; nothing: what it asks for.
    std::optional<HostShare> host{};
  };
  std::vector<JobIndex> preempt;
  std::vector<Start> start;
  double ask_again_s = kNever;  ///< ask at this time even if nothing changes before.

  void clear();
};

/// What a user may set.
struct PolicySettings {
  /// How long the rounds of a policy are that has rounds. Units: seconds; nothing: as in its paper.
  std::optional<double> round_s;
};

/// Decides which jobs get which GPUs. It has no effects: drivers act on its decisions.
///
/// A policy may remember what it saw; the same snapshots in the same order give the same decisions.
/// Thread safety: none; an object serves one fleet.
class Policy {
 public:
  Policy() = default;
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  /// Adds what is to be done now to an empty decision. Each arrival and each end is shown in one
  /// snapshot.
  virtual void decide(const Snapshot& snapshot, Decision& decision) = 0;
};

}  // namespace gpemu::scheduling
