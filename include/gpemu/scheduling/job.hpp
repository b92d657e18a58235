// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/speed_profile.hpp"

namespace gpemu::scheduling {

/// The place of a job among the jobs of a simulation, from 0.
using JobIndex = std::uint32_t;

/// What a job of training asks for. Units: seconds.
struct Job {
  std::string id;
  double arrival_s = 0;
  Demand demand;
  double iterations = 0;   ///< greater than 0.
  double iteration_s = 0;  ///< of one iteration with GPUs of its own; greater than 0.
  /// How fast it is on which GPUs, with which cores and memory; null: everywhere the same.
  std::shared_ptr<const SpeedProfile> speed;
  double restart_s = 0;  ///< after it starts, resumes or moves, until it makes progress.
  /// How long it runs according to who asked for it, which need not be work_s(); 0: not known.
  double stated_s = 0;
  /// The parts of an iteration in which it uses storage and processors, GPUs, and the network; all
  /// 0: not known.
  std::array<double, 3> stages_s{};
  std::string model;           ///< empty: not known.
  std::string evidence;        ///< on what iteration_s rests; empty: on the table of jobs.
  std::uint32_t user = 0;      ///< whose job it is.
  bool opportunistic = false;  ///< it may run beside others, and has to give way to them.

  /// Returns how long it runs with GPUs of its own, without restarts.
  [[nodiscard]] double work_s() const { return iterations * iteration_s; }
  /// Returns how long an iteration takes on GPUs of this kind, by its place in Fleet::kinds(), with
  /// the cores and memory that the job asks for; infinity: it cannot run there.
  [[nodiscard]] double iteration_s_on(std::size_t kind) const;
};

/// Returns how long an iteration of a job takes with these GPUs of its own, and cores and memory.
/// The slowest GPU decides.
[[nodiscard]] double iteration_s_with(const Fleet& fleet, const Job& job, const GpuSet& gpus,
                                      const HostShare& host);

/// Where a job is in its life.
enum class JobPhase : std::uint8_t { kToArrive, kWaiting, kRunning, kEnded };

/// How far a job is. Units: seconds of the fleet's time.
struct JobState {
  JobPhase phase = JobPhase::kToArrive;
  GpuSet gpus;                 ///< those that it has; empty unless it runs.
  HostShare host;              ///< cores and memory that it has.
  std::uint32_t group = 0;     ///< of jobs that share its GPUs; 0: it shares none.
  bool beside = false;         ///< it gives way to other jobs on its GPUs.
  double iterations_left = 0;  ///< at `as_of_s`.
  double iteration_s = 0;      ///< of one iteration where it runs now.
  double held_s = 0;           ///< for how long it had GPUs until `as_of_s`.
  double as_of_s = 0;          ///< when the three above were right; it has run like this since.
  double progress_from_s = 0;  ///< it makes no progress before, because it restarts.
  double first_start_s = -1;   ///< when it got GPUs for the first time; negative: not yet.
  double end_s = 0;            ///< of an ended job.
  std::uint32_t starts = 0;    ///< how often it got GPUs while it had none.
  std::uint32_t moves = 0;     ///< how often it got other GPUs while it ran.
};

}  // namespace gpemu::scheduling
