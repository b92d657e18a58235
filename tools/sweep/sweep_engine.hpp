// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/sweep_spec.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// What a job of an engine is to do: each task runs `gpemu sweep FILE --part TASK/tasks`.
struct EngineJob {
  const profile::SweepSpec& spec;
  std::filesystem::path file;      ///< of the sweep, absolute.
  std::filesystem::path folder;    ///< of its cells, absolute.
  std::size_t tasks = 1;           ///< parts of the cells.
  std::vector<std::size_t> parts;  ///< those that have something to do, in order.
  int jobs = 1;                    ///< cells that a task runs at the same time.
};

/// A system that runs the tasks of a job on the machines of a cluster. Thread safety: none.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Returns the name of the file in the sweep's folder that describes the job.
  [[nodiscard]] virtual std::string_view file_name() const = 0;

  /// Returns the description of a job. Errors: kInvalidArgument for what the sweep's file lacks.
  [[nodiscard]] virtual Result<std::string> description(const EngineJob& job) const = 0;

  /// Submits the job that a file describes; returns its name. Errors: kNotFound if the engine's
  /// program is missing; kUnavailable with what it said.
  [[nodiscard]] virtual Result<std::string> submit(const std::filesystem::path& file) = 0;

  /// Returns whether tasks of a job wait or run, also if the engine does not answer.
  [[nodiscard]] virtual Result<bool> is_working(const std::string& job) = 0;

  /// Ends a job, or removes one that has ended. Errors: as submit().
  [[nodiscard]] virtual Result<void> remove(const std::string& job, bool has_ended) = 0;

  /// Returns how to learn more about a job whose tasks left cells undone.
  [[nodiscard]] virtual std::string advice(const std::string& job,
                                           const std::filesystem::path& folder) const = 0;
};

/// The world must outlive it. Requires: the name is "slurm" or "kubernetes".
[[nodiscard]] std::unique_ptr<Engine> engine_named(std::string_view name, const World& world);
[[nodiscard]] std::unique_ptr<Engine> slurm_engine(const World& world);
[[nodiscard]] std::unique_ptr<Engine> kubernetes_engine(const World& world);

/// Runs a program of an engine; returns what it printed, whatever its exit code.
///
/// Errors: kNotFound with what to do; those of starting it.
[[nodiscard]] Result<run::PrintedRun> ask_engine(const World& world,
                                                 const std::vector<std::string>& words);

}  // namespace gpemu::tools
