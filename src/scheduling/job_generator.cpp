// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_generator.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::scheduling {
namespace {

constexpr std::size_t kMostJobs = 100'000'000;
constexpr double kSecondsPerHour = 3600;
constexpr double kSecondsPerDay = 24 * kSecondsPerHour;
constexpr double kMostDuration = 1e12;

/// What is drawn has streams of its own, so that an option of one does not change the others.
enum class Stream : std::uint8_t { kArrivals, kGpus, kModels, kDurations };

double rounded(double seconds) {
  return std::round(seconds * 1000) / 1000;
}

/// Draws from the exponential distribution with mean 1.
double exponential(sim::Rng& rng) {
  return -std::log1p(-rng.uniform());
}

/// Draws from the normal distribution with mean 0 and standard deviation 1.
/// Source: Box, Muller, "A note on the generation of random normal deviates", 1958.
double normal(sim::Rng& rng) {
  const double radius = std::sqrt(2 * exponential(rng));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

/// Draws when the next job arrives, and how many with it.
class Arrivals {
 public:
  explicit Arrivals(const JobGeneratorOptions& options)
      : options_(options), rng_(options.seed, Stream::kArrivals) {}

  double next() {
    if (left_in_burst_ > 0) {
      --left_in_burst_;
      return now_s_;
    }
    const double gap_s = kSecondsPerHour / options_.jobs_per_hour;
    switch (options_.arrivals) {
      case ArrivalPattern::kPoisson:
        now_s_ += gap_s * exponential(rng_);
        break;
      case ArrivalPattern::kBursts:
        now_s_ += gap_s * options_.burst_jobs * exponential(rng_);
        left_in_burst_ = more_in_burst();
        break;
      case ArrivalPattern::kDiurnal:
        // Thinning. Source: Lewis, Shedler, "Simulation of nonhomogeneous Poisson processes by
        // thinning", 1979.
        do {
          now_s_ += gap_s / (1 + options_.swing) * exponential(rng_);
        } while (rng_.uniform() * (1 + options_.swing) > rate_at(now_s_));
        break;
    }
    return now_s_;
  }

 private:
  /// Returns how often jobs arrive, relative to the average.
  [[nodiscard]] double rate_at(double time_s) const {
    return 1 - options_.swing * std::cos(2 * std::numbers::pi * time_s / kSecondsPerDay);
  }
  /// Draws how many jobs follow the first one of a burst.
  double more_in_burst() {
    if (options_.burst_jobs <= 1) return 0;
    return std::floor(exponential(rng_) / -std::log1p(-1 / options_.burst_jobs));
  }

  const JobGeneratorOptions& options_;
  sim::Rng rng_;
  double now_s_ = 0;
  double left_in_burst_ = 0;
};

template <typename Value>
const Value& draw(const Weights<Value>& weights, sim::Rng& rng) {
  double sum = 0;
  for (const auto& [value, weight] : weights) sum += weight;
  double rest = rng.uniform() * sum;
  for (const auto& [value, weight] : weights) {
    if (rest < weight) return value;
    rest -= weight;
  }
  return weights.back().first;
}

std::unexpected<Error> wrong(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "{}", what);
}

template <typename Value>
bool are_weights(const Weights<Value>& weights) {
  return std::ranges::all_of(
      weights, [](const auto& each) { return each.second > 0 && std::isfinite(each.second); });
}

Result<void> check(const JobGeneratorOptions& options) {
  if (options.jobs == 0 || options.jobs > kMostJobs) {
    return fail(ErrorCode::kInvalidArgument, "{} jobs; there may be 1 to {}", options.jobs,
                kMostJobs);
  }
  if (!(options.jobs_per_hour >= 1e-6 && options.jobs_per_hour <= 1e9)) {
    return wrong("the jobs of an hour are a number from 1e-6 to 1e9");
  }
  if (!(options.swing >= 0 && options.swing <= 1)) return wrong("a swing is from 0 to 1");
  if (!(options.burst_jobs >= 1 && options.burst_jobs <= 1e6)) {
    return wrong("a burst has 1 to 1e6 jobs on average");
  }
  if (!(options.median_s >= 0.001 && options.median_s <= kMostDuration)) {
    return wrong("the median of durations is from 0.001 to 1e12 s");
  }
  if (!(options.sigma >= 0 && options.sigma <= 10)) return wrong("a sigma is from 0 to 10");
  if (options.gpus.empty() || !are_weights(options.gpus) || !are_weights(options.models)) {
    return wrong("weights are numbers above 0");
  }
  const auto is_number = [](const auto& each) {
    return each.first >= 1 && each.first <= kMaxGpusOfFleet;
  };
  if (std::ranges::all_of(options.gpus, is_number)) return {};
  return fail(ErrorCode::kInvalidArgument, "a job has 1 to {} GPUs", kMaxGpusOfFleet);
}

}  // namespace

Result<std::vector<Job>> generate_jobs(const JobGeneratorOptions& options) {
  GPEMU_TRY(check(options));
  Arrivals arrivals(options);
  sim::Rng gpus(options.seed, Stream::kGpus);
  sim::Rng models(options.seed, Stream::kModels);
  sim::Rng durations(options.seed, Stream::kDurations);
  const double first_s = arrivals.next();
  std::vector<Job> jobs(options.jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    job.id = fmt::format("{}", i);
    job.arrival_s = i == 0 ? 0 : rounded(arrivals.next() - first_s);
    job.iteration_s = 1;
    if (!options.like.empty()) {
      const Job& like = options.like[durations.below(options.like.size())];
      job.demand = like.demand;
      job.model = like.model;
      job.iterations = like.work_s();
      continue;
    }
    job.demand.gpus = draw(options.gpus, gpus);
    if (!options.models.empty()) job.model = draw(options.models, models);
    const double duration_s = options.median_s * std::exp(options.sigma * normal(durations));
    job.iterations = std::clamp(rounded(duration_s), 0.001, kMostDuration);
  }
  return jobs;
}

}  // namespace gpemu::scheduling
