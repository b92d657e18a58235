// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "gpemu/profile/import.hpp"

#include "curve_fit.hpp"
#include "pack_format.hpp"

namespace gpemu::profile {
namespace {

/// More faults of one kind in one comparison tell nothing new.
constexpr std::size_t kMaxFaults = 100;

double tolerance_of(Quantity quantity, const FitTolerances& tolerances) {
  switch (quantity) {
    case Quantity::kForward:
    case Quantity::kBackwardOptimizer:
      return tolerances.time;
    case Quantity::kInputCopyPageable:
      return tolerances.input_copy;
    case Quantity::kPeakMemory:
      return tolerances.peak_memory;
    case Quantity::kPersistentMemory:
      return tolerances.persistent_memory;
  }
  return 0;
}

std::string describe(const CurveKey& key) {
  return fmt::format("{}, {}, {}, {}", key.gpu, key.precision, key.model,
                     quantity_name(key.quantity));
}

std::string describe(const MemoryLimit& limit) {
  return limit.first_batch_out_of_memory ? fmt::format("{} and {}", limit.largest_batch_measured,
                                                       *limit.first_batch_out_of_memory)
                                         : fmt::format("{} and none", limit.largest_batch_measured);
}

class Comparison {
 public:
  Comparison(const Pack& pack, const MeasuredData& data) : pack_(pack), data_(data) {}

  PackComparison run() {
    std::map<CurveKey, const Curve*> curves;
    for (const Curve& curve : pack_.curves) curves.emplace(curve.key, &curve);
    for (const MeasuredCurve& measured : data_.curves) {
      const auto curve = curves.find(measured.key);
      if (curve == curves.end()) {
        fault(fmt::format("{}: measured, but not in the pack", describe(measured.key)));
        continue;
      }
      compare(*curve->second, measured);
      curves.erase(curve);
    }
    for (const auto& [key, curve] : curves) {
      fault(fmt::format("{}: in the pack, but not measured", describe(key)));
    }
    compare_limits();
    for (auto& [key, errors] : errors_) {
      result_.fidelity[key.first][static_cast<std::size_t>(key.second)] = summary(errors);
    }
    result_.times = summary(time_errors_);
    return std::move(result_);
  }

 private:
  void fault(std::string_view message) {
    if (result_.faults.size() < kMaxFaults) result_.faults.emplace_back(message);
  }

  static Fidelity summary(std::vector<double>& errors) {
    const FitError error = summarize_errors(errors);
    return {.rows = static_cast<int>(errors.size()),
            .mean_error = error.mean,
            .p95_error = error.p95,
            .max_error = error.max};
  }

  void compare(const Curve& curve, const MeasuredCurve& measured) {
    for (const CurvePoint& point : curve.points) {
      const auto row = std::ranges::lower_bound(measured.rows, point.batch, {}, &CurvePoint::batch);
      // Half of the last digit that a pack's tables have.
      if (row == measured.rows.end() || row->batch != point.batch ||
          std::abs(row->value - point.value) > 0.51e-4) {
        fault(fmt::format("{}: the point at batch {} is not a measured row", describe(curve.key),
                          point.batch));
      }
    }
    if (curve.measured_rows != static_cast<int>(measured.rows.size())) {
      fault(fmt::format("{}: stands for {} rows, but {} were measured", describe(curve.key),
                        curve.measured_rows, measured.rows.size()));
    }
    if (curve.points.front().batch > measured.rows.front().batch ||
        curve.points.back().batch < measured.rows.back().batch) {
      fault(fmt::format("{}: does not reach from batch {} to {}", describe(curve.key),
                        measured.rows.front().batch, measured.rows.back().batch));
      return;
    }
    const std::vector<double> errors = relative_errors(curve.points, measured.rows);
    const Quantity quantity = curve.key.quantity;
    for (const std::string& group : {curve.key.gpu, std::string("all")}) {
      std::vector<double>& all = errors_[{group, quantity}];
      all.insert(all.end(), errors.begin(), errors.end());
    }
    if (quantity == Quantity::kForward || quantity == Quantity::kBackwardOptimizer) {
      time_errors_.insert(time_errors_.end(), errors.begin(), errors.end());
    }
  }

  void compare_limits() {
    for (const MemoryLimit& measured : data_.limits) {
      const auto limit = std::ranges::find_if(pack_.limits, [&](const MemoryLimit& candidate) {
        return candidate.model == measured.model && candidate.gpu == measured.gpu &&
               candidate.precision == measured.precision;
      });
      if (limit == pack_.limits.end()) {
        fault(fmt::format("{}, {}: no memory limit", measured.gpu, measured.model));
      } else if (describe(*limit) != describe(measured)) {
        fault(fmt::format("{}, {}: the memory limit is batch {} instead of {}", measured.gpu,
                          measured.model, describe(*limit), describe(measured)));
      }
    }
    if (pack_.limits.size() > data_.limits.size()) {
      fault("the pack has more memory limits than were measured");
    }
  }

  const Pack& pack_;
  const MeasuredData& data_;
  std::map<std::pair<std::string, Quantity>, std::vector<double>> errors_;
  std::vector<double> time_errors_;
  PackComparison result_;
};

}  // namespace

Result<Pack> fit_pack(const MeasuredData& data, const PackInfo& info,
                      std::span<const ModelInfo> models, const FitTolerances& tolerances) {
  Pack pack;
  pack.info = info;
  std::map<std::string_view, bool> taken;
  for (const MeasuredCurve& measured : data.curves) {
    Curve curve;
    curve.key = measured.key;
    curve.pack = info.name;
    curve.points = fit_curve(measured.rows, tolerance_of(measured.key.quantity, tolerances));
    curve.measured_rows = static_cast<int>(measured.rows.size());
    const FitError error = summarize_errors(relative_errors(curve.points, measured.rows));
    curve.mean_relative_error = error.mean;
    curve.p90_relative_error = error.p90;
    curve.p95_relative_error = error.p95;
    curve.max_relative_error = error.max;
    pack.curves.push_back(std::move(curve));

    if (!taken.emplace(measured.key.model, true).second) continue;
    const auto model = std::ranges::find(models, measured.key.model, &ModelInfo::name);
    if (model == models.end()) {
      return fail(ErrorCode::kNotFound,
                  "the parameters and the input of {} are not known; add it to a models.csv",
                  measured.key.model);
    }
    pack.models.push_back(*model);
    pack.models.back().pack = info.name;
  }
  pack.limits = data.limits;
  for (MemoryLimit& limit : pack.limits) limit.pack = info.name;
  GPEMU_TRY(check_pack_names(pack));
  return pack;
}

PackComparison compare_pack(const Pack& pack, const MeasuredData& data) {
  return Comparison(pack, data).run();
}

}  // namespace gpemu::profile
