// SPDX-License-Identifier: Apache-2.0
#include "slurm/slurm_programs.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <sys/random.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/error.hpp"
#include "gpemu/base/text.hpp"

namespace gpemu::tools {
namespace {

/// Variables by which users change what these programs print or do.
constexpr std::array<std::string_view, 6> kOthersOptions{"SQUEUE_",  "SINFO_",    "SBATCH_",
                                                         "SCANCEL_", "SCONTROL_", "SLURM_TIME_"};

/// Returns letters that nobody can guess.
std::string random_letters() {
  std::array<unsigned char, 16> bytes{};
  // So few are always there.
  GPEMU_CHECK(std::cmp_equal(::getrandom(bytes.data(), bytes.size(), 0), bytes.size()),
              "getrandom");
  std::string letters;
  for (const unsigned char byte : bytes) letters += static_cast<char>('a' + byte % 26);
  return letters;
}

std::string without_line_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

SlurmPrograms::SlurmPrograms(const World& world)
    : world_(world), environment_(world.environment()), mark_(random_letters()) {
  std::erase_if(environment_, [](const std::string& entry) {
    return std::ranges::any_of(kOthersOptions,
                               [&](std::string_view name) { return entry.starts_with(name); });
  });
  // Times as seconds since 1970.
  environment_.emplace_back("SLURM_TIME_FORMAT=%s");
}

Result<std::string> SlurmPrograms::run(const std::vector<std::string>& words) const {
  // It is short; it ends by itself after Ctrl-C, so that it is known what was done.
  const std::atomic<bool> never{false};
  auto done = world_.run_for_output(words, environment_, {}, -1, never);
  if (!done && done.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, "{}; install Slurm's programs for users on this machine",
                done.error().message);
  }
  if (!done) return std::unexpected(std::move(done).error());
  if (done->code == 0) return std::move(done->output);
  const std::string said = done->errors.empty() ? done->output : done->errors;
  return fail(ErrorCode::kUnavailable, "{}: {}", words.front(), without_line_end(said));
}

Result<std::vector<QueuedJob>> SlurmPrograms::jobs() const {
  std::vector<std::string> words = squeue_options(mark_);
  words.insert(words.begin(), "squeue");
  GPEMU_ASSIGN(const std::string text, run(words));
  return parse_queue(text, mark_);
}

Result<std::vector<QueueNode>> SlurmPrograms::nodes(const std::string& partition) const {
  std::vector<std::string> words = sinfo_options();
  words.insert(words.begin(), "sinfo");
  words.push_back("--partition=" + partition);
  GPEMU_ASSIGN(const std::string text, run(words));
  GPEMU_ASSIGN(std::vector<QueueNode> nodes, parse_nodes(text));
  if (!nodes.empty()) return nodes;
  return fail(ErrorCode::kNotFound,
              "Slurm has no partition {} with nodes; `sinfo` shows those that there are",
              partition);
}

Result<void> SlurmPrograms::hold(const std::string& job) const {
  GPEMU_TRY(run({"scontrol", "hold", job}));
  return {};
}

Result<void> SlurmPrograms::place(const std::string& job, const std::string& node) const {
  // A job that was requeued may not start for two minutes otherwise.
  GPEMU_TRY(run({"scontrol", "update", "JobId=" + job, "ReqNodeList=" + node, "StartTime=now"}));
  return {};
}

Result<void> SlurmPrograms::release(const std::vector<std::string>& jobs) const {
  GPEMU_TRY(run({"scontrol", "release", fmt::format("{}", fmt::join(jobs, ","))}));
  return {};
}

Result<void> SlurmPrograms::requeue_held(const std::string& job) const {
  GPEMU_TRY(run({"scontrol", "requeuehold", job}));
  return {};
}

Result<void> SlurmPrograms::set(const std::string& job, const std::string& field,
                                const std::string& value) const {
  GPEMU_TRY(run({"scontrol", "update", "JobId=" + job, fmt::format("{}={}", field, value)}));
  return {};
}

Result<std::string> SlurmPrograms::submit_held(const BatchJob& job) const {
  GPEMU_ASSIGN(std::string printed,
               run({"sbatch", "--parsable", "--hold", "--requeue", "--job-name=" + job.name,
                    "--partition=" + job.partition, "--gres=" + job.gres, "--ntasks=1", "--nodes=1",
                    "--comment=" + job.comment, "--chdir=" + job.folder, "--output=" + job.output,
                    "--open-mode=append", job.script}));
  // "ID", or "ID;CLUSTER".
  printed = without_line_end(std::move(printed));
  printed.resize(std::min(printed.find(';'), printed.size()));
  if (!printed.empty()) return printed;
  return fail(ErrorCode::kUnavailable, "sbatch printed no number of a job");
}

Result<void> SlurmPrograms::cancel(const std::vector<std::string>& jobs) const {
  if (jobs.empty()) return {};
  std::vector<std::string> words{"scancel"};
  words.insert(words.end(), jobs.begin(), jobs.end());
  GPEMU_TRY(run(words));
  return {};
}

}  // namespace gpemu::tools
