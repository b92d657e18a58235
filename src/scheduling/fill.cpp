// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fill.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "gpemu/scheduling/fragmentation.hpp"

#include "go_random.hpp"

namespace gpemu::scheduling {
namespace {

/// The most arrivals that are drawn: a list of 512 MiB.
constexpr std::size_t kMostArrivals = std::size_t{1} << 27U;
/// Between the draws of the jobs and those of the servers, FGD's simulator starts this many
/// watchers of Kubernetes' objects, each of which draws a random delay. Found by comparison with
/// the published numbers, which are met with this number alone.
constexpr int kWatchers = 10;
constexpr std::size_t kArrivalsBetweenCalls = 256;

/// Returns the thousandths of GPUs that a job asks for.
std::int64_t shares_of(const Job& job) {
  return std::int64_t{job.demand.gpus} * job.demand.gpu_share;
}

/// Draws the jobs that arrive. `by_name`: all of them, by name.
Result<std::vector<JobIndex>> draw_jobs(std::span<const Job> jobs,
                                        const std::vector<JobIndex>& by_name, double wanted,
                                        GoRandom& random) {
  std::vector<JobIndex> drawn = by_name;
  random.shuffle(std::span(drawn));
  std::int64_t asked = 0;
  for (const Job& job : jobs) asked += shares_of(job);
  if (static_cast<double>(asked) >= wanted) {
    while (static_cast<double>(asked) > wanted) {
      const std::uint32_t leaves = random.below(static_cast<std::uint32_t>(drawn.size()));
      asked -= shares_of(jobs[drawn[leaves]]);
      drawn.erase(drawn.begin() + leaves);
    }
    return drawn;
  }
  // Not until they ask for just the load: then, jobs without GPUs still arrive.
  for (;;) {
    const JobIndex next = by_name[random.below(static_cast<std::uint32_t>(by_name.size()))];
    const Demand& demand = jobs[next].demand;
    // As there: what the job asks of one GPU decides whether it still arrives.
    const std::int64_t of_one = demand.gpus == 0 ? 0 : demand.gpu_share;
    if (static_cast<double>(asked + of_one) > wanted) return drawn;
    asked += shares_of(jobs[next]);
    drawn.push_back(next);
    if (drawn.size() > kMostArrivals) {
      return fail(ErrorCode::kResourceLimit,
                  "more than {} jobs would arrive until they ask for the load", kMostArrivals);
    }
  }
}

/// Means over arrivals, by per cent.
class Curve {
 public:
  void add(std::size_t percent, double value) {
    if (sums_.size() <= percent) sums_.resize(percent + 1);
    sums_[percent].sum += value;
    sums_[percent].count += 1;
  }
  [[nodiscard]] std::vector<double> means() const {
    std::vector<double> means(sums_.size());
    for (std::size_t i = 0; i < means.size(); ++i) {
      Sum sum = sums_[i];
      if (sum.count == 0 && i > 0) sum += sums_[i - 1];
      if (sums_[i].count == 0 && i + 1 < means.size()) sum += sums_[i + 1];
      means[i] = sum.count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum.sum / sum.count;
    }
    return means;
  }

 private:
  struct Sum {
    double sum = 0;
    double count = 0;
    void operator+=(const Sum& other) {
      sum += other.sum;
      count += other.count;
    }
  };
  std::vector<Sum> sums_;
};

/// A filling in progress. Thread safety: none.
class Filling {
 public:
  Filling(const Fleet& fleet, std::span<const TypicalDemand> typical)
      : fleet_(fleet), free_(fleet, Tracking::kServers), fragmentation_(typical) {
    for (std::uint32_t i = 0; i < fleet.servers().size(); ++i) {
      fragmented_.push_back(fragmentation_.of(room_on(free_, i)));
    }
  }

  void arrive(const Job& job, Placement& placement) {
    asked_ += shares_of(job);
    const std::optional<ServerGpus> chosen = placement.choose(free_, job.demand);
    if (chosen) take(job, *chosen);
    result_.left_out += chosen ? 0 : 1;
    ++result_.arrived;
    const auto gpus = static_cast<double>(fleet_.gpus());
    constexpr double kSharesInPercent = kWholeGpu / 100.0;
    // In this order, which decides about numbers between two per cents, as in FGD's analysis.
    const double percent = static_cast<double>(asked_) / gpus / kSharesInPercent;
    const auto place = static_cast<std::size_t>(std::nearbyint(percent));
    allocated_.add(place, static_cast<double>(taken_) / gpus / kSharesInPercent);
    const double fragmented = std::accumulate(fragmented_.begin(), fragmented_.end(), 0.0);
    curve_.add(place, fragmented / gpus / kSharesInPercent);
  }

  [[nodiscard]] FillResult result() const {
    FillResult result = result_;
    result.allocated_percent = allocated_.means();
    result.fragmented_percent = curve_.means();
    return result;
  }

 private:
  void take(const Job& job, const ServerGpus& chosen) {
    GpuSet gpus;
    gpus.add(chosen);
    GPEMU_CHECK(free_.take(gpus, job.demand), "a placement chose what is not free");
    taken_ += shares_of(job);
    fragmented_[chosen.server] = fragmentation_.of(room_on(free_, chosen.server));
  }

  const Fleet& fleet_;
  FreeResources free_;
  Fragmentation fragmentation_;
  std::vector<double> fragmented_;  ///< by server.
  std::int64_t asked_ = 0;          ///< thousandths of GPUs.
  std::int64_t taken_ = 0;
  Curve allocated_;
  Curve curve_;
  FillResult result_;
};

}  // namespace

Result<FillDraw> draw_fill(const Fleet& fleet, std::span<const Job> jobs,
                           const FillOptions& options) {
  if (!(options.load > 0) || !std::isfinite(options.load)) {
    return fail(ErrorCode::kInvalidArgument, "the load is {}; it must be above 0", options.load);
  }
  const bool any = std::ranges::any_of(jobs, [](const Job& job) { return shares_of(job) != 0; });
  if (!any) return fail(ErrorCode::kInvalidArgument, "no job asks for GPUs");
  std::vector<JobIndex> by_name(jobs.size());
  std::iota(by_name.begin(), by_name.end(), JobIndex{0});
  std::ranges::stable_sort(by_name, {},
                           [&](JobIndex job) -> const std::string& { return jobs[job].id; });
  GoRandom random(static_cast<std::int64_t>(options.seed));
  random.bits();  // It is logged there.
  const double wanted = options.load * static_cast<double>(fleet.gpus() * kWholeGpu);
  FillDraw draw;
  GPEMU_ASSIGN(draw.jobs, draw_jobs(jobs, by_name, wanted, random));
  if (draw.jobs.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the jobs that were drawn ask for more GPUs than the load of {}, each of them",
                options.load);
  }
  for (int i = 0; i < kWatchers; ++i) random.skip_float();
  std::vector<std::uint32_t> places(fleet.servers().size());
  random.permute(places);
  draw.servers.resize(places.size());
  for (std::uint32_t i = 0; i < places.size(); ++i) draw.servers[places[i]] = i;
  return draw;
}

Result<FillResult> fill(const Fleet& fleet, std::span<const Job> jobs,
                        const PlacementEntry& placement, const FillOptions& options) {
  GPEMU_ASSIGN(const FillDraw draw, draw_fill(fleet, jobs, options));
  const std::vector<TypicalDemand> typical = typical_demands(fleet, jobs);
  const Fleet ordered = fleet.in_order(draw.servers);
  const std::unique_ptr<Placement> made =
      placement.make({.typical = typical, .seed = options.seed});
  Filling filling(ordered, typical);
  for (std::size_t i = 0; i < draw.jobs.size(); ++i) {
    filling.arrive(jobs[draw.jobs[i]], *made);
    if (i % kArrivalsBetweenCalls != 0) continue;
    if (options.progress) options.progress(i, draw.jobs.size());
    if (options.stop != nullptr && *options.stop) {
      return fail(ErrorCode::kInterrupted, "stopped after {} of {} jobs", i, draw.jobs.size());
    }
  }
  return filling.result();
}

}  // namespace gpemu::scheduling
