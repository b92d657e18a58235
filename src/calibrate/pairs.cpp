// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/calibrate/coverage.hpp"

namespace gpemu::calibrate {
namespace {

/// How strongly terms are drawn towards 0: the variance of a speed's logarithm over that of a term.
/// Chosen by thirds of the pairs that were left out, in round numbers; half or twice of each
/// changes the mean error by less than 0.3 points.
constexpr double kJobRidge = 0.3;
constexpr double kModelsRidge = 2;

/// The seed of the thirds by which bars are stated.
constexpr std::uint64_t kBarSeed = 1;

/// Returns bar_of(), or a guess if there are too few misses.
double stated_bar_of(std::vector<double> misses) {
  constexpr double kGuessedBar = 1;
  const double bar = bar_of(std::move(misses));
  return std::isfinite(bar) ? bar : kGuessedBar;
}

/// Returns a job as `gpemu cost pairs` takes it.
std::string name_of(const PairedJob& job) {
  std::string name = job.model;
  if (job.batch > 0) name += fmt::format(":{}", job.batch);
  return job.precision == "fp32" ? name : fmt::format("{} ({})", name, job.precision);
}

bool same_job(const PairedJob& one, const PairedJob& other) {
  return one.model == other.model && one.batch == other.batch && one.precision == other.precision;
}

std::string own_term(const PairedJob& job) {
  return "own " + name_of(job);
}
std::string beside_term(const PairedJob& beside) {
  return "beside " + name_of(beside);
}
std::string models_term(const PairedJob& job, const PairedJob& beside) {
  return fmt::format("{} beside {}", job.model, beside.model);
}

/// A symmetric, positive definite system of linear equations.
class Equations {
 public:
  explicit Equations(std::size_t size) : size_(size), matrix_(size * size, 0), right_(size, 0) {}

  double& at(std::size_t row, std::size_t column) { return matrix_[row * size_ + column]; }
  double& right(std::size_t row) { return right_[row]; }

  /// Returns the solution, by Cholesky's decomposition.
  std::vector<double> solve() && {
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = at(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
        at(i, j) = i == j ? std::sqrt(sum) : sum / at(j, j);
      }
    }
    std::vector<double> solution = std::move(right_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t k = 0; k < i; ++k) solution[i] -= at(i, k) * solution[k];
      solution[i] /= at(i, i);
    }
    for (std::size_t i = size_; i-- > 0;) {
      for (std::size_t k = i + 1; k < size_; ++k) solution[i] -= at(k, i) * solution[k];
      solution[i] /= at(i, i);
    }
    return solution;
  }

 private:
  std::size_t size_;
  std::vector<double> matrix_, right_;
};

/// The groups in which a GPU's pairs are left out: one number for each pair of the table, -1 for
/// those of other GPUs.
std::vector<int> groups_of(std::span<const MeasuredPair> pairs, std::string_view gpu,
                           PairsOut protocol, std::uint64_t seed) {
  std::vector<int> groups(pairs.size(), -1);
  if (protocol == PairsOut::kModels) {
    std::map<std::pair<std::string, std::string>, int> known;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].gpu != gpu) continue;
      const auto models = std::minmax(pairs[i].jobs[0].model, pairs[i].jobs[1].model);
      groups[i] = known.try_emplace(models, static_cast<int>(known.size())).first->second;
    }
    return groups;
  }
  constexpr int kThirds = 3;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].gpu == gpu) order.push_back(i);
  }
  std::mt19937_64 random(seed);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random() % left]);
  }
  for (std::size_t i = 0; i < order.size(); ++i) groups[order[i]] = static_cast<int>(i % kThirds);
  return groups;
}

std::set<std::string> gpus_of(std::span<const MeasuredPair> pairs) {
  std::set<std::string> gpus;
  for (const MeasuredPair& pair : pairs) gpus.insert(pair.gpu);
  return gpus;
}

/// Returns the jobs of a pair whose speeds say something of their own: two equal jobs have one.
std::size_t speeds_of(const MeasuredPair& pair) {
  return same_job(pair.jobs[0], pair.jobs[1]) ? 1 : 2;
}

}  // namespace

JobFactors::JobFactors(std::span<const MeasuredPair> pairs, std::string_view gpu,
                       const std::vector<bool>& is_used) {
  struct Row {
    std::array<std::size_t, 4> terms;
    double logarithm;
  };
  std::vector<Row> rows;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const MeasuredPair& pair = pairs[i];
    if (pair.gpu != gpu || !is_used[i]) continue;
    for (std::size_t side = 0; side < speeds_of(pair); ++side) {
      const PairedJob& job = pair.jobs.at(side);
      const PairedJob& beside = pair.jobs.at(1 - side);
      rows.push_back({{column("constant"), column(own_term(job)), column(beside_term(beside)),
                       column(models_term(job, beside))},
                      std::log(pair.speeds.at(side))});
    }
  }
  if (rows.empty()) return;
  Equations equations(columns_.size());
  for (const Row& row : rows) {
    for (const std::size_t one : row.terms) {
      equations.right(one) += row.logarithm;
      for (const std::size_t other : row.terms) equations.at(one, other) += 1;
    }
  }
  for (const auto& [term, index] : columns_) {
    if (term == "constant") continue;
    const bool of_job = term.starts_with("own ") || term.starts_with("beside ");
    equations.at(index, index) += of_job ? kJobRidge : kModelsRidge;
  }
  values_ = std::move(equations).solve();
}

std::size_t JobFactors::column(const std::string& term) {
  return columns_.try_emplace(term, columns_.size()).first->second;
}

std::optional<double> JobFactors::speed(const PairedJob& job, const PairedJob& beside) const {
  const auto own = columns_.find(own_term(job)), other = columns_.find(beside_term(beside));
  if (own == columns_.end() || other == columns_.end()) return std::nullopt;
  const auto models = columns_.find(models_term(job, beside));
  return std::exp(values_[columns_.at("constant")] + values_[own->second] + values_[other->second] +
                  (models == columns_.end() ? 0 : values_[models->second]));
}

bool JobFactors::knows(const PairedJob& job) const {
  return columns_.contains(own_term(job)) && columns_.contains(beside_term(job));
}

std::vector<std::string> JobFactors::jobs() const {
  const std::string prefix = "own ";
  std::vector<std::string> names;
  for (const auto& [term, index] : columns_) {
    if (term.starts_with(prefix)) names.push_back(term.substr(prefix.size()));
  }
  return names;
}

bool JobFactors::knows_models(const PairedJob& job, const PairedJob& beside) const {
  return columns_.contains(models_term(job, beside));
}

double PredictedSpeed::miss() const {
  return std::exp(std::abs(std::log(predicted / measured))) - 1;
}

std::vector<PredictedSpeed> evaluate_pairs(std::span<const MeasuredPair> pairs, PairsOut protocol,
                                           std::uint64_t seed) {
  std::vector<PredictedSpeed> all;
  for (const std::string& gpu : gpus_of(pairs)) {
    const std::vector<int> groups = groups_of(pairs, gpu, protocol, seed);
    const int count = *std::ranges::max_element(groups) + 1;
    std::vector<std::vector<double>> misses(static_cast<std::size_t>(count));
    const std::size_t first = all.size();
    for (int group = 0; group < count; ++group) {
      std::vector<bool> is_used;
      for (const int other : groups) is_used.push_back(other != group);
      const JobFactors factors(pairs, gpu, is_used);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (groups[i] != group) continue;
        for (std::size_t side = 0; side < speeds_of(pairs[i]); ++side) {
          const auto speed = factors.speed(pairs[i].jobs.at(side), pairs[i].jobs.at(1 - side));
          if (!speed) continue;
          PredictedSpeed& one = all.emplace_back();
          one = {.pair = i, .job = side, .measured = pairs[i].speeds.at(side), .predicted = *speed};
          misses[static_cast<std::size_t>(group)].push_back(one.miss());
        }
      }
    }
    std::vector<double> bars;
    for (int group = 0; group < count; ++group) {
      std::vector<double> others;
      for (int other = 0; other < count; ++other) {
        const std::vector<double>& more = misses[static_cast<std::size_t>(other)];
        if (other != group) others.insert(others.end(), more.begin(), more.end());
      }
      bars.push_back(stated_bar_of(std::move(others)));
    }
    for (std::size_t i = first; i < all.size(); ++i) {
      all[i].bar = bars[static_cast<std::size_t>(groups[all[i].pair])];
    }
  }
  return all;
}

double pairs_bar(std::span<const MeasuredPair> pairs, std::span<const PredictedSpeed> predicted,
                 std::span<const std::string_view> gpus) {
  std::vector<double> misses;
  for (const PredictedSpeed& one : predicted) {
    if (std::ranges::find(gpus, pairs[one.pair].gpu) != gpus.end()) misses.push_back(one.miss());
  }
  return stated_bar_of(std::move(misses));
}

std::optional<cost::GpuLoad> load_of(const PairedJob& job) {
  if (!job.utilization) return std::nullopt;
  return cost::GpuLoad{.busy = *job.utilization,
                       .working = job.memory_utilization,
                       .memory = job.memory_utilization.value_or(0)};
}

PairSpeeds::PairSpeeds(std::vector<MeasuredPair> pairs) : pairs_(std::move(pairs)) {
  const auto thirds = evaluate_pairs(pairs_, PairsOut::kThirds, kBarSeed);
  const auto models = evaluate_pairs(pairs_, PairsOut::kModels, kBarSeed);
  const std::vector<bool> everything(pairs_.size(), true);
  for (const std::string& name : gpus_of(pairs_)) {
    const std::array<std::string_view, 1> only = {name};
    Gpu gpu{.factors = JobFactors(pairs_, name, everything),
            .models_bar = pairs_bar(pairs_, thirds, only),
            .new_models_bar = pairs_bar(pairs_, models, only)};
    std::vector<double> misses;
    for (const MeasuredPair& pair : pairs_) {
      if (pair.gpu != name) continue;
      for (std::size_t side = 0; side < speeds_of(pair); ++side) {
        const PredictedSpeed fitted{
            .measured = pair.speeds.at(side),
            .predicted = gpu.factors.speed(pair.jobs.at(side), pair.jobs.at(1 - side)).value_or(1)};
        misses.push_back(fitted.miss());
      }
    }
    gpu.measured_bar = stated_bar_of(std::move(misses));
    gpus_.emplace(name, std::move(gpu));
  }
}

Result<cost::SpeedEstimate> PairSpeeds::speed(std::string_view gpu, const SharingJob& job,
                                              const SharingJob& beside,
                                              const cost::SharedGpu& sharing) const {
  const auto known = gpus_.find(std::string(gpu));
  if (known != gpus_.end()) {
    for (const MeasuredPair& pair : pairs_) {
      for (std::size_t side = 0; side < 2; ++side) {
        if (pair.gpu == gpu && same_job(pair.jobs.at(side), job.job) &&
            same_job(pair.jobs.at(1 - side), beside.job)) {
          return cost::SpeedEstimate{.speed = pair.speeds.at(side),
                                     .evidence = cost::Evidence::kMeasured,
                                     .relative_error = known->second.measured_bar};
        }
      }
    }
    const JobFactors& factors = known->second.factors;
    if (const auto speed = factors.speed(job.job, beside.job)) {
      return cost::SpeedEstimate{.speed = *speed,
                                 .evidence = cost::Evidence::kCalibrated,
                                 .relative_error = factors.knows_models(job.job, beside.job)
                                                       ? known->second.models_bar
                                                       : known->second.new_models_bar};
    }
  }
  if (job.load && beside.load) {
    const std::array<cost::GpuLoad, 2> loads = {*job.load, *beside.load};
    return cost::estimate_shared_speeds(loads, sharing).front();
  }
  if (known == gpus_.end()) {
    return fail(ErrorCode::kNotFound,
                "{} beside {}: no measured pair is on {}, but on {}, and their utilization is not "
                "known",
                name_of(job.job), name_of(beside.job), gpu, fmt::join(gpus_of(pairs_), ", "));
  }
  const bool knows_first = known->second.factors.knows(job.job);
  return fail(ErrorCode::kNotFound,
              "{} was not measured on {} beside another job, and its utilization is not known; "
              "jobs that were: {}",
              name_of((knows_first ? beside : job).job), gpu,
              fmt::join(known->second.factors.jobs(), ", "));
}

}  // namespace gpemu::calibrate
