// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "assignment.hpp"
#include "policies/one_gpu_policy.hpp"
#include "policies/policies.hpp"

namespace gpemu::scheduling {
namespace {

/// Jobs of this share of the users are matched, those that have had the least. Source: AlloX
/// (EuroSys'20), whose implementation for Kubernetes sets alpha to 0.5.
constexpr double kUsersMatched = 0.5;
/// So many jobs are matched at once, those that take the least time: the matching takes a time that
/// grows with the cube of it.
constexpr std::size_t kMostMatched = 64;
/// The assignment counts in microseconds.
constexpr double kUnitsPerSecond = 1e6;
/// The longest time, so that costs stay in the assignment's range.
constexpr double kLongestS = 1e7;

/// AlloX: each job gets a machine and a place in its order, counted from the last job, such that
/// the average completion time is the least: a job that is the k-th last on a machine makes k jobs
/// wait for it. What is first on a machine that is free starts.
class Allox final : public OneGpuPolicy {
 private:
  /// A GPU as a machine.
  struct Machine {
    std::size_t kind = 0;
    double free_in_s = 0;
  };

  void choose(const Snapshot& snapshot, Decision& decision) override;
  /// Returns the users that have a job that waits, those that have had the least first.
  [[nodiscard]] std::vector<std::uint32_t> sorted_users(const Snapshot& snapshot) const;
  [[nodiscard]] std::vector<JobIndex> jobs_of(const Snapshot& snapshot,
                                              const std::vector<std::uint32_t>& users,
                                              std::size_t count) const;
  [[nodiscard]] std::vector<Machine> machines(const Snapshot& snapshot, std::size_t most) const;
  /// Starts what is first on free machines. Returns whether that is anything.
  bool start_matched(const Snapshot& snapshot, const std::vector<JobIndex>& jobs,
                     Decision& decision);
};

std::vector<std::uint32_t> Allox::sorted_users(const Snapshot& snapshot) const {
  std::vector<std::pair<double, std::uint32_t>> scores;
  for (const std::uint32_t user : waiting_users(snapshot)) scores.emplace_back(0, user);
  for (const Running& running : running()) {
    const std::size_t best = best_kind(snapshot, running.job);
    const double progress =
        time_s(snapshot, running.job, best) / time_s(snapshot, running.job, running.kind);
    for (auto& [score, user] : scores) {
      if (user == snapshot.jobs[running.job].user) score += progress / all_of(best);
    }
  }
  std::ranges::sort(scores);
  std::vector<std::uint32_t> users;
  for (const auto& [score, user] : scores) users.push_back(user);
  return users;
}

std::vector<JobIndex> Allox::jobs_of(const Snapshot& snapshot,
                                     const std::vector<std::uint32_t>& users,
                                     std::size_t count) const {
  std::vector<std::pair<double, JobIndex>> jobs;
  for (const JobIndex job : waiting()) {
    const auto end = users.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::find(users.begin(), end, snapshot.jobs[job].user) == end) continue;
    jobs.emplace_back(time_s(snapshot, job, best_kind(snapshot, job)), job);
  }
  std::ranges::sort(jobs);
  if (jobs.size() > kMostMatched) jobs.resize(kMostMatched);
  std::vector<JobIndex> chosen;
  for (const auto& [time, job] : jobs) chosen.push_back(job);
  return chosen;
}

std::vector<Allox::Machine> Allox::machines(const Snapshot& snapshot, std::size_t most) const {
  std::vector<Machine> all;
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    std::vector<Machine> same(std::min<std::size_t>(free_of(kind), most), {.kind = kind});
    for (const Running& running : running()) {
      if (running.kind != kind) continue;
      same.push_back({.kind = kind, .free_in_s = std::max(0.0, running.end_s - snapshot.now_s)});
    }
    std::ranges::stable_sort(same, {}, &Machine::free_in_s);
    if (same.size() > most) same.resize(most);
    all.insert(all.end(), same.begin(), same.end());
  }
  return all;
}

bool Allox::start_matched(const Snapshot& snapshot, const std::vector<JobIndex>& jobs,
                          Decision& decision) {
  const std::vector<Machine> all = machines(snapshot, jobs.size());
  const auto cost = [&](std::size_t row, std::size_t column) {
    const Machine& machine = all[column / jobs.size()];
    const auto from_last = static_cast<double>(column % jobs.size() + 1);
    const double time = std::min(time_s(snapshot, jobs[row], machine.kind), kLongestS);
    const double wait = std::min(machine.free_in_s, kLongestS);
    return std::llround((wait + from_last * time) * kUnitsPerSecond);
  };
  const std::vector<std::size_t> columns =
      cheapest_assignment(jobs.size(), all.size() * jobs.size(), cost);
  bool started = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].free_in_s > 0) continue;
    std::size_t first = jobs.size();
    for (std::size_t row = 0; row < jobs.size(); ++row) {
      if (columns[row] / jobs.size() != i) continue;
      if (first == jobs.size() || columns[row] > columns[first]) first = row;
    }
    const bool can = first != jobs.size() && free_of(all[i].kind) != 0 &&
                     time_s(snapshot, jobs[first], all[i].kind) < kNever;
    if (!can) continue;
    start(snapshot, jobs[first], all[i].kind, decision);
    started = true;
  }
  return started;
}

void Allox::choose(const Snapshot& snapshot, Decision& decision) {
  for (;;) {
    const std::vector<std::uint32_t> users = sorted_users(snapshot);
    if (users.empty()) return;
    auto count =
        static_cast<std::size_t>(std::ceil(kUsersMatched * static_cast<double>(users.size())));
    while (!start_matched(snapshot, jobs_of(snapshot, users, count), decision)) {
      if (count == users.size()) return;
      count = std::min(2 * count, users.size());
    }
  }
}

}  // namespace

std::unique_ptr<Policy> make_allox(const PolicySettings& /*settings*/) {
  return std::make_unique<Allox>();
}

}  // namespace gpemu::scheduling
