// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/shared_speed.hpp"

#include <chrono>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::cost {
namespace {

using std::chrono::milliseconds;

/// A job that needs the GPU for a share of its time.
GpuLoad needs(double share) {
  return {.busy = std::sqrt(share)};
}

/// Returns the speeds of jobs that take equal turns, by the product form of a closed network with
/// one processor-sharing station of capacity `shared` for two jobs or more (Baskett et al., "Open,
/// Closed, and Mixed Networks of Queues", 1975): an independent way to the same figures.
double normalization(const std::vector<double>& needs, double shared) {
  double sum = 0;
  for (unsigned set = 0; set < 1U << needs.size(); ++set) {
    double weight = 1;
    int present = 0;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      const bool on_gpu = ((set >> i) & 1U) != 0;
      weight *= on_gpu ? needs[i] : 1 - needs[i];
      if (on_gpu) weight *= ++present > 1 ? present / shared : 1;
    }
    sum += weight;
  }
  return sum;
}
std::vector<double> by_product_form(const std::vector<double>& needs, double shared) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    std::vector<double> others = needs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    speeds.push_back(normalization(others, shared) / normalization(needs, shared));
  }
  return speeds;
}

TEST(SharedSpeed, OfTwoIsOneOverOnePlusTheProductOfTheirNeeds) {
  const std::vector<double> speeds = shared_speeds(std::vector{needs(0.8), needs(0.5)}, {});
  EXPECT_NEAR(speeds[0], 1 / 1.4, 1e-12);
  EXPECT_NEAR(speeds[1], 1 / 1.4, 1e-12);
  // Switches lose a tenth of the time in which both have work: 1 + (2 / 0.9 - 1) x 0.4.
  const SharedGpu gpu{.switch_share = 0.1};
  EXPECT_NEAR(shared_speeds(std::vector{needs(0.8), needs(0.5)}, gpu)[0],
              1 / (1 + (2 / 0.9 - 1) * 0.4), 1e-12);
}

TEST(SharedSpeed, OfManyIsThatOfTheProductForm) {
  const std::vector<double> all = {0.9, 0.1, 0.5, 0.999, 0.3, 0.7, 0.2, 0.6};
  std::vector<GpuLoad> loads;
  for (const double need : all) loads.push_back(needs(need));
  const std::vector<double> speeds = shared_speeds(loads, {.switch_share = 0.07});
  const std::vector<double> expected = by_product_form(all, 0.93);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(speeds[i], expected[i], 1e-9) << i;
}

TEST(SharedSpeed, AtTheEndsOfTheScale) {
  EXPECT_EQ(shared_speeds(std::vector{needs(0.4)}, {}), std::vector<double>{1});
  const std::vector<double> mixed =
      shared_speeds(std::vector{needs(1), needs(1), needs(0), needs(1)}, {});
  EXPECT_NEAR(mixed[0], 1.0 / 3, 1e-12);
  EXPECT_EQ(mixed[2], 1) << "it does not use the GPU";
  EXPECT_NEAR(mixed[3], 1.0 / 3, 1e-12);
  const std::vector<double> beside = shared_speeds(std::vector{needs(1), needs(0.5)}, {});
  EXPECT_NEAR(beside[0], 1 / 1.5, 1e-12);
  EXPECT_NEAR(beside[1], 1 / 1.5, 1e-12);
}

TEST(SharedSpeed, BeforePascalLongKernelsKeepMore) {
  GpuLoad small = needs(1), large = needs(1);
  small.kernel = milliseconds(1);
  large.kernel = milliseconds(4);
  SharedGpu gpu{.time_slice = milliseconds(2)};
  EXPECT_NEAR(shared_speeds(std::vector{small, large}, gpu)[0], 0.5, 1e-12);
  gpu.interrupts_kernels = false;
  const std::vector<double> speeds = shared_speeds(std::vector{small, large}, gpu);
  EXPECT_NEAR(speeds[0], 2.5 / 6.5, 1e-12);
  EXPECT_NEAR(speeds[1], 4 / 6.5, 1e-12);
}

TEST(SharedSpeed, SideBySideTheScarcerResourceDecides) {
  const SharedGpu mps{.side_by_side = true};
  const auto speed = [&](double width, double memory) {
    GpuLoad load = needs(1);
    load.width = width;
    load.memory = memory;
    return shared_speeds(std::vector{load, load}, mps)[0];
  };
  EXPECT_NEAR(speed(0.5, 0), 1, 1e-12) << "both fit";
  EXPECT_NEAR(speed(1, 0), 0.5, 1e-12) << "half of the multiprocessors each";
  EXPECT_NEAR(speed(0.75, 0), 1 / 1.5, 1e-12);
  EXPECT_NEAR(speed(0.5, 1), 0.5, 1e-12) << "half of the memory's rate each";
  EXPECT_NEAR(speed(0.5, 0.6), 1 / 1.36, 1e-12);
}

TEST(SharedSpeed, TheNeedLiesBetweenItsBounds) {
  EXPECT_DOUBLE_EQ(gpu_need({.busy = 0.9, .working = 0.4}), (0.81 + 0.6) / 2);
  EXPECT_DOUBLE_EQ(gpu_need({.busy = 0.5}), 0.25) << "its square";
  EXPECT_DOUBLE_EQ(gpu_need({.busy = 1}), 1);
  EXPECT_DOUBLE_EQ(gpu_need({.busy = 0.5, .working = 0.7}), gpu_need({.busy = 0.5, .working = 0.5}))
      << "no more than busy";
  EXPECT_DOUBLE_EQ(gpu_need({.busy = 1, .working = 0}), 0.5);
  EXPECT_DOUBLE_EQ(gpu_need({.busy = 1.5, .working = 2}), 1);
}

TEST(SharedSpeed, EachFurtherJobAddsTheBarOfAPair) {
  const std::vector<GpuLoad> jobs = {needs(0.5), needs(0.5), needs(0.5)};
  const auto two = estimate_shared_speeds(std::span(jobs).first(2), {});
  EXPECT_DOUBLE_EQ(two[0].relative_error, kTimeSlicesBar);
  EXPECT_EQ(two[0].evidence, Evidence::kAnalytic);
  const auto three = estimate_shared_speeds(jobs, {.side_by_side = true});
  EXPECT_NEAR(1 + three[0].relative_error, std::pow(1 + kSideBySideBar, 2), 1e-12);
  EXPECT_EQ(estimate_shared_speeds(std::span(jobs).first(1), {})[0].relative_error, 0);
}

}  // namespace
}  // namespace gpemu::cost
