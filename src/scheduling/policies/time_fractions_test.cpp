// SPDX-License-Identifier: Apache-2.0
#include "policies/time_fractions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "linear_program.hpp"
#include "random_draws.hpp"

namespace gpemu::scheduling {
namespace {

void expect_near(const TimeFractions& fractions, const TimeFractions& expected) {
  ASSERT_EQ(fractions.size(), expected.size());
  for (std::size_t job = 0; job < fractions.size(); ++job) {
    ASSERT_EQ(fractions[job].size(), expected[job].size());
    for (std::size_t kind = 0; kind < fractions[job].size(); ++kind) {
      EXPECT_NEAR(fractions[job][kind], expected[job][kind], 1e-6) << job << " on " << kind;
    }
  }
}

TEST(MaxMinTest, TheFastKindIsForThoseThatUseIt) {
  // With the average GPU, the first two do 2 iterations per second, so that they count 1.5 and 0.5.
  // If they had the first kind to themselves, they would get 0.75 each, and the others 0.5. With
  // the first for 0.4 of the time, they get 0.6, as the others do with 0.1 of it and the second.
  const std::vector<TimeDemand> jobs{
      {.speeds = {3, 1}}, {.speeds = {3, 1}}, {.speeds = {1, 1}}, {.speeds = {7, 7}}};
  expect_near(max_min_fractions(std::vector<double>{1, 1}, jobs),
              {{0.4, 0}, {0.4, 0}, {0.1, 0.5}, {0.1, 0.5}});
}

TEST(MaxMinTest, WhatIsLeftGoesWhereItHelpsMost) {
  // None of the first three can have more than 1, which leaves one GPU of the first kind. The
  // fourth cannot run on the second kind.
  const std::vector<TimeDemand> jobs{
      {.speeds = {1, 1}}, {.speeds = {2, 2}}, {.speeds = {1, 1}}, {.speeds = {1, 0}}};
  const TimeFractions fractions = max_min_fractions(std::vector<double>{1, 3}, jobs);
  expect_near(fractions, {{0, 1}, {0, 1}, {0, 1}, {1, 0}});
}

TEST(MaxMinTest, GpusCount) {
  // 2 x 2/3 + 2 x 1/3 GPUs: the service is 2/3 for each.
  const std::vector<TimeDemand> jobs{
      {.speeds = {1}}, {.gpus = 2, .speeds = {1}}, {.speeds = {1}}, {.speeds = {0}}};
  expect_near(max_min_fractions(std::vector<double>{2}, jobs), {{2. / 3}, {1. / 3}, {2. / 3}, {0}});
}

TEST(BlindMaxMinTest, AllGetTheirPartOfEachKind) {
  const std::vector<TimeDemand> jobs{
      {.speeds = {9, 1}}, {.speeds = {1, 1}}, {.gpus = 2, .speeds = {9, 1}}, {.speeds = {1, 9}}};
  expect_near(blind_max_min_fractions(std::vector<double>{1, 2}, jobs),
              {{0.25, 0.5}, {0.25, 0.5}, {0.125, 0.25}, {0.25, 0.5}});
}

TEST(MakespanTest, AllJobsEndTogether) {
  // The first two take 10 s and run on the first kind alone; the others take 10 or 20 s. In 15 s,
  // the first kind has 5 s for each of the others, which then need 10 s on the second.
  const std::vector<TimeDemand> jobs{
      {.speeds = {10, 0}, .iterations_left = 100},
      {.speeds = {20, 0}, .iterations_left = 200},
      {.speeds = {10, 5}, .iterations_left = 100},
      {.speeds = {1, 0.5}, .iterations_left = 10},
  };
  expect_near(makespan_fractions(std::vector<double>{2, 2}, jobs),
              {{2. / 3, 0}, {2. / 3, 0}, {1. / 3, 2. / 3}, {1. / 3, 2. / 3}});
}

TEST(MakespanTest, SlowKindsHelp) {
  // The second kind has time left while the second job is on the first. In T = 280 / 19 s, the
  // first job does 0.1 x 180 / 19 + 0.01 x 100 / 19 = 1 of its work, the second 0.1 x 100 / 19 +
  // 0.05 x 180 / 19 = 1.
  const std::vector<TimeDemand> jobs{{.speeds = {10, 1}, .iterations_left = 100},
                                     {.speeds = {10, 5}, .iterations_left = 100}};
  expect_near(makespan_fractions(std::vector<double>{1, 1}, jobs),
              {{18. / 28, 10. / 28}, {10. / 28, 18. / 28}});
}

TEST(MakespanTest, JobsThatAreShorterThanAllDoTheSameShareOfTheirWorkOnEachKind) {
  // 1 + 2 + 3 + 4 s of work on two kinds take 5 s, and half of each job's work is done on each
  // kind.
  std::vector<TimeDemand> jobs;
  for (const double work : {1, 2, 3, 4}) {
    jobs.push_back({.speeds = {1, 1}, .iterations_left = work});
  }
  const TimeFractions fractions = makespan_fractions(std::vector<double>{1, 1}, jobs);
  expect_near(fractions, {{0.1, 0.1}, {0.2, 0.2}, {0.3, 0.3}, {0.4, 0.4}});
}

TEST(MakespanTest, GpusCount) {
  // One GPU-second for the first, two for the second, six for the third, on three GPUs: 3 s.
  const std::vector<TimeDemand> jobs{{.gpus = 1, .speeds = {1, 0}, .iterations_left = 1},
                                     {.gpus = 2, .speeds = {1, 0}, .iterations_left = 1},
                                     {.gpus = 2, .speeds = {1, 0}, .iterations_left = 3},
                                     {.gpus = 4, .speeds = {0, 0}, .iterations_left = 3}};
  expect_near(makespan_fractions(std::vector<double>{3, 1}, jobs),
              {{1. / 3, 0}, {1. / 3, 0}, {1, 0}, {0, 0}});
}

/// Returns the job's speed with its fractions: iterations per second.
double speed_of(const TimeDemand& job, const std::vector<double>& fractions) {
  return std::inner_product(fractions.begin(), fractions.end(), job.speeds.begin(), 0.0);
}

/// Returns the greatest factor such that each job's speed is at least that times its goal, by a
/// program with a variable for each job and kind.
double greatest_factor(const std::vector<double>& gpus, const std::vector<TimeDemand>& jobs,
                       const std::vector<double>& goals) {
  LinearProgram program;
  const std::size_t factor = program.add_variable(1);
  std::vector<std::vector<LinearProgram::Term>> used(gpus.size());
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    std::vector<LinearProgram::Term> speed{{.variable = factor, .factor = -goals[job]}};
    std::vector<LinearProgram::Term> time;
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      const std::size_t added = program.add_variable(0);
      speed.push_back({.variable = added, .factor = jobs[job].speeds[kind]});
      time.push_back({.variable = added, .factor = 1});
      used[kind].push_back({.variable = added, .factor = static_cast<double>(jobs[job].gpus)});
    }
    program.add_row(std::move(speed), 0, kNoLimit);
    program.add_row(std::move(time), 0, 1);
  }
  for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
    program.add_row(std::move(used[kind]), 0, gpus[kind]);
  }
  const auto values = program.solve();
  return values ? (*values)[factor] : 0;
}

/// Checks that the fractions fit, and that the jobs' speeds reach their goals as well as possible.
void expect_best(const std::vector<double>& gpus, const std::vector<TimeDemand>& jobs,
                 const std::vector<double>& goals, const TimeFractions& fractions) {
  double least = kNoLimit;
  std::vector<double> used(gpus.size());
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    least = std::min(least, speed_of(jobs[job], fractions[job]) / goals[job]);
    EXPECT_LE(std::reduce(fractions[job].begin(), fractions[job].end()), 1 + 1e-6);
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      EXPECT_GE(fractions[job][kind], 0);
      used[kind] += fractions[job][kind] * jobs[job].gpus;
    }
  }
  for (std::size_t kind = 0; kind < gpus.size(); ++kind) EXPECT_LE(used[kind], gpus[kind] + 1e-6);
  EXPECT_NEAR(least / greatest_factor(gpus, jobs, goals), 1, 1e-6);
}

TEST(TimeFractionsTest, GroupsOfEqualJobsDoNotChangeTheOptimumOf2000Instances) {
  RandomDraws draw(4);
  const auto number = [&](std::uint64_t most) { return static_cast<double>(1 + draw(most)); };
  for (int instance = 0; instance < instances(2000); ++instance) {
    const std::vector<double> gpus{2 + number(2), 2 + number(6)};
    const double all = gpus[0] + gpus[1];
    const std::vector<std::vector<double>> models{{number(9), 1}, {number(3), 2}, {0, number(4)}};
    std::vector<TimeDemand> jobs;
    std::vector<double> speeds;  // With the average GPU, for each of a job's.
    std::vector<double> work;
    for (std::size_t i = 1 + draw(12); i > 0; --i) {
      jobs.push_back({.gpus = static_cast<std::uint32_t>(number(2)),
                      .speeds = models[draw(3)],
                      .iterations_left = number(100)});
      const TimeDemand& job = jobs.back();
      speeds.push_back((job.speeds[0] * gpus[0] + job.speeds[1] * gpus[1]) / all / job.gpus);
      work.push_back(job.iterations_left);
    }
    expect_best(gpus, jobs, speeds, max_min_fractions(gpus, jobs));
    expect_best(gpus, jobs, work, makespan_fractions(gpus, jobs));
  }
}

TEST(FifoFractionsTest, JobsHaveTheirFastestKindAndNobodyOvertakes) {
  const std::vector<TimeDemand> jobs{{.gpus = 1, .speeds = {1, 3}},
                                     {.gpus = 2, .speeds = {1, 9}},
                                     {.gpus = 1, .speeds = {0, 1}},
                                     {.gpus = 2, .speeds = {1, 1}},
                                     {.gpus = 1, .speeds = {1, 1}}};
  expect_near(fifo_fractions(std::vector<double>{3, 2}, jobs),
              {{0, 1}, {1, 0}, {0, 1}, {0, 0}, {0, 0}});
}

}  // namespace
}  // namespace gpemu::scheduling
