// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"

#include "cli/world.hpp"
#include "live/replay_report.hpp"
#include "slurm/queue_facts.hpp"
#include "slurm/slurm_programs.hpp"

namespace gpemu::tools {

/// How jobs of a table become jobs of Slurm.
struct QueueReplayOptions {
  std::string partition;
  std::string run;               ///< their names begin so.
  std::filesystem::path folder;  ///< that all machines see: of PaceFiles, and of what jobs write.
  std::filesystem::path gpemu;   ///< the command, on all machines.
  double speed = 1;              ///< they arrive, and run, so many times as fast.
  bool shares_gpus = false;      ///< they ask for shards.

  /// Returns the folder of what this replay's jobs write.
  [[nodiscard]] std::filesystem::path own_folder() const { return folder / run; }
};

/// Returns the file in which a job says how many iterations it has done.
[[nodiscard]] std::filesystem::path progress_file(const QueueReplayOptions& options,
                                                  scheduling::JobIndex job);

/// Returns the script of a job, which runs what is left of it by `gpemu jobs run`.
[[nodiscard]] std::string script_of(const scheduling::Job& job, scheduling::JobIndex index,
                                    const QueueReplayOptions& options);

/// Returns what sbatch is to be told. `together`: so many jobs arrive at its time. Errors:
/// kUnsupported for what a job of Slurm cannot ask for.
[[nodiscard]] Result<BatchJob> batch_job_of(const scheduling::Fleet& fleet,
                                            const scheduling::Job& job, scheduling::JobIndex index,
                                            std::size_t together,
                                            const QueueReplayOptions& options);

/// Keeps track of jobs that Slurm runs. It has no effects. Thread safety: none.
class QueueReplayedJobs {
 public:
  /// `begin_s`: when the table's time begins, in seconds since 1970.
  QueueReplayedJobs(std::size_t jobs, double begin_s, double speed)
      : begin_s_(begin_s), speed_(speed), jobs_(jobs), left_s_(jobs, -1), has_nodes_(jobs) {}

  /// The table's time begins at another time. Requires: no job was listed.
  void begin(double begin_s) { begin_s_ = begin_s; }
  /// squeue shows a job. Returns whether it was requeued since the last time. Errors: kUnsupported
  /// if it failed.
  [[nodiscard]] Result<bool> listed(scheduling::JobIndex job, const QueuedJob& facts, double now_s);
  [[nodiscard]] std::span<const ReplayedJob> jobs() const { return jobs_; }
  [[nodiscard]] std::size_t ended() const { return ended_; }

 private:
  [[nodiscard]] double time_of(double now_s) const { return (now_s - begin_s_) * speed_; }

  double begin_s_, speed_;
  std::vector<ReplayedJob> jobs_;
  std::vector<double>
      left_s_;  ///< since when jobs give back what they have; negative: they do not.
  std::vector<bool> has_nodes_;  ///< as last shown.
  std::size_t ended_ = 0;
};

/// Submits the jobs when they arrive, and tells Slurm how far those are that are requeued, until
/// all have ended; then removes what they have written, and cancels those that have not ended.
/// `log` is told if none starts.
///
/// Errors: those of SlurmPrograms and batch_job_of(); kInterrupted if `stop` was set; kUnsupported
/// if a job failed.
[[nodiscard]] Result<std::vector<ReplayedJob>> replay_in_queue(
    const World& world, const scheduling::Fleet& fleet, std::span<const scheduling::Job> jobs,
    const QueueReplayOptions& options, const std::atomic<bool>& stop,
    const std::function<void(const std::string&)>& log);

}  // namespace gpemu::tools
