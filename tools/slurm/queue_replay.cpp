// SPDX-License-Identifier: Apache-2.0
#include "slurm/queue_replay.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"

#include "live/job_notes.hpp"
#include "slurm/pace_files.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Fleet;
using scheduling::Job;
using scheduling::JobIndex;

/// How often Slurm is asked.
constexpr std::chrono::milliseconds kAskJobs{100};
constexpr Bytes kMostProgressBytes = 64;
/// If no job has started after so long, nobody may be there who starts them.
constexpr double kNoStartS = 30;

std::string exact(double number) {
  return fmt::format("{:.12g}", number);
}

/// Returns how much of a job is done, as its program wrote; nothing if it did not.
std::optional<double> done_s_of(const std::filesystem::path& file, const Job& job) {
  const auto text = read_file(file, kMostProgressBytes);
  if (!text) return std::nullopt;
  std::uint64_t done = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), done);
  if (error != std::errc{}) return std::nullopt;
  return static_cast<double>(done) * job.iteration_s;
}

}  // namespace

std::filesystem::path progress_file(const QueueReplayOptions& options, JobIndex job) {
  return options.own_folder() / fmt::format("{}.done", job);
}

std::string script_of(const Job& job, JobIndex index, const QueueReplayOptions& options) {
  const auto real = [&](double seconds) { return exact(seconds / options.speed); };
  std::string text = fmt::format(
      "#!/bin/sh\nexec {} jobs run --iterations {} --iteration {} --gpus {} --progress {} --resume "
      "--pace {}/{}",
      shell_word(options.gpemu.string()), exact(std::max(std::ceil(job.iterations - 1e-9), 1.0)),
      real(job.iteration_s), job.demand.gpus, shell_word(progress_file(options, index).string()),
      shell_word(options.folder.string()), PaceFiles::name_of("$SLURM_JOB_ID"));
  if (std::ranges::any_of(job.stages_s, [](double stage_s) { return stage_s > 0; })) {
    text += fmt::format(" --stages {},{},{}", real(job.stages_s[0]), real(job.stages_s[1]),
                        real(job.stages_s[2]));
  }
  return text + "\n";
}

Result<BatchJob> batch_job_of(const Fleet& fleet, const Job& job, JobIndex index,
                              std::size_t together, const QueueReplayOptions& options) {
  if (job.demand.gpus == 0 || job.demand.shares_gpus()) {
    return fail(ErrorCode::kUnsupported,
                "job {} has no whole GPUs; only jobs that have are replayed", job.id);
  }
  if (job.demand.host != scheduling::HostShare{}) {
    return fail(ErrorCode::kUnsupported,
                "job {} asks for cores or memory, which policies do not see in Slurm", job.id);
  }
  if (job.demand.gpus > fleet.most_on_one(job.demand.kinds)) {
    return fail(ErrorCode::kUnsupported,
                "job {} has {} GPUs, more than a node: jobs on several nodes are not replayed",
                job.id, job.demand.gpus);
  }
  const std::uint64_t all = fleet.kinds().size() == scheduling::kMaxKinds
                                ? ~std::uint64_t{0}
                                : (std::uint64_t{1} << fleet.kinds().size()) - 1;
  const std::uint64_t may = job.demand.kinds & all;
  if (may != all && std::popcount(may) != 1) {
    return fail(ErrorCode::kUnsupported,
                "job {} may have some types of GPUs; a job of Slurm has one of them, or any",
                job.id);
  }
  std::map<std::string, std::string> texts = notes_of_job(fleet, job, 0);
  if (together > 1) {
    texts[std::string(note::kTogether)] =
        fmt::format("{}/{} at {}", together, options.run, job.arrival_s);
  }
  std::string gres = options.shares_gpus ? "shard" : "gpu";
  if (may != all && !options.shares_gpus) {
    gres += ":" + fleet.kinds()[static_cast<std::size_t>(std::countr_zero(may))];
  }
  const std::filesystem::path folder = options.own_folder();
  return BatchJob{.name = fmt::format("{}-{}", options.run, index),
                  .partition = options.partition,
                  .gres = fmt::format("{}:{}", gres, job.demand.gpus),
                  .comment = comment_of(texts),
                  .script = (folder / fmt::format("{}.sh", index)).string(),
                  .folder = folder.string(),
                  .output = (folder / fmt::format("{}.out", index)).string()};
}

Result<bool> QueueReplayedJobs::listed(JobIndex job, const QueuedJob& facts, double now_s) {
  ReplayedJob& replayed = jobs_[job];
  if (replayed.end_s >= 0) return false;
  const bool was_there = has_nodes_[job];
  has_nodes_[job] = facts.has_nodes();
  if (facts.is_pending()) {
    left_s_[job] = -1;
    if (was_there) ++replayed.evictions;
    return was_there;
  }
  if (replayed.start_s < 0) replayed.start_s = time_of(now_s);
  if (facts.is_leaving() && left_s_[job] < 0) left_s_[job] = now_s;
  if (!facts.has_ended()) return false;
  if (facts.state != "COMPLETED") {
    return fail(ErrorCode::kUnsupported, "job {} of Slurm ended as {}", facts.id, facts.state);
  }
  replayed.end_s = time_of(left_s_[job] < 0 ? now_s : left_s_[job]);
  ++ended_;
  return false;
}

namespace {

/// The jobs of a replay, as Slurm has them.
class QueueReplay {
 public:
  QueueReplay(const World& world, const Fleet& fleet, std::span<const Job> jobs,
              const QueueReplayOptions& options, const std::function<void(const std::string&)>& log)
      : log_(log),
        world_(world),
        fleet_(fleet),
        jobs_(jobs),
        options_(options),
        slurm_(world),
        begin_s_(now_s()),
        state_(jobs.size(), begin_s_, options.speed) {}

  Result<void> run(const std::atomic<bool>& stop) {
    JobIndex next = 0;
    // The table's time begins when Slurm has the first ones: submitting many takes a while.
    for (; next < jobs_.size() && jobs_[next].arrival_s <= jobs_[0].arrival_s && !stop; ++next) {
      GPEMU_TRY(submit(next));
    }
    if (!jobs_.empty()) begin_s_ = now_s() - jobs_[0].arrival_s / options_.speed;
    state_.begin(begin_s_);
    while (!stop && state_.ended() < jobs_.size()) {
      const double time_s = (now_s() - begin_s_) * options_.speed;
      for (; next < jobs_.size() && jobs_[next].arrival_s <= time_s && !stop; ++next) {
        GPEMU_TRY(submit(next));
      }
      GPEMU_TRY(ask());
      warn();
      auto wait = std::chrono::duration<double>(kAskJobs);
      if (next < jobs_.size()) {
        const double until_s = (jobs_[next].arrival_s - time_s) / options_.speed;
        wait = std::min(wait, std::chrono::duration<double>(std::max(until_s, 0.0)));
      }
      std::this_thread::sleep_for(wait);
    }
    if (stop) return fail(ErrorCode::kInterrupted, "the replay was stopped");
    return {};
  }

  Result<void> cancel() {
    std::vector<std::string> left;
    for (const auto& [id, index] : numbers_) {
      if (state_.jobs()[index].end_s < 0) left.push_back(id);
    }
    return slurm_.cancel(left);
  }

  [[nodiscard]] std::vector<ReplayedJob> result() const {
    return {state_.jobs().begin(), state_.jobs().end()};
  }

 private:
  [[nodiscard]] double now_s() const {
    return std::chrono::duration<double>(world_.time_of_day().time_since_epoch()).count();
  }

  void warn() {
    const bool starts =
        std::ranges::any_of(state_.jobs(), [](const ReplayedJob& job) { return job.start_s >= 0; });
    if (has_warned_ || starts || now_s() - begin_s_ < kNoStartS) return;
    has_warned_ = true;
    log_(
        fmt::format("no job has started in {:.0f} s: does `gpemu-slurm schedule --partition {}` "
                    "run? `scontrol show job` says in AdminComment why a job waits",
                    kNoStartS, options_.partition));
  }

  Result<void> submit(JobIndex index) {
    const auto same = std::ranges::equal_range(jobs_, jobs_[index].arrival_s, {}, &Job::arrival_s);
    GPEMU_ASSIGN(const BatchJob job,
                 batch_job_of(fleet_, jobs_[index], index, same.size(), options_));
    GPEMU_TRY(write_file_atomically(job.script, script_of(jobs_[index], index, options_)));
    GPEMU_ASSIGN(const std::string id, slurm_.submit_held(job));
    numbers_[id] = index;
    return {};
  }

  Result<void> ask() {
    GPEMU_ASSIGN(const std::vector<QueuedJob> jobs, slurm_.jobs());
    for (const QueuedJob& job : jobs) {
      const auto found = numbers_.find(job.id);
      if (found == numbers_.end()) continue;
      const JobIndex index = found->second;
      const auto requeued = state_.listed(index, job, now_s());
      if (!requeued) {
        return fail(requeued.error().code, "{} ({}); see {}", requeued.error().message,
                    jobs_[index].id,
                    (options_.own_folder() / fmt::format("{}.out", index)).string());
      }
      if (*requeued) GPEMU_TRY(tell_progress(index, job));
    }
    return {};
  }

  /// Says in a job's comment how far it is.
  Result<void> tell_progress(JobIndex index, const QueuedJob& job) {
    const auto done_s = done_s_of(progress_file(options_, index), jobs_[index]);
    if (!done_s) return {};
    std::map<std::string, std::string> texts = job.texts;
    texts[std::string(note::kDoneSeconds)] = exact(*done_s);
    return slurm_.set(job.id, "Comment", comment_of(texts));
  }

  const std::function<void(const std::string&)>& log_;
  bool has_warned_ = false;
  const World& world_;
  const Fleet& fleet_;
  std::span<const Job> jobs_;
  const QueueReplayOptions& options_;
  SlurmPrograms slurm_;
  double begin_s_;
  QueueReplayedJobs state_;
  std::map<std::string, JobIndex> numbers_;
};

}  // namespace

Result<std::vector<ReplayedJob>> replay_in_queue(
    const World& world, const Fleet& fleet, std::span<const Job> jobs,
    const QueueReplayOptions& options, const std::atomic<bool>& stop,
    const std::function<void(const std::string&)>& log) {
  // Before anything is submitted: what jobs of Slurm cannot ask for.
  for (JobIndex job = 0; job < jobs.size(); ++job) {
    GPEMU_ASSIGN([[maybe_unused]] const BatchJob batch,
                 batch_job_of(fleet, jobs[job], job, 1, options));
  }
  std::error_code error;
  std::filesystem::create_directory(options.own_folder(), error);
  if (error) {
    return fail(ErrorCode::kIo, "cannot make {}: {}", options.own_folder().string(),
                error.message());
  }
  QueueReplay replay(world, fleet, jobs, options, log);
  const auto ran = replay.run(stop);
  const auto cancelled = replay.cancel();
  if (!ran) return std::unexpected(ran.error());
  if (!cancelled) return std::unexpected(cancelled.error());
  std::filesystem::remove_all(options.own_folder(), error);
  return replay.result();
}

}  // namespace gpemu::tools
