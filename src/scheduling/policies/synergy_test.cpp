// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

/// A job that is as fast as stated with 3 cores for each GPU, and otherwise by rising cores.
Job job_with(double work_s, std::vector<std::pair<std::uint64_t, double>> speeds,
             double arrival_s = 0) {
  SpeedProfile profile;
  for (const auto& [cores, speed] : speeds) {
    profile.by_host.push_back({.per_gpu = {cores * 1000, 0}, .speed = speed});
  }
  Job job = job_of(arrival_s, 1, work_s);
  job.speed = std::make_shared<SpeedProfile>(std::move(profile));
  return job;
}

Job image_job(double work_s, double arrival_s = 0) {
  return job_with(work_s, {{1, 0.4}, {3, 1}, {5, 2}}, arrival_s);
}

Job language_job(double work_s, double arrival_s = 0) {
  return job_with(work_s, {{1, 1}}, arrival_s);
}

std::vector<double> ends_with(std::string_view policy, std::uint32_t gpus,
                              const std::vector<Job>& jobs) {
  const Fleet fleet =
      Fleet::create({{.name = "s", .gpus = gpus, .host = {3000 * gpus, kUnlimited}}}).value();
  const auto made = find_policy(policy).value()->make({});
  return ends_of(simulate(fleet, jobs, *made).value());
}

TEST(SynergyTest, AJobGetsCoresThatOthersDoNotNeed) {
  // Six cores: the language job needs one, and five are left.
  const std::vector<Job> jobs{image_job(100), language_job(100)};
  EXPECT_EQ(ends_with("srtf-synergy", 2, jobs), (std::vector<double>{50, 100}));
  EXPECT_EQ(ends_with("srtf-proportional", 2, jobs), (std::vector<double>{100, 100}));
}

TEST(SynergyTest, NobodyGetsLessThanItsShareForOthers) {
  // The first has five of nine cores, the second its three; the third needs three, so that the
  // first goes back to its share. At 80, five are free for it again: 20 s of work take 10.
  EXPECT_EQ(ends_with("las-synergy", 3, {image_job(100), image_job(80), image_job(80)}),
            (std::vector<double>{90, 80, 80}));
}

TEST(SynergyTest, JobsThatCannotRunWithTheirCoresAreNamed) {
  const Fleet fleet = Fleet::create({{.name = "s", .gpus = 4, .host = {2000, kUnlimited}}}).value();
  const std::vector<Job> jobs{job_with(10, {{1, 1}})};
  for (const auto& [policy, message] :
       {std::pair("las-synergy", "0.5 cores"), {"fifo", "0 cores"}}) {
    const auto can = check_policy(*find_policy(policy).value(), fleet, jobs);
    ASSERT_FALSE(can);
    EXPECT_NE(can.error().message.find(message), std::string::npos) << can.error().message;
  }
}

TEST(SynergyTest, JobsTakeTurnsInRounds) {
  // 300: the second has had nothing. 600: the first has 300 s left and the second has had 300.
  EXPECT_EQ(ends_with("las-synergy", 1, {language_job(600), language_job(300, 100)}),
            (std::vector<double>{900, 600}));
  EXPECT_EQ(ends_with("srtf-synergy", 1, {language_job(900), language_job(300, 100)}),
            (std::vector<double>{1200, 600}));
}

}  // namespace
}  // namespace gpemu::scheduling
