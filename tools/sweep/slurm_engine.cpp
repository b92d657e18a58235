// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/text.hpp"

#include "sweep/sweep_engine.hpp"

namespace gpemu::tools {
namespace {

/// Returns numbers in Slurm's form, e.g. "0-3,7".
std::string ranges_text(const std::vector<std::size_t>& numbers) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    ranges.push_back(last == i ? fmt::format("{}", numbers[i])
                               : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ","));
}

/// Returns the first line without spaces around it.
std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

/// Job arrays of Slurm, by sbatch, squeue and scancel.
class SlurmEngine final : public Engine {
 public:
  explicit SlurmEngine(const World& world) : world_(world) {}

  [[nodiscard]] std::string_view file_name() const override { return "slurm.sh"; }

  [[nodiscard]] Result<std::string> description(const EngineJob& job) const override {
    std::string script = fmt::format(
        "#!/bin/sh\n#SBATCH --job-name={}\n#SBATCH --array={}\n#SBATCH --cpus-per-task={}\n"
        "#SBATCH --output={}\n",
        job.spec.name, ranges_text(job.parts), job.jobs,
        shell_word((job.folder / "slurm-%A_%a.out").string()));
    for (const std::string& option : job.spec.slurm_options) {
      script += fmt::format("#SBATCH {}\n", option);
    }
    return script + fmt::format(
                        "exec {} sweep {} --folder {} --part \"$SLURM_ARRAY_TASK_ID/{}\" "
                        "--jobs {} --quiet\n",
                        shell_word(world_.executable.string()), shell_word(job.file.string()),
                        shell_word(job.folder.string()), job.tasks, job.jobs);
  }

  [[nodiscard]] Result<std::string> submit(const std::filesystem::path& file) override {
    GPEMU_ASSIGN(const run::PrintedRun run,
                 ask_engine(world_, {"sbatch", "--parsable", file.string()}));
    // "ID", or "ID;CLUSTER".
    std::string job = first_line(run.output);
    job.resize(std::min(job.find(';'), job.size()));
    if (run.code == 0 && !job.empty()) return job;
    return fail(ErrorCode::kUnavailable, "sbatch: {}", run.errors);
  }

  [[nodiscard]] Result<bool> is_working(const std::string& job) override {
    GPEMU_ASSIGN(const run::PrintedRun run,
                 ask_engine(world_, {"squeue", "--noheader", "--jobs", job}));
    if (run.code == 0) return !first_line(run.output).empty();
    // Slurm forgets jobs some minutes after their end; else, its controller does not answer.
    return run.errors.find("Invalid job id") == std::string::npos;
  }

  [[nodiscard]] Result<void> remove(const std::string& job, bool has_ended) override {
    if (has_ended) return {};
    GPEMU_ASSIGN(const run::PrintedRun run, ask_engine(world_, {"scancel", job}));
    if (run.code == 0) return {};
    return fail(ErrorCode::kUnavailable, "scancel {}: {}", job, run.errors);
  }

  [[nodiscard]] std::string advice(const std::string& job,
                                   const std::filesystem::path& folder) const override {
    return fmt::format("see {}", (folder / fmt::format("slurm-{}_*.out", job)).string());
  }

 private:
  const World& world_;
};

}  // namespace

std::unique_ptr<Engine> slurm_engine(const World& world) {
  return std::make_unique<SlurmEngine>(world);
}

}  // namespace gpemu::tools
