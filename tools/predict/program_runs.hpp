// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/predict/name_pattern.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/run/program_run.hpp"

namespace gpemu::tools {

/// The program whose steps are predicted.
struct PredictedProgram {
  std::vector<std::string> words;
  int steps = 5;                                  ///< after the warm-up.
  const predict::NamePattern* pattern = nullptr;  ///< see predict::StepSearch.
  int real_ranks = 0;                             ///< as in run::Settings.
};

/// The functions with which ProgramRuns chooses GPUs and runs the program.
struct ProgramRunWorld {
  /// Return a GPU that can be emulated, by name, and the names of all such GPUs.
  std::function<Result<profile::GpuSpec>(const std::string& name)> gpu;
  std::function<Result<std::vector<std::string>>()> gpu_names;
  /// Records the program; `label` names the GPU and the batch for people. It is called from several
  /// threads at a time if `at_once` is more than 1. Errors: as run::record_steps().
  std::function<Result<run::ProgramRun>(const run::ProgramRunOptions& options,
                                        const std::string& label)>
      record;
  int at_once = 1;  ///< so many recordings at most run at a time.
};

/// Returns the device memory that a program needs on a GPU: what it held, and the context.
[[nodiscard]] Bytes needed_memory(const run::ProgramRun& seen, const profile::GpuSpec& gpu);

/// Records a program once for each batch size and each compute capability, because programs choose
/// kernels and types by it.
class ProgramRuns {
 public:
  using Run = std::shared_ptr<const run::ProgramRun>;

  ProgramRuns(PredictedProgram program, ProgramRunWorld world)
      : program_(std::move(program)), world_(std::move(world)) {}

  /// Records all requested runs, the newest architecture first. If the program runs on none of the
  /// GPUs at a batch, that batch is recorded on a GPU on which most programs run.
  ///
  /// The first run that succeeds is alone, because it may make what the others need: a program may
  /// download its data. The others run side by side, except jobs of several ranks, whose ports are
  /// often fixed. What fails there, for whatever reason, is recorded again alone.
  ///
  /// Errors: the first fault of a batch without any run; errors that are not the program's.
  [[nodiscard]] Result<void> record(const std::vector<profile::GpuSpec>& gpus,
                                    const std::vector<int>& batches);

  /// Returns the run at a GPU's capability or, if the program does not run there, at the nearest
  /// one, preferably newer, with the reason. Requires: record() has returned.
  [[nodiscard]] std::pair<Run, std::string> find(const profile::GpuSpec& gpu, int batch) const;

  /// What predicts a program on a GPU.
  struct Found {
    Run run;
    std::string why_other;  ///< the second value of find().
    /// The most that the program held when it had more memory than the GPU; 0 if that fits, or if
    /// the program does not fit at all.
    Bytes asked_for = 0;
  };

  /// Returns the run that find() does or, if the program held more in it than the GPU has, another
  /// one with the memory that the GPU really has: when it is full, frameworks free what their
  /// allocators kept and try again. If the program fails there before its first step, it does not
  /// fit, and the first run is returned.
  [[nodiscard]] Result<Found> find_within(const profile::GpuSpec& gpu, int batch) const;

  /// Errors: kInvalidArgument if the program does the same work at several batches.
  [[nodiscard]] Result<void> check_batches() const;

 private:
  /// A run to record.
  struct Request {
    profile::GpuSpec gpu;
    int batch = 0;
    int number = 0;  ///< the capability of the GPUs that it is for.
  };

  [[nodiscard]] bool any(int batch) const;
  [[nodiscard]] Result<run::ProgramRun> run(const Request& request, const std::string& label,
                                            Bytes memory = 0) const;
  [[nodiscard]] Result<void> keep(const Request& request, Result<run::ProgramRun> seen);
  [[nodiscard]] Result<void> record_side_by_side(const std::vector<Request>& requests);
  [[nodiscard]] Result<Run> record_within(const profile::GpuSpec& gpu, int batch) const;
  [[nodiscard]] Result<profile::GpuSpec> known_gpu(const profile::GpuSpec& gpu) const;

  PredictedProgram program_;
  ProgramRunWorld world_;
  std::vector<Run> runs_;
  std::map<std::pair<int, int>, std::string> faults_;  ///< by capability and batch.
  std::map<int, Error> first_faults_;                  ///< by batch.
};

}  // namespace gpemu::tools
