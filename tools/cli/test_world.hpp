// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/profile/pack.hpp"
#include "gpemu/run/child_process.hpp"
#include "gpemu/run/program_run.hpp"
#include "gpemu/sim/clock.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// What a command printed, and its exit code.
struct Outcome {
  int code = 0;
  std::string output, errors;

  bool operator==(const Outcome&) const = default;
};

/// So that GoogleTest shows it.
std::ostream& operator<<(std::ostream& stream, const Outcome& outcome);

/// Runs a command with the words after "gpemu".
[[nodiscard]] Outcome run_command(std::vector<std::string> words, const World& world);

/// Returns a text with one space for several, so that tables can be compared without their widths.
[[nodiscard]] std::string squeezed(std::string_view text);

/// Parses JSON. Here, because each file would compile the parser. Requires: it is JSON.
[[nodiscard]] nlohmann::json parsed(const std::string& text);

/// Returns made-up measurements of resnet50 on a V100-PCIE-32GB: batches 1 to 256 fit. The times
/// of a step at batch 64 are 60 and 120 ms, and of its copy 12 ms.
[[nodiscard]] profile::Pack made_up_pack(const std::string& name);

/// Returns a host file of a made-up host with 4 cores and 1 GiB, whose worker takes so long to
/// prepare an image. `storage`: the file's tables [[storage]], whose source is "s".
[[nodiscard]] std::string slow_host(int image_ms, std::string_view storage);

/// A program that a command has started in a TestWorld.
struct StartedProgram {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;
  run::ProgramOutput output = run::ProgramOutput::kAsItIs;
};

/// Made-up surroundings in a folder of their own, which is removed at the end: virtual time, an
/// empty environment, files for output and errors, a host that computes half of the time for this
/// process and half for others, no nodes, and a database of two GPUs with made_up_pack("made-up").
class TestWorld {
 public:
  TestWorld();
  TestWorld(const TestWorld&) = delete;
  TestWorld& operator=(const TestWorld&) = delete;
  ~TestWorld();

  [[nodiscard]] Outcome run(std::vector<std::string> words) const {
    return run_command(std::move(words), world);
  }
  /// Writes a file below the folder, and returns its path.
  std::string write(const std::filesystem::path& file, const std::string& text) const;

  const std::filesystem::path folder;
  std::map<std::string, std::string> variables;
  sim::VirtualClock clock;
  report::Terminal terminal;
  /// Takes the place of programs: returns the exit code.
  std::function<Result<int>(const StartedProgram&)> program = [](const auto&) { return 0; };
  /// Takes the place of programs whose output is wanted. Called by several threads.
  std::function<Result<run::PrintedRun>(const std::vector<std::string>& words)> printing =
      [](const auto&) { return run::PrintedRun{}; };
  /// Takes the place of run::record_steps().
  std::function<Result<run::ProgramRun>(const run::ProgramRunOptions&)> recording =
      [](const auto&) { return fail(ErrorCode::kNotFound, "the program has no steps"); };
  World world;
};

}  // namespace gpemu::tools
