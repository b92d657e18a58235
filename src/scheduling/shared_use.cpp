// SPDX-License-Identifier: Apache-2.0
#include "shared_use.hpp"

#include <algorithm>
#include <span>

namespace gpemu::scheduling {
namespace {

constexpr std::uint64_t key_of(SharedUse::Mix a, SharedUse::Mix b) {
  return std::uint64_t{a} << 32U | b;
}

}  // namespace

SharedUse::Mix SharedUse::add(const Jobs& jobs) {
  const std::vector<Stages> key(jobs.stages.begin(),
                                jobs.stages.begin() + static_cast<std::ptrdiff_t>(jobs.count));
  const auto [found, is_new] = known_.try_emplace(key, static_cast<Mix>(mixes_.size()));
  if (is_new) mixes_.push_back(jobs);
  return found->second;
}

SharedUse::Jobs SharedUse::joined(Mix a, Mix b) const {
  Jobs jobs = mixes_[a];
  jobs.iteration_s = 0;
  for (std::size_t i = 0; i < mixes_[b].count; ++i) {
    jobs.stages[jobs.count++] = mixes_[b].stages[i];
  }
  return jobs;
}

SharedUse::Mix SharedUse::of(const Stages& stages) {
  return add({.stages = {stages}, .count = 1});
}

SharedUse::Mix SharedUse::together(Mix a, Mix b) {
  const auto [found, is_new] = together_.try_emplace(key_of(a, b), 0);
  if (is_new) found->second = add(joined(a, b));
  return found->second;
}

double SharedUse::iteration_s(Mix mix) {
  Jobs& jobs = mixes_[mix];
  if (jobs.iteration_s == 0) {
    jobs.iteration_s = interleaved_iteration_s(std::span(jobs.stages).first(jobs.count));
  }
  return jobs.iteration_s;
}

double SharedUse::share(Mix a, Mix b) {
  const auto [found, is_new] = shares_.try_emplace(key_of(a, b), 0);
  if (is_new) found->second = computed_share(a, b);
  return found->second;
}

double SharedUse::computed_share(Mix a, Mix b) {
  if (mixes_[a].count + mixes_[b].count > kMostInGroup) return 0;
  const Jobs& jobs = mixes_[together(a, b)];
  double used = 0;
  for (const Stages& stages : std::span(jobs.stages).first(jobs.count)) {
    const double busy = stages[0] + stages[1] + stages[2];
    if (busy <= 0) return 0;
    used += busy;
  }
  return used / (iteration_s(together(a, b)) * static_cast<double>(kMostInGroup));
}

}  // namespace gpemu::scheduling
