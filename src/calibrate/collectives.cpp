// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/collectives.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "gpemu/calibrate/coverage.hpp"
#include "gpemu/calibrate/fit.hpp"

namespace gpemu::calibrate {
namespace {

using topology::Share;

/// For kinds of link that hardly anybody has measured.
constexpr double kGuessedBar = 1;

constexpr std::size_t kOneLauncher = topology::kShares;  ///< microseconds per GPU.
constexpr std::size_t kPython = topology::kShares + 1;   ///< microseconds.

/// `spread` is the standard deviation of the logarithm.
constexpr profile::Parameter expected(std::string_view name, double typical, double spread) {
  constexpr double kMost = 50;
  return {.name = name,
          .typical = typical,
          .shared_spread = spread,
          .own_spread = 1e-6,
          .least = typical / kMost,
          .most = typical * kMost};
}

using Parameters = std::array<profile::Parameter, kCollectiveParameters>;

/// What is expected without any data: NCCL's own constants, a fifth below the links' rates, and
/// launches of some microseconds.
constexpr Parameters kExpected = {
    expected("ring rate", 0.8, 0.3),   expected("Volta ring rate", 0.8, 0.3),
    expected("nvls rate", 1.25, 0.3),  expected("network rate", 0.93, 0.12),
    expected("small group", 0.3, 0.6), expected("LL rate", 1, 0.3),
    expected("LL128 rate", 1, 0.3),    expected("base", 0.8, 0.3),
    expected("LL hops", 1.8, 0.5),     expected("LL128 hops", 1.1, 0.5),
    expected("Simple hops", 0.9, 0.5), expected("nvls latency", 1, 0.5),
    expected("ramp", 0.6, 0.6),        expected("nvls ramp", 0.5, 0.6),
    expected("launch us", 2, 0.7),     expected("one launcher us", 4, 0.4),
    expected("Python us", 15, 0.5),
};

/// Messages of transports that pass through the host's memory take some three times as long.
constexpr Parameters expected_of_sockets() {
  Parameters parameters = kExpected;
  parameters[static_cast<std::size_t>(Share::kLlHops)].typical = 4;
  parameters[static_cast<std::size_t>(Share::kLl128Hops)].typical = 3.5;
  parameters[static_cast<std::size_t>(Share::kSimpleHops)].typical = 2.5;
  return parameters;
}
constexpr Parameters kExpectedOfSockets = expected_of_sockets();

/// Staging passes each byte through the host's memory twice.
constexpr Parameters expected_of_staging() {
  Parameters parameters = kExpected;
  parameters[static_cast<std::size_t>(Share::kRing)].typical = 0.5;
  return parameters;
}
constexpr Parameters kExpectedOfStaging = expected_of_staging();

template <typename Enum, std::size_t kCount>
std::optional<Enum> find_name(const std::array<std::string_view, kCount>& names,
                              std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

/// Returns the algorithm and protocol that are priced: the fastest of the algorithm that NCCL used,
/// if that is known.
topology::Choice choice_of(const CollectiveRow& row) {
  const auto all = topology::choices(row.fabric, row.collective, row.bytes);
  const topology::Choice* best = nullptr;
  for (const topology::Choice& choice : all) {
    if (row.algorithm && choice.algorithm != *row.algorithm) continue;
    if (best == nullptr || choice.expected_s < best->expected_s) best = &choice;
  }
  return best != nullptr ? *best : topology::choose(row.fabric, row.collective, row.bytes);
}

double predicted(const CollectiveRow& row, const topology::Choice& choice,
                 std::span<const double> parameters) {
  constexpr double kMicrosecond = 1e-6;
  topology::Shares shares{};
  std::copy_n(parameters.begin(), shares.size(), shares.begin());
  const double time = topology::seconds(row.fabric, row.collective, row.bytes, choice, shares);
  if (row.python) return time + parameters[kPython] * kMicrosecond;
  if (!row.one_launcher) return time;
  // The last GPU's launch is what the others wait for.
  const double launches = parameters[kOneLauncher] * kMicrosecond * row.fabric.ranks;
  return std::max(time,
                  launches + parameters[static_cast<std::size_t>(Share::kLaunch)] * kMicrosecond);
}

/// The rows of a kind of link without those of a machine.
class LinkRows final : public Measurements {
 public:
  LinkRows(const CollectiveRows& all, topology::LinkClass link,
           std::optional<std::size_t> left_out) {
    for (const CollectiveRow& row : all.rows) {
      if (row.fabric.slowest() != link || row.machine == left_out) continue;
      rows_.push_back(&row);
      choices_.push_back(choice_of(row));
    }
  }

  [[nodiscard]] int count() const override { return static_cast<int>(rows_.size()); }

  void compare(std::span<const double> logarithms, std::span<double> residuals,
               std::span<double> derivatives) const override {
    constexpr double kStep = 1e-4;
    std::vector<double> values;
    for (const double logarithm : logarithms) values.push_back(std::exp(logarithm));
    const auto residual = [&](std::size_t i) {
      return rows_[i]->weight *
             std::log(predicted(*rows_[i], choices_[i], values) / rows_[i]->seconds);
    };
    for (std::size_t i = 0; i < rows_.size(); ++i) residuals[i] = residual(i);
    if (derivatives.empty()) return;
    for (std::size_t j = 0; j < values.size(); ++j) {
      const double value = std::exchange(values[j], values[j] * std::exp(kStep));
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        derivatives[i * values.size() + j] = (residual(i) - residuals[i]) / kStep;
      }
      values[j] = value;
    }
  }

 private:
  std::vector<const CollectiveRow*> rows_;
  std::vector<topology::Choice> choices_;
};

}  // namespace

std::span<const profile::Parameter> collective_parameters(topology::LinkClass link) {
  if (link == topology::LinkClass::kSocket) return kExpectedOfSockets;
  if (link == topology::LinkClass::kPcieStaged) return kExpectedOfStaging;
  return kExpected;
}

Result<CollectiveRows> collective_rows(const profile::CollectiveTables& tables) {
  CollectiveRows result;
  std::vector<std::pair<std::size_t, topology::Fabric>> groups;
  for (const profile::MeasuredGroup& group : tables.groups) {
    const auto generation =
        find_name<topology::Generation>(topology::kGenerationNames, group.generation);
    const auto inside = find_name<topology::LinkClass>(topology::kLinkClassNames, group.inside);
    const auto between =
        group.nodes == 1 ? topology::LinkClass::kRdma
                         : find_name<topology::LinkClass>(topology::kLinkClassNames, group.between);
    if (!generation || !inside || !between) {
      return fail(ErrorCode::kCorruptData, "machines.csv: {}: '{}', '{}' or '{}' means nothing",
                  group.machine, group.generation, group.inside, group.between);
    }
    auto name = std::ranges::find(result.machines, group.machine);
    if (name == result.machines.end()) {
      name = result.machines.insert(result.machines.end(), group.machine);
    }
    groups.emplace_back(name - result.machines.begin(),
                        topology::Fabric{.ranks = group.ranks,
                                         .nodes = group.nodes,
                                         .generation = *generation,
                                         .inside = *inside,
                                         .switched = group.switched,
                                         .line_rate = group.line_rate,
                                         .searched_rate = group.searched_rate,
                                         .channels = group.channels,
                                         .between = *between,
                                         .network_rate = group.network_rate});
  }
  std::map<std::pair<std::size_t, int>, int> counts;
  for (const profile::MeasuredCollective& time : tables.times) {
    const auto collective =
        find_name<topology::Collective>(topology::kCollectiveNames, time.collective);
    if (!collective) {
      return fail(ErrorCode::kCorruptData, "times.csv: '{}' is no collective", time.collective);
    }
    const auto& [machine, fabric] = groups[time.group];
    ++counts[{machine, fabric.ranks}];
    result.rows.push_back(
        {.machine = machine,
         .fabric = fabric,
         .collective = *collective,
         .bytes = time.bytes,
         .seconds = time.seconds,
         .algorithm = find_name<topology::Algorithm>(topology::kAlgorithmNames, time.algorithm),
         .forced = time.forced,
         .one_launcher = time.launcher == "one",
         .python = time.launcher == "torch"});
  }
  for (CollectiveRow& row : result.rows) {
    row.weight = 1 / std::sqrt(counts[{row.machine, row.fabric.ranks}]);
  }
  return result;
}

Result<std::array<double, kCollectiveParameters>> fit_collectives(
    const CollectiveRows& rows, topology::LinkClass link, std::optional<std::size_t> left_out) {
  const LinkRows chosen(rows, link, left_out);
  const std::span<const profile::Parameter> parameters = collective_parameters(link);
  std::array<double, kCollectiveParameters> values{};
  if (chosen.count() == 0) {
    std::ranges::transform(parameters, values.begin(), &profile::Parameter::typical);
    return values;
  }
  // Rows are weighted, so a machine counts as one row: its noise is that of a machine.
  const std::array<const Measurements*, 1> all = {&chosen};
  GPEMU_ASSIGN(const Fit fitted, fit(parameters, all, {.noise = 0.5, .outlier = 0.2, .rounds = 1}));
  std::ranges::transform(fitted.own.front(), values.begin(),
                         [](double logarithm) { return std::exp(logarithm); });
  return values;
}

Result<std::vector<PredictedCollective>> evaluate_collectives(const CollectiveRows& rows,
                                                              topology::LinkClass link) {
  std::vector<PredictedCollective> all;
  for (std::size_t machine = 0; machine < rows.machines.size(); ++machine) {
    const auto concerned = [&](const CollectiveRow& row) {
      return row.machine == machine && row.fabric.slowest() == link;
    };
    if (std::ranges::none_of(rows.rows, concerned)) continue;
    GPEMU_ASSIGN(const auto parameters, fit_collectives(rows, link, machine));
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
      const CollectiveRow& row = rows.rows[i];
      if (!concerned(row)) continue;
      const topology::Choice choice = choice_of(row);
      all.push_back({i, predicted(row, choice, parameters),
                     topology::choose(row.fabric, row.collective, row.bytes)});
    }
  }
  return all;
}

std::array<double, 3> collective_bars(const CollectiveRows& rows,
                                      std::span<const PredictedCollective> predicted) {
  std::array<std::vector<double>, 3> misses;
  std::vector<double> every;
  for (const PredictedCollective& one : predicted) {
    const CollectiveRow& row = rows.rows[one.row];
    const double miss = std::exp(std::abs(std::log(one.seconds / row.seconds))) - 1;
    misses[topology::size_class(row.bytes)].push_back(miss);
    every.push_back(miss);
  }
  std::array<double, 3> bars{};
  for (std::size_t i = 0; i < bars.size(); ++i) {
    bars[i] = bar_of(misses[i]);
    if (!std::isfinite(bars[i])) bars[i] = bar_of(every);
    if (!std::isfinite(bars[i])) bars[i] = kGuessedBar;
  }
  return bars;
}

}  // namespace gpemu::calibrate
