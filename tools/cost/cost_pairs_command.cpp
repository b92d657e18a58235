// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_pairs_command.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/calibrate/bars.hpp"
#include "gpemu/calibrate/pairs.hpp"
#include "gpemu/cost/shared_speed.hpp"
#include "gpemu/profile/pair_table.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;
using calibrate::PairsOut;
using calibrate::PredictedSpeed;
using calibrate::SharingJob;

struct PairsOptions {
  std::vector<std::string> jobs;
  std::string gpu;
  std::string sharing = "time-slices";
  std::string table;
  std::string check;
  std::uint64_t seed = 1;
  bool evaluate = false;
  bool as_json = false;

  [[nodiscard]] cost::SharedGpu shared_gpu() const { return {.side_by_side = sharing == "mps"}; }
};

Result<std::vector<profile::MeasuredPair>> measured(const PairsOptions& options,
                                                    const World& world) {
  return profile::read_pairs(options.table.empty() ? world.pairs.string() : options.table);
}

// ---- What jobs do to each other

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Reads a job: MODEL, MODEL:BATCH, or NVML's utilization of the GPU and of its memory, in percent.
Result<SharingJob> read_job(const std::string& text) {
  constexpr double kPercent = 100, kMostBatch = 1 << 24;
  const auto fault = [&text] {
    return fail(
        ErrorCode::kInvalidArgument,
        "job {}: expected MODEL:BATCH, e.g. ResNet-50:64, or the utilization of the GPU and "
        "of its memory in percent, e.g. 90/45",
        text);
  };
  const std::size_t slash = text.find('/');
  if (const std::optional<double> busy = number(text.substr(0, slash))) {
    SharingJob job{.job = {.model = text, .utilization = *busy / kPercent}, .load = {}};
    if (slash != std::string::npos) {
      const std::optional<double> memory = number(text.substr(slash + 1));
      if (!memory) return fault();
      job.job.memory_utilization = *memory / kPercent;
    }
    const auto is_share = [](double share) { return share >= 0 && share <= 1; };
    if (!is_share(*job.job.utilization) || !is_share(job.job.memory_utilization.value_or(0))) {
      return fault();
    }
    job.load = calibrate::load_of(job.job);
    return job;
  }
  const std::size_t colon = text.find(':');
  SharingJob job{.job = {.model = text.substr(0, colon), .precision = "fp32"}, .load = {}};
  if (colon != std::string::npos) {
    const std::optional<double> batch = number(text.substr(colon + 1));
    if (!batch || *batch < 1 || *batch > kMostBatch || *batch != std::floor(*batch)) return fault();
    job.job.batch = static_cast<int>(*batch);
  }
  if (job.job.model.empty()) return fault();
  return job;
}

/// Returns the speed of each job beside the others.
Result<std::vector<cost::SpeedEstimate>> speeds_of(const std::vector<SharingJob>& jobs,
                                                   const PairsOptions& options,
                                                   const World& world) {
  if (std::ranges::all_of(jobs, [](const SharingJob& job) { return job.load.has_value(); })) {
    std::vector<cost::GpuLoad> loads;
    for (const SharingJob& job : jobs) loads.push_back(*job.load);
    return cost::estimate_shared_speeds(loads, options.shared_gpu());
  }
  if (jobs.size() > 2) {
    return fail(ErrorCode::kUnsupported,
                "{} jobs: only pairs were measured; give the utilization of each job, e.g. 90/45",
                jobs.size());
  }
  GPEMU_ASSIGN(std::vector<profile::MeasuredPair> pairs, measured(options, world));
  const calibrate::PairSpeeds known(std::move(pairs));
  std::vector<cost::SpeedEstimate> speeds;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    GPEMU_ASSIGN(const cost::SpeedEstimate speed,
                 known.speed(options.gpu, jobs[i], jobs[1 - i], options.shared_gpu()));
    speeds.push_back(speed);
  }
  return speeds;
}

Result<void> tell_speeds(const PairsOptions& options, const World& world) {
  if (options.jobs.size() < 2 || options.jobs.size() > cost::kMostSharers) {
    return fail(ErrorCode::kInvalidArgument,
                "cost pairs needs 2 to {} jobs, --eval, or --pairs with measured ones",
                cost::kMostSharers);
  }
  std::vector<SharingJob> jobs;
  for (const std::string& text : options.jobs) {
    GPEMU_ASSIGN(SharingJob job, read_job(text));
    if (!job.load && options.gpu.empty()) {
      return fail(ErrorCode::kInvalidArgument, "job {}: --gpu is required for it", text);
    }
    jobs.push_back(std::move(job));
  }
  GPEMU_ASSIGN(const std::vector<cost::SpeedEstimate> speeds, speeds_of(jobs, options, world));
  report::TextTable table({"job", "speed", std::string(world.terminal().plus_minus()), "evidence"});
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const cost::SpeedEstimate& speed = speeds[i];
    table.add_row({options.jobs[i], fmt::format("{:.3f}", speed.speed),
                   report::percent(speed.relative_error, 0) + "%",
                   std::string(cost::evidence_name(speed.evidence))});
    rows.push_back({{"job", options.jobs[i]},
                    {"speed", speed.speed},
                    {"relative_error", speed.relative_error},
                    {"evidence", cost::evidence_name(speed.evidence)}});
  }
  if (options.as_json) {
    report::print_out("{}", report::json_text(OrderedJson{{"jobs", std::move(rows)}}));
  } else {
    report::print_out("Speeds beside the others, divided by those alone.\n\n{}",
                      table.str(world.terminal().output_columns));
  }
  return {};
}

// ---- How well that agrees with measurements

/// Speeds that were predicted in the same way.
struct SpeedErrors {
  std::vector<double> errors;  ///< predicted / measured - 1.
  double bars = 0;             ///< their sum.
  int within = 0;

  void add(double measured_speed, double predicted_speed, double bar) {
    const PredictedSpeed one{.measured = measured_speed, .predicted = predicted_speed};
    errors.push_back(one.error());
    bars += bar;
    within += one.miss() <= bar ? 1 : 0;
  }
};

/// Errors by GPU, and by what is left out or the evidence.
using ErrorTable = std::map<std::pair<std::string, std::string>, SpeedErrors>;

void print_errors(const ErrorTable& all, const std::string& what, const std::string& header,
                  const PairsOptions& options, const World& world) {
  report::TextTable table(
      {"gpu", what, "speeds", "mean error", "median", "bias", "bar", "within bar"});
  OrderedJson rows = OrderedJson::array();
  for (const auto& [group, errors] : all) {
    const auto count = static_cast<double>(errors.errors.size());
    std::vector<double> sizes;
    for (const double error : errors.errors) sizes.push_back(std::abs(error));
    std::ranges::sort(sizes);
    const double mean = std::reduce(sizes.begin(), sizes.end()) / count;
    const double bias = std::reduce(errors.errors.begin(), errors.errors.end()) / count;
    const double median = sizes[sizes.size() / 2];
    table.add_row({group.first, group.second, std::to_string(sizes.size()),
                   report::percent(mean, 1), report::percent(median, 1),
                   fmt::format("{:+.1f}", 100 * bias), report::percent(errors.bars / count, 0),
                   report::percent(errors.within / count, 0)});
    rows.push_back({{"gpu", group.first},
                    {what, group.second},
                    {"speeds", sizes.size()},
                    {"mean_error", mean},
                    {"median_error", median},
                    {"bias", bias},
                    {"mean_bar", errors.bars / count},
                    {"within_bar", errors.within / count}});
  }
  if (options.as_json) {
    report::print_out("{}", report::json_text(OrderedJson{{"errors", std::move(rows)}}));
  } else {
    report::print_out("{}\n\n{}", header, table.str(world.terminal().output_columns));
  }
}

Result<void> tell_errors(const PairsOptions& options, const World& world) {
  GPEMU_ASSIGN(const std::vector<profile::MeasuredPair> pairs, measured(options, world));
  ErrorTable errors;
  for (const PairsOut protocol : {PairsOut::kThirds, PairsOut::kModels}) {
    const auto name = calibrate::kPairsOutNames[static_cast<std::size_t>(protocol)];
    for (const PredictedSpeed& one : calibrate::evaluate_pairs(pairs, protocol, options.seed)) {
      errors[{pairs[one.pair].gpu, std::string(name)}].add(one.measured, one.predicted, one.bar);
    }
  }
  if (errors.empty()) {
    return fail(ErrorCode::kNotFound, "no pair of the table can be predicted from the others");
  }
  print_errors(errors, "left out",
               fmt::format("Pairs as predicted from those of the same GPU that were not left out "
                           "with them, with seed {};\nerrors are |predicted / measured - 1| in %.",
                           options.seed),
               options, world);
  return {};
}

Result<void> tell_check(const PairsOptions& options, const World& world) {
  GPEMU_ASSIGN(std::vector<profile::MeasuredPair> table, measured(options, world));
  GPEMU_ASSIGN(const std::vector<profile::MeasuredPair> pairs, profile::read_pairs(options.check));
  const calibrate::PairSpeeds known(std::move(table));
  ErrorTable errors;
  std::vector<std::string> without;  // A prediction: why.
  for (const profile::MeasuredPair& pair : pairs) {
    for (std::size_t side = 0; side < pair.jobs.size(); ++side) {
      const auto with_load = [](const profile::PairedJob& job) {
        return SharingJob{.job = job, .load = calibrate::load_of(job)};
      };
      const auto speed = known.speed(pair.gpu, with_load(pair.jobs.at(side)),
                                     with_load(pair.jobs.at(1 - side)), options.shared_gpu());
      if (!speed) {
        without.push_back(speed.error().message);
        continue;
      }
      errors[{pair.gpu, std::string(cost::evidence_name(speed->evidence))}].add(
          pair.speeds.at(side), speed->speed, speed->relative_error);
    }
  }
  if (errors.empty()) {
    return fail(ErrorCode::kNotFound, "{}: {}", options.check,
                without.empty() ? "it has no pairs that ran together" : without.front());
  }
  print_errors(errors, "evidence",
               fmt::format("Pairs of {} as predicted; errors are |predicted / measured - 1| in %.",
                           options.check),
               options, world);
  if (!without.empty()) {
    report::print_error("gpemu: {} speeds have no prediction, e.g. {}\n", without.size(),
                        without.front());
  }
  return {};
}

Result<void> run(const PairsOptions& options, const World& world) {
  if ((options.evaluate || !options.check.empty()) && !options.jobs.empty()) {
    return fail(ErrorCode::kInvalidArgument, "job {}: --eval and --pairs take no jobs",
                options.jobs.front());
  }
  if (options.evaluate) return tell_errors(options, world);
  if (!options.check.empty()) return tell_check(options, world);
  return tell_speeds(options, world);
}

}  // namespace

void add_cost_pairs_command(Command cost, const World& world) {
  Command command = cost.subcommand(
      "pairs", "Report how much jobs that share a GPU slow each other down, and how sure that is");
  auto options = std::make_shared<PairsOptions>();
  command
      .option("jobs", options->jobs,
              "Jobs: MODEL:BATCH as it was measured, or the utilization of the GPU and of its "
              "memory by the job alone, in percent, as nvidia-smi shows it")
      .placeholder("JOB");
  command.option("--gpu", options->gpu, "Kind of GPU, as the table of measured pairs names it");
  command
      .option("--sharing", options->sharing,
              "How jobs share the GPU that only their utilization describes")
      .one_of({"time-slices", "mps"})
      .show_default();
  command.flag("--eval", options->evaluate,
               "Print how well pairs that are left out are predicted from the others");
  command.option("--pairs", options->check, "Predict the measured pairs of a file, and compare")
      .placeholder("FILE")
      .excludes("--eval");
  command.option("--seed", options->seed, "With --eval: which thirds of the pairs are left out")
      .show_default();
  command
      .option("--table", options->table,
              "Measured pairs to predict from; default: those that come with gpemu")
      .placeholder("FILE");
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "A speed is that beside the other job, divided by that alone. The best evidence counts: the\n"
      "pair was measured; both jobs were measured on this GPU beside others (calibrated); or only\n"
      "their utilization is known (analytic). A bar of 20 % means that in 9 of 10 cases the truth\n"
      "is between speed / 1.2 and speed x 1.2.\n"
      "Examples:\n"
      "  gpemu cost pairs --gpu K80 ResNet-50:64 LM:20\n"
      "  gpemu cost pairs 95/60 40/15 --sharing mps\n"
      "  gpemu cost pairs --eval\n"
      "  gpemu cost pairs --pairs evidence/published/sharing/pairs.csv");
  command.on_run([options, &world] { return run(*options, world); });
}

}  // namespace gpemu::tools
