// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "cli/world.hpp"
#include "slurm/queue_facts.hpp"

namespace gpemu::tools {

/// What a job of sbatch is.
struct BatchJob {
  std::string name, partition, gres, comment;
  std::string script;  ///< a file.
  std::string folder;  ///< where it runs.
  std::string output;  ///< a file.
};

/// Slurm, by its programs squeue, sinfo, scontrol, sbatch and scancel: they are documented and the
/// same in all releases, whereas a program that links libslurm works with one. Thread safety: none.
///
/// Errors of all: kNotFound if the program is not installed; kUnavailable with what it said if it
/// failed.
class SlurmPrograms {
 public:
  /// The world outlives it.
  explicit SlurmPrograms(const World& world);

  /// Returns the jobs of all partitions, also those that have ended and are still known.
  [[nodiscard]] Result<std::vector<QueuedJob>> jobs() const;
  /// Returns the nodes of a partition.
  [[nodiscard]] Result<std::vector<QueueNode>> nodes(const std::string& partition) const;

  [[nodiscard]] Result<void> hold(const std::string& job) const;
  /// A job that is held is to run on this node, as soon as it is released.
  [[nodiscard]] Result<void> place(const std::string& job, const std::string& node) const;
  [[nodiscard]] Result<void> release(const std::vector<std::string>& jobs) const;
  /// Ends a job's processes; it waits again, held.
  [[nodiscard]] Result<void> requeue_held(const std::string& job) const;
  /// Sets a field of a job, as scontrol(1) names it.
  [[nodiscard]] Result<void> set(const std::string& job, const std::string& field,
                                 const std::string& value) const;
  /// Submits a job that is held. Returns its number.
  [[nodiscard]] Result<std::string> submit_held(const BatchJob& job) const;
  [[nodiscard]] Result<void> cancel(const std::vector<std::string>& jobs) const;

 private:
  [[nodiscard]] Result<std::string> run(const std::vector<std::string>& words) const;

  const World& world_;
  std::vector<std::string> environment_;
  std::string mark_;  ///< see squeue_options().
};

}  // namespace gpemu::tools
