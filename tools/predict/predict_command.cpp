// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/predict/name_pattern.hpp"
#include "gpemu/predict/step_prediction.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/program_file.hpp"
#include "gpemu/run/program_run.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "predict/predict_report.hpp"
#include "predict/program_runs.hpp"
#include "predict/ranks_of_program.hpp"
#include "predict/scaling.hpp"
#include "predict/sharing.hpp"

namespace gpemu::tools {
namespace {

struct PredictOptions {
  std::vector<std::string> gpus;
  std::string host;  ///< a GPU, in whose host the program runs; empty: the GPU's own.
  std::vector<int> batches;
  std::vector<std::string> beside;  ///< programs on the same GPU.
  std::string sharing = "time-slices";
  std::vector<int> gpu_counts;  ///< of a job; empty: the program is not a job of several ranks.
  std::string topology;
  std::string pattern;
  int steps = 5;
  std::string json;
  std::string report;
  std::string plot;
  std::vector<std::string> words;
};

Result<void> check(const PredictOptions& options, const World& world) {
  if (!options.plot.empty() && !options.plot.ends_with(".svg")) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--plot {}: plots are SVG, so the name must end in .svg; rsvg-convert converts one to PNG",
        options.plot);
  }
  GPEMU_TRY(run::check_program(options.words.front(), world.search_path()));
  return report::check_outputs({report::file_of(options.json), options.plot, options.report});
}

Result<std::optional<predict::NamePattern>> read_pattern(const std::string& text) {
  if (text.empty()) return std::nullopt;
  auto pattern = predict::NamePattern::read(text);
  if (pattern) return *pattern;
  return fail(pattern.error().code, "--step-pattern {}: {}", text, pattern.error().message);
}

/// Records steps and reports progress on standard error.
Result<run::ProgramRun> record_and_tell(const run::ProgramRunOptions& options,
                                        const std::string& label, const World& world,
                                        const std::atomic<bool>& stop) {
  const bool within = options.memory > 0;
  report::print_error(
      "gpemu: {}: recording{}\n", label,
      within ? fmt::format(" with its {:.0f} MiB", to_mib(options.memory)) : std::string());
  const TimePoint begin = world.clock.now();
  Result<run::ProgramRun> seen = world.record_steps(options, stop);
  const double elapsed_s = to_seconds(world.clock.now() - begin);
  if (within) return seen;
  if (seen) {
    report::print_error("gpemu: {}: {} steps in {:.1f} s\n", label, seen->found.steps.size(),
                        elapsed_s);
  } else if (seen.error().code == ErrorCode::kNotFound) {
    report::print_error("gpemu: {}: no steps after {:.1f} s\n", label, elapsed_s);
  }
  return seen;
}

/// Predicts on one GPU at one batch.
Result<PredictAnswer> answer_of(const ProgramRuns& runs, const profile::GpuSpec& gpu, int batch) {
  GPEMU_ASSIGN(ProgramRuns::Found found, runs.find_within(gpu, batch));
  PredictAnswer answer{.gpu = gpu,
                       .program_run = std::move(found.run),
                       .step = {},
                       .memory_asked_for = found.asked_for,
                       .why_other = std::move(found.why_other)};
  answer.step = predict::predict_step(answer.program_run->work, answer.program_run->step,
                                      answer.program_run->gpu, gpu);
  return answer;
}

Result<PredictReport> predict_all(const PredictOptions& options, const World& world) {
  GPEMU_ASSIGN(const std::optional<predict::NamePattern> pattern, read_pattern(options.pattern));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  std::vector<profile::GpuSpec> gpus;
  for (const std::string& name : options.gpus) {
    GPEMU_ASSIGN(profile::GpuSpec gpu, database.gpu(name, options.host));
    gpus.push_back(std::move(gpu));
  }
  const std::vector<int> batches = options.batches.empty() ? std::vector<int>{0} : options.batches;
  const InterruptGuard interrupt;
  report::Provenance provenance = report::provenance_at(world.time_of_day());
  ProgramRuns runs(
      {.words = options.words, .steps = options.steps, .pattern = pattern ? &*pattern : nullptr},
      {.gpu = [&database](const std::string& name) { return database.gpu(name); },
       .gpu_names = [&database] { return database.gpu_names(); },
       .record =
           [&](const run::ProgramRunOptions& what, const std::string& label) {
             const std::string which = options.beside.empty() ? "" : ", " + options.words.back();
             return record_and_tell(what, label + which, world, interrupt.flag());
           },
       .at_once = world.recordings_at_once});
  GPEMU_TRY(runs.record(gpus, batches));
  GPEMU_TRY(runs.check_batches());
  PredictReport report{.words = options.words, .provenance = std::move(provenance), .answers = {}};
  for (const profile::GpuSpec& gpu : gpus) {
    for (const int batch : batches) {
      GPEMU_ASSIGN(PredictAnswer answer, answer_of(runs, gpu, batch));
      report.answers.push_back(std::move(answer));
    }
  }
  return report;
}

/// Records each program by itself, and predicts them on one GPU.
Result<SharingReport> predict_sharing(const PredictOptions& options, const World& world) {
  SharingReport report{.programs = {options.words},
                       .sharing = options.sharing,
                       .provenance = report::provenance_at(world.time_of_day()),
                       .answers = {}};
  for (const std::string& text : options.beside) {
    GPEMU_ASSIGN(std::vector<std::string> words, words_beside(text, options.words));
    GPEMU_TRY(run::check_program(words.front(), world.variable("PATH")));
    report.programs.push_back(std::move(words));
  }
  if (report.programs.size() > cost::kMostSharers) {
    return fail(ErrorCode::kUnsupported, "--with: at most {} programs can share a GPU",
                cost::kMostSharers);
  }
  for (std::size_t i = 0; i < report.programs.size(); ++i) {
    PredictOptions one = options;
    one.words = report.programs[i];
    if (i > 0) one.batches.clear();
    GPEMU_ASSIGN(const PredictReport alone, predict_all(one, world));
    if (i == 0) report.answers.resize(alone.answers.size());
    for (std::size_t j = 0; j < report.answers.size(); ++j) {
      // Those of the first program are by GPU, then by batch; the others have one for each GPU.
      const std::size_t of_gpu = j * alone.answers.size() / report.answers.size();
      report.answers[j].programs.push_back(alone.answers[of_gpu]);
    }
  }
  for (SharingAnswer& answer : report.answers) {
    answer.speeds = speeds_together(answer.programs, report.sharing);
  }
  return report;
}

/// Returns the GPUs that are asked for. Errors: kInvalidArgument if the machine has others.
Result<std::vector<profile::GpuSpec>> find_gpus(const PredictOptions& options,
                                                const profile::Database& database,
                                                const profile::TopologySpec* machine) {
  std::vector<profile::GpuSpec> gpus;
  for (const std::string& name : options.gpus) {
    GPEMU_ASSIGN(profile::GpuSpec gpu, database.gpu(name, options.host));
    if (machine != nullptr && machine->gpu != gpu.name) {
      return fail(ErrorCode::kInvalidArgument, "--gpu {}: the GPUs of {} are {}, not {}", name,
                  machine->name, machine->gpu, gpu.name);
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

/// Returns the numbers of GPUs in order, from one on.
std::vector<int> counts_of(const PredictOptions& options) {
  std::vector<int> counts = options.gpu_counts;
  counts.push_back(1);
  std::ranges::sort(counts);
  const auto repeated = std::ranges::unique(counts);
  counts.erase(repeated.begin(), repeated.end());
  return counts;
}

/// Records the program as a job of each number of ranks, of which only the first one runs.
Result<ScalingReport> predict_scaling(const PredictOptions& options, const World& world) {
  GPEMU_ASSIGN(const std::optional<predict::NamePattern> pattern, read_pattern(options.pattern));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  std::optional<profile::TopologySpec> found;
  if (!options.topology.empty()) {
    GPEMU_ASSIGN(found, profile::find_topology(world.topologies, options.topology));
  }
  const profile::TopologySpec* const machine = found ? &*found : nullptr;
  GPEMU_ASSIGN(const std::vector<profile::GpuSpec> gpus, find_gpus(options, database, machine));
  const std::vector<int> batches = options.batches.empty() ? std::vector<int>{0} : options.batches;
  const std::vector<int> counts = counts_of(options);
  // Faults of the numbers come before the program runs.
  for (const int count : counts) {
    GPEMU_TRY(prices_of(gpus.front(), machine, count));
    GPEMU_TRY(with_ranks(options.words, count));
  }
  const InterruptGuard interrupt;
  ScalingReport report{.words = options.words,
                       .topology = machine == nullptr ? "" : machine->name,
                       .provenance = report::provenance_at(world.time_of_day()),
                       .curves = {}};
  for (const profile::GpuSpec& gpu : gpus) {
    for (const int batch : batches) report.curves.push_back({.gpu = gpu, .batch = batch});
  }
  for (const int count : counts) {
    GPEMU_ASSIGN(std::vector<std::string> words, with_ranks(options.words, count));
    const std::string ranks = fmt::format(", {} GPU{}", count, count == 1 ? "" : "s");
    ProgramRuns runs({.words = std::move(words),
                      .steps = options.steps,
                      .pattern = pattern ? &*pattern : nullptr,
                      .real_ranks = 1},
                     {.gpu = [&database](const std::string& name) { return database.gpu(name); },
                      .gpu_names = [&database] { return database.gpu_names(); },
                      .record =
                          [&](const run::ProgramRunOptions& what, const std::string& label) {
                            return record_and_tell(what, label + ranks, world, interrupt.flag());
                          },
                      .at_once = 1});
    GPEMU_TRY(runs.record(gpus, batches));
    GPEMU_TRY(runs.check_batches());
    for (ScalingCurve& curve : report.curves) {
      GPEMU_ASSIGN(ProgramRuns::Found found, runs.find_within(curve.gpu, curve.batch));
      const ProgramRuns::Run& run = found.run;
      GPEMU_ASSIGN(const predict::PriceCollective price, prices_of(curve.gpu, machine, count));
      predict::ParallelStep step =
          predict::predict_parallel_step(run->work, run->step, run->gpu, curve.gpu, price);
      curve.answers.push_back({.gpus = count,
                               .machines = machines_for(machine, count),
                               .program_run = run,
                               .step = std::move(step)});
    }
  }
  return report;
}

Result<void> predict_job(const PredictOptions& options, const World& world) {
  GPEMU_TRY(check(options, world));
  GPEMU_ASSIGN(const ScalingReport report, predict_scaling(options, world));
  if (!report::is_printed(options.json)) {
    report::print_out("{}", scaling_text(report, world.terminal()));
  }
  if (!options.json.empty()) {
    GPEMU_TRY(report::write_json(options.json, report::json_text(scaling_json(report))));
  }
  if (!options.report.empty()) {
    GPEMU_TRY(write_file_atomically(options.report, scaling_page(report)));
  }
  if (options.plot.empty()) return {};
  return write_file_atomically(options.plot, report::line_plot_svg(scaling_plot(report)));
}

Result<void> predict_beside(const PredictOptions& options, const World& world) {
  GPEMU_TRY(check(options, world));
  GPEMU_ASSIGN(const SharingReport report, predict_sharing(options, world));
  if (!report::is_printed(options.json)) {
    report::print_out("{}", sharing_text(report, world.terminal()));
  }
  if (options.json.empty()) return {};
  return report::write_json(options.json, report::json_text(sharing_json(report)));
}

Result<void> predict_program(const PredictOptions& options, const World& world) {
  GPEMU_TRY(check(options, world));
  GPEMU_ASSIGN(const PredictReport report, predict_all(options, world));
  const std::string as_json = report::json_text(predict_json(report));
  if (!report::is_printed(options.json))
    report::print_out("{}", predict_text(report, world.terminal()));
  if (!options.json.empty()) GPEMU_TRY(report::write_json(options.json, as_json));
  if (!options.report.empty()) {
    GPEMU_TRY(write_file_atomically(options.report, predict_page(report)));
  }
  if (options.plot.empty()) return {};
  return write_file_atomically(options.plot, report::stacked_bars_svg(predict_plot(report)));
}

constexpr const char* kNotes =
    "Runs a few steps of the unmodified program on an emulated GPU without waiting for the GPU,\n"
    "then ends the program. This is done once for each batch size and for each compute\n"
    "capability of the GPUs. Steps are recognised by NVTX ranges, by the optimizer's work, or\n"
    "by repetition. The program reads its batch size from the variable GPEMU_BATCH, or takes it\n"
    "from its arguments, where gpemu replaces {batch}.\n"
    "With --gpus, the program runs as torchrun would run it on that many GPUs, but only its "
    "rank\n"
    "0: the other ranks count as doing the same at the same time.\n"
    "With --with, each program is recorded by itself; the others read no GPEMU_BATCH.\n"
    "Examples:\n"
    "  gpemu predict --gpu V100-PCIE-32GB,A100-SXM4-80GB,H100-SXM5-80GB -- python train.py\n"
    "  gpemu predict --gpu A100-SXM4-40GB --batch 32,64,128 -- python train.py --batch-size "
    "{batch}\n"
    "  gpemu predict --gpu A100-SXM4-40GB --topology dgx-a100 --gpus 1,2,4,8,16 -- python "
    "train_ddp.py\n"
    "  gpemu predict --gpu V100-PCIE-32GB --with other.py -- python train.py\n"
    "  gpemu predict --gpu T4 --step-pattern multi_tensor_apply --json - -- ./program\n";

/// How many GPUs train together, and what joins them.
void add_job_options(Command& command, PredictOptions& options) {
  command
      .option("--gpus", options.gpu_counts,
              "Numbers of GPUs that train together, e.g. 1,2,4,8: predicts how much faster more "
              "GPUs are")
      .separated_by(',')
      .one_word_each()
      .range(1, 4096);
  command
      .option("--topology", options.topology,
              "With --gpus: what joins the GPUs: a machine, by name (`gpemu node topo` lists them) "
              "or by the path of a TOML file; more GPUs than it has need several such machines")
      .needs("--gpus");
}

/// Other programs on the same GPU.
void add_sharing_options(Command& command, PredictOptions& options) {
  command
      .option("--with", options.beside,
              "Another program on the same GPU, e.g. other.py or \"python other.py --size 8\": "
              "predicts what they do to each other; once for each such program")
      .placeholder("PROGRAM")
      .one_word_each()
      .excludes("--gpus");
  command
      .option("--sharing", options.sharing,
              "With --with: the programs have the GPU by turns, or, with MPS, side by side")
      .one_of({"time-slices", "mps"})
      .show_default()
      .needs("--with");
}

}  // namespace

void add_predict_command(Command app, const World& world) {
  Command command = app.subcommand(
      "predict", "Predict how fast a CUDA program trains on GPUs, and whether it fits");
  command.notes(kNotes);
  auto options = std::make_shared<PredictOptions>();
  command
      .option("--gpu", options->gpus,
              "Kinds of GPU, e.g. V100-PCIE-32GB,H100-SXM5-80GB; or TOML files")
      .separated_by(',')
      .one_word_each()
      .required();
  command
      .option("--host-of", options->host,
              "The GPU in whose host launch times were measured, e.g. H200-SXM-141GB (a host of "
              "2025) or A100-SXM4-40GB (of 2021); default: that of the GPU, or of its time")
      .placeholder("GPU");
  command.option("--batch", options->batches, "Batch sizes, e.g. 32,64,128")
      .separated_by(',')
      .one_word_each()
      .range(1, 1 << 20);
  add_job_options(command, *options);
  command.option("--steps", options->steps, "Steps to record, after two warm-up steps")
      .range(1, 10000)
      .show_default();
  command.option(
      "--step-pattern", options->pattern,
      "Regular expression for the name of an operation or NVTX range that occurs once per step");
  command.option("--json", options->json,
                 "Write the answers as JSON; - prints them instead of the table");
  add_sharing_options(command, *options);
  command
      .option("--plot", options->plot,
              "Write a plot of the parts of a step, or of the speed-ups, as an SVG file")
      .excludes("--with");
  command.option("--report", options->report, "Write an HTML page with the answers and a plot")
      .excludes("--with");
  command.option("program", options->words, "The program and its arguments, after --").required();
  command.arguments_at_end();
  command.on_run([options, &world] {
    if (!options->beside.empty()) return predict_beside(*options, world);
    return options->gpu_counts.empty() ? predict_program(*options, world)
                                       : predict_job(*options, world);
  });
}

}  // namespace gpemu::tools
