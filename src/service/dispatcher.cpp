// SPDX-License-Identifier: Apache-2.0
#include "gpemu/service/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::service {
namespace {

/// Far above what anybody trains with; keeps wrong messages from taking the memory.
constexpr std::int32_t kMostBatch = 1 << 20;
constexpr std::int32_t kMostCrop = 4096;
/// Samples in the orders of all jobs together: 64 MiB.
constexpr std::size_t kMostOrdered = 16 << 20;

Result<void> check_text(std::string_view what, const std::string& text) {
  if (text.size() <= kMostName) return {};
  return fail(ErrorCode::kInvalidArgument, "{} has {} bytes; it may have {}", what, text.size(),
              kMostName);
}

}  // namespace

Bytes JobSettings::batch_bytes() const {
  const auto pixels = static_cast<Bytes>(crop) * static_cast<Bytes>(crop);
  return static_cast<Bytes>(batch) * 3 * pixels * sizeof(float);
}

Result<void> check(const JobSettings& settings) {
  if (settings.batch >= 1 && settings.batch <= kMostBatch && settings.epochs >= 1 &&
      settings.crop >= 1 && settings.crop <= kMostCrop &&
      settings.batch_bytes() <= kMostBatchBytes) {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument,
              "a job cannot have batches of {} samples of {} x {}; they may have {} MiB",
              settings.batch, settings.crop, settings.crop, kMostBatchBytes / kMiB);
}

Result<std::uint64_t> Dispatcher::join(const std::string& address, TimePoint now) {
  GPEMU_TRY(check_text("the address of a worker", address));
  expire(now);
  if (workers_.size() >= kMostWorkers) {
    return fail(ErrorCode::kResourceLimit, "the dispatcher has {} workers, and takes no more",
                workers_.size());
  }
  workers_[++last_id_] = {.address = address, .heard = now};
  return last_id_;
}

Result<std::vector<Dispatcher::OpenJob>> Dispatcher::beat(std::uint64_t worker, TimePoint now) {
  expire(now);
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return fail(ErrorCode::kNotFound, "worker {} is not known", worker);
  found->second.heard = now;
  std::vector<OpenJob> open;
  for (const auto& [id, job] : jobs_) {
    if (!job.ended) open.push_back({.job = id, .settings = job.settings});
  }
  return open;
}

Result<Dispatcher::Work> Dispatcher::work(std::uint64_t worker, std::uint64_t job_id,
                                          TimePoint now) {
  GPEMU_TRY(beat(worker, now));
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || found->second.ended) return Work{.answer = Answer::kEnded};
  Job& job = found->second;
  Work work;
  if (!job.again.empty()) {
    work.split = std::move(job.again.front());
    job.again.pop_front();
  } else if (job.next < job.order.size()) {
    const std::size_t size =
        std::min(static_cast<std::size_t>(job.settings.batch), job.order.size() - job.next);
    const auto begin = job.order.begin() + static_cast<std::ptrdiff_t>(job.next);
    work.split = {.number = job.splits++,
                  .epoch = job.epoch,
                  .samples = {begin, begin + static_cast<std::ptrdiff_t>(size)}};
    job.next += size;
  } else {
    return work;
  }
  work.answer = Answer::kSplit;
  job.given[work.split.number] = {.split = work.split, .worker = worker};
  return work;
}

Result<Dispatcher::Opened> Dispatcher::open(const std::string& name, const JobSettings& settings,
                                            TimePoint now) {
  expire(now);
  GPEMU_TRY(check(settings));
  GPEMU_TRY(check_text("the name of a job", name));
  std::size_t clients = 0;
  std::size_t ordered = 0;
  for (const auto& [id, job] : jobs_) {
    clients += job.clients.size();
    ordered += job.order.size();
  }
  const auto refuse = [this, clients] {
    return fail(ErrorCode::kResourceLimit,
                "the dispatcher has {} jobs of {} clients, and takes no more", jobs_.size(),
                clients);
  };
  if (clients >= kMostClients) return refuse();
  const std::uint64_t client = ++last_id_;
  for (auto& [id, job] : jobs_) {
    if (name.empty() || job.name != name || job.ended) continue;
    if (job.settings != settings) {
      return fail(ErrorCode::kInvalidArgument,
                  "other clients share the job '{}' with other options: use the same --batch, "
                  "--epochs, --seed and model, or another --job",
                  name);
    }
    job.clients[client] = now;
    return Opened{.job = id, .client = client};
  }
  std::vector<std::uint32_t> order = order_(settings.seed, 0);
  if (jobs_.size() >= kMostJobs || (!jobs_.empty() && ordered + order.size() > kMostOrdered)) {
    return refuse();
  }
  const std::uint64_t id = ++last_id_;
  Job& job = jobs_[id];
  job.name = name;
  job.settings = settings;
  job.clients[client] = now;
  job.order = std::move(order);
  if (job.order.empty()) job.ended = true;
  return Opened{.job = id, .client = client};
}

Result<Dispatcher::Progress> Dispatcher::follow(std::uint64_t job_id, std::uint64_t client,
                                                const Report& report, TimePoint now) {
  // Before anybody is found dead: the report is new.
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !found->second.clients.contains(client)) {
    return fail(ErrorCode::kNotFound, "the dispatcher does not know this client any more");
  }
  Job& job = found->second;
  job.clients[client] = now;
  for (const std::uint64_t split : report.received) receive(job, split);
  for (const std::uint64_t worker : report.dead_workers) bury(worker);
  Progress progress{.ended = job.ended};
  expire(now);
  for (const auto& [id, worker] : workers_) {
    progress.workers.push_back({.id = id, .address = worker.address});
  }
  return progress;
}

void Dispatcher::receive(Job& job, std::uint64_t split) {
  if (job.given.erase(split) == 0) {
    std::erase_if(job.again, [split](const Split& waits) { return waits.number == split; });
  }
  if (!job.ended && job.given.empty() && job.again.empty() && job.next == job.order.size()) {
    end_epoch(job);
  }
}

void Dispatcher::end_epoch(Job& job) {
  ++job.epoch;
  job.next = 0;
  job.ended = job.epoch == static_cast<std::uint64_t>(job.settings.epochs);
  job.order = job.ended ? std::vector<std::uint32_t>{} : order_(job.settings.seed, job.epoch);
}

/// Gives what a worker held to others.
void Dispatcher::bury(std::uint64_t worker) {
  if (workers_.erase(worker) == 0) return;
  for (auto& [id, job] : jobs_) {
    for (auto given = job.given.begin(); given != job.given.end();) {
      if (given->second.worker != worker) {
        ++given;
        continue;
      }
      job.again.push_back(std::move(given->second.split));
      given = job.given.erase(given);
    }
  }
}

void Dispatcher::expire(TimePoint now) {
  std::vector<std::uint64_t> dead;
  for (const auto& [id, worker] : workers_) {
    if (now - worker.heard > kWorkerPatience) dead.push_back(id);
  }
  for (const std::uint64_t worker : dead) bury(worker);
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    Job& watched = job->second;
    const std::size_t left = std::erase_if(watched.clients, [now](const auto& client) {
      return now - client.second > kClientPatience;
    });
    if (watched.clients.empty()) {
      job = jobs_.erase(job);
      continue;
    }
    // Nobody knows what they had received and not said.
    if (left > 0) {
      for (auto& [number, given] : watched.given) watched.again.push_back(std::move(given.split));
      watched.given.clear();
    }
    ++job;
  }
}

}  // namespace gpemu::service
