// SPDX-License-Identifier: Apache-2.0
#include "live/live_schedule.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "gpemu/scheduling/placing_policy.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Decision;
using scheduling::Fleet;
using scheduling::FreeResources;
using scheduling::HostShare;
using scheduling::Job;
using scheduling::JobIndex;
using scheduling::JobPhase;
using scheduling::JobState;
using scheduling::PolicyScope;

/// Jobs that end within this time end together: policies see all of them, as in the simulation,
/// where jobs of the same length do. Source: kubelets report ends with some hundredths of a second
/// between them.
constexpr double kEndTogetherS = 0.1;
/// For so long, jobs wait for those that they are to arrive with.
constexpr double kTogetherS = 10;

}  // namespace

LiveSchedule::LiveSchedule(LiveScheduleSettings settings, double now_s)
    : settings_(std::move(settings)), epoch_s_(now_s) {}

std::string_view LiveSchedule::name() const {
  return settings_.policy != nullptr ? settings_.policy->name : settings_.placement->name;
}

void LiveSchedule::make_policy() {
  if (settings_.placement != nullptr) {
    std::vector<scheduling::TypicalDemand> typical;
    if (!settings_.expected.empty()) typical = typical_demands(*fleet_, settings_.expected);
    policy_ = make_placing_policy(*settings_.placement, std::move(typical));
  } else {
    policy_ = settings_.policy->make({.round_s = settings_.round_s});
  }
}

void LiveSchedule::set_fleet(std::vector<scheduling::Server> servers) {
  ledger_.reset();
  jobs_.clear();
  arrived_.clear();
  ended_.clear();
  is_new_ = true;
  auto fleet = Fleet::create(std::move(servers));
  if (!fleet) {
    fleet_.reset();
    ask_again_s_ = scheduling::kNever;
    return;
  }
  fleet_ = std::make_unique<const Fleet>(*std::move(fleet));
  ledger_ = std::make_unique<scheduling::Ledger>(*fleet_, jobs_, scheduling::Accounting::kChange,
                                                 scheduling::Tracking::kServers);
  make_policy();
}

Result<void> LiveSchedule::check(const Job& job) const {
  if (settings_.policy != nullptr) {
    GPEMU_TRY(scheduling::check_policy(*settings_.policy, *fleet_, std::span(&job, 1)));
    const HostShare each = fleet_->host_for_each_gpu();
    const HostShare share{.millicores = each.millicores * job.demand.gpus,
                          .memory_mib = each.memory_mib * job.demand.gpus};
    if (settings_.policy->scope == PolicyScope::kHosts && !job.demand.host.fits_in(share)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the policy {} hands out cores and memory, and job {} requests more than the {} "
                  "cores and {} MiB that its GPUs are worth",
                  settings_.policy->name, job.id, static_cast<double>(share.millicores) / 1000,
                  share.memory_mib);
    }
  }
  FreeResources all(*fleet_);
  if (all.take_together(job.demand)) return {};
  return fail(ErrorCode::kResourceLimit,
              "no nodes have together what it needs: {} GPUs, {} cores and {} MiB of memory",
              job.demand.gpus, static_cast<double>(job.demand.host.millicores) / 1000,
              job.demand.host.memory_mib);
}

JobIndex LiveSchedule::submit(Job job, double now_s) {
  const auto index = static_cast<JobIndex>(jobs_.size());
  job.arrival_s = time_of(now_s);
  jobs_.push_back(std::move(job));
  ledger_->set_jobs(jobs_);
  ledger_->set_time(time_of(now_s));
  ledger_->arrive(index);
  arrived_.push_back(index);
  return index;
}

Result<void> LiveSchedule::adopt(Decision::Start start) {
  Decision one;
  one.start.push_back(std::move(start));
  return ledger_->apply(one);
}

void LiveSchedule::recall(JobIndex job, const JobState& known) {
  ledger_->recall(job, known);
}

void LiveSchedule::started(JobIndex job, double started_s, std::optional<double> done_s) {
  JobState state = ledger_->states()[job];
  if (state.phase != JobPhase::kRunning) return;
  const Job& known = jobs_[job];
  const double time_s = time_of(started_s);
  state.held_s = std::max(0.0, state.held_s + time_s - state.as_of_s);
  state.as_of_s = time_s;
  state.progress_from_s = time_s + known.restart_s;
  if (done_s) {
    state.iterations_left = known.iterations * std::max(1e-9, 1 - *done_s / known.work_s());
  }
  ledger_->recall(job, state);
}

void LiveSchedule::end(JobIndex job, double now_s) {
  ledger_->set_time(time_of(now_s));
  ledger_->end(job);
  if (ended_.empty()) ends_until_s_ = now_s + kEndTogetherS;
  ended_.push_back(job);
}

void LiveSchedule::update(double now_s) {
  ledger_->set_time(time_of(now_s));
  ledger_->touch_all();
}

bool LiveSchedule::is_due(double now_s) const {
  if (!ledger_) return false;
  // As in the simulation: those that decide anew each time would move jobs whenever something else
  // changes.
  const bool have_ended = !ended_.empty() && now_s >= ends_until_s_;
  return is_new_ || !arrived_.empty() || have_ended || time_of(now_s) >= ask_again_s_;
}

double LiveSchedule::ask_again_s() const {
  const double by_policy_s = epoch_s_ + ask_again_s_ / settings_.speed;
  return ended_.empty() ? by_policy_s : std::min(by_policy_s, ends_until_s_);
}

Result<std::vector<JobIndex>> LiveSchedule::decide(double now_s) {
  const double time_s = time_of(now_s);
  ledger_->set_time(time_s);
  Decision decision;
  policy_->decide({.now_s = time_s,
                   .fleet = fleet_.get(),
                   .free = &ledger_->free(),
                   .jobs = jobs_,
                   .states = ledger_->states(),
                   .arrived = arrived_,
                   .ended = ended_},
                  decision);
  arrived_.clear();
  ended_.clear();
  is_new_ = false;
  ask_again_s_ = decision.ask_again_s;
  GPEMU_TRY(ledger_->apply(decision));
  std::vector<JobIndex> changed = decision.preempt;
  changed.insert(changed.end(), ledger_->moved().begin(), ledger_->moved().end());
  ledger_->clear_moved();
  return changed;
}

bool shares_gpus(const scheduling::PolicyEntry& policy) {
  return policy.name.starts_with("muri") || policy.name == "antman";
}

std::vector<std::string> take_complete(std::vector<Newcomer>& newcomers, double now_s) {
  std::map<std::string, std::size_t> together;
  std::map<std::string, double> first_s;  // When the first of those was made.
  for (const Newcomer& one : newcomers) {
    ++together[one.together];
    double& first = first_s.try_emplace(one.together, one.made_s).first->second;
    first = std::min(first, one.made_s);
  }
  const auto [waiting, last] = std::ranges::stable_partition(newcomers, [&](const Newcomer& one) {
    return together[one.together] >= std::strtoull(one.together.c_str(), nullptr, 10) ||
           now_s - one.seen_s > kTogetherS;
  });
  std::vector<Newcomer> ready(newcomers.begin(), waiting);
  newcomers.erase(newcomers.begin(), waiting);
  std::ranges::stable_sort(ready, {}, [&](const Newcomer& one) {
    const double made_s = one.together.empty() ? one.made_s : first_s.at(one.together);
    return std::tuple(made_s, one.name.size(), one.name);
  });
  std::vector<std::string> keys;
  keys.reserve(ready.size());
  for (Newcomer& one : ready) keys.push_back(std::move(one.key));
  return keys;
}

}  // namespace gpemu::tools
