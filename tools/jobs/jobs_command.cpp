// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_generator.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/job_table_options.hpp"
#include "gpemu/scheduling/job_writer.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "jobs/run_job.hpp"

namespace gpemu::tools {
namespace {

using scheduling::ArrivalPattern;
using scheduling::Fleet;
using scheduling::Job;
using scheduling::JobGeneratorOptions;
using scheduling::Weights;

struct MakeJobsOptions {
  std::filesystem::path output;
  JobGeneratorOptions make{.models = {}, .like = {}};
  std::uint64_t jobs = JobGeneratorOptions{.models = {}, .like = {}}.jobs;
  std::string arrivals = "poisson";
  std::vector<std::string> gpus;
  std::vector<std::string> models;
  std::filesystem::path like;
  bool quiet = false;
};

struct ConvertJobsOptions {
  std::filesystem::path table;
  std::filesystem::path output;
  std::filesystem::path fleet;
  std::filesystem::path speeds;
  std::uint64_t first = 0;
  double stretch = 1;
  bool quiet = false;
};

/// Reads "VALUE:WEIGHT" into the value's text and the weight; without a weight, it is 1.
Result<std::pair<std::string, double>> parse_weighted(std::string_view option,
                                                      const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::pair(text, 1.0);
  double weight = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, weight);
  if (error == std::errc{} && stop == end && weight > 0 && std::isfinite(weight)) {
    return std::pair(text.substr(0, colon), weight);
  }
  return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" has no weight above 0; write VALUE:WEIGHT",
              option, printable(text));
}

Result<Weights<std::string>> parse_models(const std::vector<std::string>& texts) {
  Weights<std::string> weights;
  for (const std::string& text : texts) {
    GPEMU_ASSIGN(auto weighted, parse_weighted("--models", text));
    weights.push_back(std::move(weighted));
  }
  return weights;
}

Result<Weights<std::uint32_t>> parse_gpus(const std::vector<std::string>& texts) {
  Weights<std::uint32_t> weights;
  for (const std::string& text : texts) {
    GPEMU_ASSIGN(const auto weighted, parse_weighted("--gpus", text));
    std::uint32_t gpus = 0;
    const char* const end = weighted.first.data() + weighted.first.size();
    const auto [stop, error] = std::from_chars(weighted.first.data(), end, gpus);
    if (error != std::errc{} || stop != end || gpus == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "--gpus: \"{}\" is no number of GPUs; write for example 1:70,8:30",
                  printable(text));
    }
    weights.emplace_back(gpus, weighted.second);
  }
  return weights;
}

/// Writes the jobs, and says how many they are.
Result<void> write_jobs(std::span<const Job> jobs, const Fleet* fleet,
                        const std::filesystem::path& output, std::size_t left_out, bool quiet) {
  GPEMU_ASSIGN(const std::string text, scheduling::job_table_text(jobs, fleet));
  GPEMU_TRY(write_file_atomically(output, text));
  if (quiet) return {};
  double gpu_s = 0;
  for (const Job& job : jobs) gpu_s += job.work_s() * job.demand.gpus;
  const std::string others = left_out == 0 ? ""
                                           : fmt::format("; {} that never ran on GPUs {} left out",
                                                         left_out, left_out == 1 ? "is" : "are");
  report::print_out("{}: {} job{} in {:.1f} h, {:.1f} hours of a GPU{}\n",
                    printable(output.string()), jobs.size(), report::plural(jobs.size()),
                    jobs.back().arrival_s / 3600, gpu_s / 3600, others);
  return {};
}

Result<void> make_jobs(MakeJobsOptions options) {
  GPEMU_TRY(report::check_outputs({options.output}));
  options.make.jobs = options.jobs;
  if (options.arrivals == "diurnal") options.make.arrivals = ArrivalPattern::kDiurnal;
  if (options.arrivals == "bursts") options.make.arrivals = ArrivalPattern::kBursts;
  if (!options.gpus.empty()) {
    GPEMU_ASSIGN(options.make.gpus, parse_gpus(options.gpus));
  }
  GPEMU_ASSIGN(options.make.models, parse_models(options.models));
  std::vector<Job> like;
  std::size_t left_out = 0;
  if (!options.like.empty()) {
    GPEMU_ASSIGN(like, scheduling::read_jobs(options.like, {.left_out = &left_out}));
    options.make.like = like;
  }
  GPEMU_ASSIGN(const std::vector<Job> jobs, scheduling::generate_jobs(options.make));
  return write_jobs(jobs, nullptr, options.output, 0, options.quiet);
}

Result<void> convert_jobs(const ConvertJobsOptions& options) {
  GPEMU_TRY(report::check_outputs({options.output}));
  std::optional<Fleet> fleet;
  if (!options.fleet.empty()) {
    GPEMU_ASSIGN(fleet, scheduling::read_fleet(options.fleet));
  } else if (!options.speeds.empty()) {
    GPEMU_ASSIGN(fleet, Fleet::uniform(1, 1));
  }
  scheduling::SpeedTable speeds;
  std::size_t left_out = 0;
  scheduling::JobTableOptions reading{.left_out = &left_out};
  if (fleet) reading.fleet = &*fleet;
  if (!options.speeds.empty()) {
    GPEMU_ASSIGN(speeds, scheduling::read_speeds(options.speeds, *fleet));
    reading.speeds = &speeds;
  }
  GPEMU_ASSIGN(std::vector<Job> jobs, scheduling::read_jobs(options.table, reading));
  if (options.first != 0 && options.first < jobs.size()) jobs.resize(options.first);
  for (Job& job : jobs) job.arrival_s *= options.stretch;
  return write_jobs(jobs, reading.fleet, options.output, left_out, options.quiet);
}

void add_make_jobs(Command jobs) {
  Command command = jobs.subcommand("make", "Make a table of random jobs");
  auto options = std::make_shared<MakeJobsOptions>();
  command.option("OUTPUT", options->output, "The CSV file to write").required();
  command.option("--jobs", options->jobs, "How many jobs").show_default();
  command
      .option("--per-hour", options->make.jobs_per_hour, "How many arrive in an hour, on average")
      .positive()
      .show_default();
  command
      .option("--arrivals", options->arrivals,
              "When they arrive: at random, by a sine with a period of 24 h, or several at once")
      .one_of({"poisson", "diurnal", "bursts"})
      .show_default();
  command
      .option("--swing", options->make.swing,
              "Of diurnal arrivals: how far their rate is from the average, as a part of it")
      .real_range(0, 1)
      .show_default();
  command
      .option("--burst", options->make.burst_jobs, "Of bursts: how many jobs they have, on average")
      .real_range(1, 1e6)
      .show_default();
  command
      .option("--gpus", options->gpus,
              "Numbers of GPUs with their weights; by default 1:70,2:10,4:10,8:10")
      .separated_by(',')
      .placeholder("GPUS:WEIGHT");
  command.option("--models", options->models, "Names of models with their weights")
      .separated_by(',')
      .placeholder("MODEL:WEIGHT");
  command
      .option("--median", options->make.median_s,
              "The median of the durations, in seconds; they are log-normal")
      .positive()
      .show_default();
  command
      .option("--sigma", options->make.sigma,
              "The standard deviation of their natural logarithms; 0: all are equal")
      .real_range(0, 10)
      .show_default();
  command
      .option("--like", options->like,
              "A table of jobs: each job has the GPUs, duration and model of a random one of it")
      .excludes("--gpus")
      .excludes("--models")
      .excludes("--median")
      .excludes("--sigma");
  command.option("--seed", options->make.seed, "The seed; the same one gives the same file")
      .show_default();
  command.flag("--quiet", options->quiet, "Print nothing");
  command.notes(
      "Examples:\n"
      "  gpemu jobs make jobs.csv --jobs 2000 --per-hour 30 --gpus 1:70,2:10,4:10,8:10\n"
      "  gpemu jobs make jobs.csv --arrivals diurnal --models resnet50:3,bert:1 --seed 7\n"
      "  gpemu jobs make jobs.csv --arrivals bursts --burst 20 --like cluster_log.csv");
  command.on_run([options, command]() -> Result<void> {
    for (const auto& [option, arrivals] :
         {std::pair{"--swing", "diurnal"}, {"--burst", "bursts"}}) {
      if (!command.given(option) || options->arrivals == arrivals) continue;
      return fail(ErrorCode::kInvalidArgument, "{} is for --arrivals {}", option, arrivals);
    }
    return make_jobs(*options);
  });
}

void add_convert_jobs(Command jobs) {
  Command command =
      jobs.subcommand("convert", "Write a trace that others published as gpemu's table of jobs");
  auto options = std::make_shared<ConvertJobsOptions>();
  command
      .option("TABLE", options->table,
              "Jobs in any format (docs/reference/job-tables.md), also compressed by gzip")
      .required();
  command.option("OUTPUT", options->output, "The CSV file to write").required();
  command.option("--first", options->first, "Only so many jobs, the first to arrive")
      .range(1, 100'000'000);
  command
      .option("--stretch", options->stretch,
              "Multiply the times of arrival; below 1, the fleet has more to do")
      .positive()
      .show_default();
  command.option("--fleet", options->fleet,
                 "A CSV file of servers, whose kinds of GPUs jobs and speeds name");
  command.option("--speeds", options->speeds,
                 "A CSV file of speeds, for traces that do not say how long jobs run");
  command.flag("--quiet", options->quiet, "Print nothing");
  command.notes(
      "Examples:\n"
      "  gpemu jobs convert cluster_job_log jobs.csv --first 5000\n"
      "  gpemu jobs convert trace1.csv.gz jobs.csv --stretch 0.5");
  command.on_run([options] { return convert_jobs(*options); });
}

void add_run_job(Command jobs, const World& world) {
  Command command =
      jobs.subcommand("run", "Run one job as tables have it, on emulated GPUs in real time");
  const auto options = std::make_shared<RunJobOptions>();
  const auto stages = std::make_shared<std::vector<double>>();
  command.option("--iterations", options->iterations, "How many iterations it has")
      .required()
      .range(1, 1'000'000'000'000);
  command
      .option("--iteration", options->iteration_s,
              "How long one takes with GPUs of its own, in seconds")
      .required()
      .positive();
  command
      .option("--stages", *stages,
              "Of an iteration, the seconds for storage and processors, for GPUs, and for the "
              "network; by default, all is for GPUs")
      .separated_by(',')
      .placeholder("HOST,GPU,NETWORK");
  command.option("--pace", options->pace,
                 "A file with a number, which may change: iterations take so many times as long");
  command.option("--progress", options->progress,
                 "Write to this file how many iterations are done when the job ends or is stopped");
  command
      .flag("--resume", options->resume,
            "Begin with what --progress says, if that file exists: as from a checkpoint")
      .needs("--progress");
  command.option("--node", options->node,
                 "Whose GPUs; by default, those of the node that GPEMU_NODE names, or of the only "
                 "one");
  command
      .option(
          "--device", options->device,
          "The first of its GPUs; by default, the first of those that GPEMU_DEVICES names, or 0")
      .range(0, 1023);
  command.option("--gpus", options->gpus, "How many it uses").range(1, 1024).show_default();
  command.notes(
      "Examples:\n"
      "  gpemu run --gpu V100-PCIE-32GB -- gpemu jobs run --iterations 200 --iteration 0.12\n"
      "  gpemu jobs run --node n0 --iterations 200 --iteration 0.12 --stages 0.08,0.04,0");
  command.on_run([options, stages, &world]() -> Result<void> {
    if (!stages->empty()) {
      options->stages_s.emplace();
      const bool are_times =
          stages->size() == options->stages_s->size() &&
          std::ranges::all_of(*stages, [](double s) { return std::isfinite(s) && s >= 0; });
      if (!are_times) {
        return fail(ErrorCode::kInvalidArgument,
                    "--stages: give three times from 0 on, HOST,GPU,NETWORK, such as 0.08,0.04,0");
      }
      std::ranges::copy(*stages, options->stages_s->begin());
    }
    const InterruptGuard interrupt;
    GPEMU_ASSIGN([[maybe_unused]] const std::uint64_t done,
                 run_job(*options, world, interrupt.flag()));
    return {};
  });
}

}  // namespace

void add_jobs_command(Command app, const World& world) {
  Command jobs =
      app.subcommand("jobs", "Make and convert tables of jobs for gpemu schedule; run one of them");
  jobs.require_subcommand();
  jobs.notes(
      "Examples:\n  gpemu jobs make jobs.csv\n  gpemu jobs convert cluster_log.csv jobs.csv");
  add_make_jobs(jobs);
  add_convert_jobs(jobs);
  add_run_job(jobs, world);
}

}  // namespace gpemu::tools
