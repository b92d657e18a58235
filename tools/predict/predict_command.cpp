// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/predict/step_prediction.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/program_file.hpp"
#include "gpemu/run/step_recording.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "predict/predict_report.hpp"

namespace gpemu::tools {
namespace {

struct PredictOptions {
  std::vector<std::string> gpus;
  std::vector<int> batches;
  std::string pattern;
  int steps = 5;
  std::string json;
  std::string report;
  std::string plot;
  std::vector<std::string> words;
};

/// A GPU that programs run on where they run on none of those that were asked for: of the oldest
/// architecture for which today's programs still have all kernels.
constexpr const char* kCommonGpu = "A100-SXM4-80GB";

int capability(const profile::GpuSpec& gpu) {
  return 10 * gpu.compute_capability_major + gpu.compute_capability_minor;
}

/// Returns the line of a message that tells most: the last that names an error as Python does, or
/// the last.
std::string_view telling_line(std::string_view message) {
  const std::size_t error = message.rfind("Error: ");
  const std::size_t begin = message.rfind('\n', error) + 1;  // 0 where there is none.
  const std::string_view line = message.substr(begin, message.find('\n', begin) - begin);
  return line.substr(line.starts_with("  | ") ? 4 : 0);
}

Result<void> check(const PredictOptions& options) {
  if (!options.plot.empty() && !options.plot.ends_with(".svg")) {
    return fail(ErrorCode::kInvalidArgument,
                "--plot {}: plots are SVG, so the name must end in .svg; rsvg-convert makes a PNG "
                "of one",
                options.plot);
  }
  GPEMU_TRY(run::check_program(options.words.front()));
  return report::check_outputs({report::file_of(options.json), options.plot, options.report});
}

Result<std::optional<std::regex>> read_pattern(const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {  // The only way in which it tells.
    return fail(ErrorCode::kInvalidArgument, "--step-pattern {}: {}", text, error.what());
  }
}

/// Records the program once for each batch and compute capability that the GPUs have, for programs
/// choose kernels and types by it.
class Recordings {
 public:
  using Recording = std::shared_ptr<const run::StepRecording>;

  Recordings(const PredictOptions& options, const profile::Database& database,
             const std::regex* pattern, const std::atomic<bool>& stop)
      : options_(options), database_(database), pattern_(pattern), stop_(stop) {}

  /// Records what is asked for, the newest architecture first.
  [[nodiscard]] Result<void> record(const std::vector<profile::GpuSpec>& gpus,
                                    const std::vector<int>& batches) {
    std::map<int, profile::GpuSpec, std::greater<>> by_capability;
    for (const profile::GpuSpec& gpu : gpus) by_capability.try_emplace(capability(gpu), gpu);
    for (const int batch : batches) {
      first_fault_ = {};
      for (const auto& [number, gpu] : by_capability) {
        GPEMU_ASSIGN(const profile::GpuSpec known, known_gpu(gpu));
        GPEMU_TRY(record_one(known, batch, number));
      }
      if (!any(batch)) {
        GPEMU_ASSIGN(const profile::GpuSpec common, database_.gpu(kCommonGpu));
        const int number = capability(common);
        if (!by_capability.contains(number)) GPEMU_TRY(record_one(common, batch, number));
      }
      if (!any(batch)) return std::unexpected(first_fault_);
    }
    return {};
  }

  /// Returns the recording at a GPU's capability or, where the program does not run there, at the
  /// nearest, rather a newer one; with the reason. Requires: record() has returned.
  [[nodiscard]] std::pair<Recording, std::string> find(const profile::GpuSpec& gpu,
                                                       int batch) const {
    const auto distance = [&](const Recording& recording) {
      const int newer = capability(recording->gpu) - capability(gpu);
      return newer >= 0 ? newer : 1000 - newer;
    };
    Recording best;
    for (const Recording& recording : recordings_) {
      if (recording->batch != batch) continue;
      if (best == nullptr || distance(recording) < distance(best)) best = recording;
    }
    const auto fault = faults_.find({capability(gpu), batch});
    return {best, fault == faults_.end() ? "" : fault->second};
  }

  /// Records once more with the memory that a GPU really has, in which frameworks give back what
  /// their allocators kept and try again. Returns nothing where the program ends with a fault
  /// there, before it did a step.
  [[nodiscard]] Result<Recording> record_within(const profile::GpuSpec& gpu, int batch) const {
    GPEMU_ASSIGN(const profile::GpuSpec known, known_gpu(gpu));
    report::print_error("gpemu: {}, batch {}: recording with its {:.0f} MiB\n", gpu.name, batch,
                        to_mib(gpu.memory_bytes));
    Result<run::StepRecording> recording = run::record_steps({.words = options_.words,
                                                              .gpu = known,
                                                              .batch = batch,
                                                              .steps = options_.steps,
                                                              .memory = gpu.memory_bytes,
                                                              .pattern = pattern_},
                                                             stop_);
    if (recording && recording->exit_code.value_or(0) != 0) return nullptr;
    if (recording) return std::make_shared<const run::StepRecording>(*std::move(recording));
    if (recording.error().code == ErrorCode::kNotFound) return nullptr;
    return std::unexpected(std::move(recording).error());
  }

  /// Errors: kInvalidArgument when the program does the same at each batch.
  [[nodiscard]] Result<void> check_batches() const {
    if (options_.batches.size() < 2) return {};
    for (const Recording& one : recordings_) {
      for (const Recording& other : recordings_) {
        if (one->batch == other->batch || step_of(*one) != step_of(*other)) continue;
        return fail(ErrorCode::kInvalidArgument,
                    "the program asks for the same at batches {} and {}: it must take its batch "
                    "from the variable GPEMU_BATCH, or have {{batch}} in its arguments, as in -- "
                    "python train.py --batch-size {{batch}}",
                    one->batch, other->batch);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] bool any(int batch) const {
    return std::ranges::any_of(recordings_,
                               [batch](const Recording& r) { return r->batch == batch; });
  }

  /// Returns a GPU of the database to emulate: the same, or for one that is described by a file the
  /// one of the nearest capability.
  [[nodiscard]] Result<profile::GpuSpec> known_gpu(const profile::GpuSpec& gpu) const {
    if (auto same = database_.gpu(gpu.name)) return same;
    GPEMU_ASSIGN(const std::vector<std::string> names, database_.gpu_names());
    std::vector<profile::GpuSpec> known;
    for (const std::string& name : names) {
      GPEMU_ASSIGN(profile::GpuSpec other, database_.gpu(name));
      known.push_back(std::move(other));
    }
    const auto nearest = std::ranges::min_element(known, {}, [&gpu](const profile::GpuSpec& other) {
      return std::abs(capability(other) - capability(gpu));
    });
    if (nearest == known.end()) return fail(ErrorCode::kNotFound, "the database has no GPU");
    return *nearest;
  }

  /// Records once, for GPUs of capability `number`; that the program ended with a fault is kept.
  [[nodiscard]] Result<void> record_one(const profile::GpuSpec& gpu, int batch, int number) {
    const std::string name = batch > 0 ? fmt::format("{}, batch {}", gpu.name, batch) : gpu.name;
    report::print_error("gpemu: {}: recording\n", name);
    const auto begin = std::chrono::steady_clock::now();
    Result<run::StepRecording> recording = run::record_steps({.words = options_.words,
                                                              .gpu = gpu,
                                                              .batch = batch,
                                                              .steps = options_.steps,
                                                              .pattern = pattern_},
                                                             stop_);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (recording) {
      report::print_error("gpemu: {}: {} steps in {:.1f} s\n", name, recording->found.steps.size(),
                          elapsed.count());
      recordings_.push_back(std::make_shared<const run::StepRecording>(*std::move(recording)));
      return {};
    }
    if (recording.error().code != ErrorCode::kNotFound) {
      return std::unexpected(std::move(recording).error());
    }
    faults_[{number, batch}] =
        fmt::format("fails at compute capability {}.{}: {}", gpu.compute_capability_major,
                    gpu.compute_capability_minor, telling_line(recording.error().message));
    report::print_error("gpemu: {}: no steps after {:.1f} s\n", name, elapsed.count());
    if (first_fault_.message.empty()) first_fault_ = recording.error();
    return {};
  }

  /// Returns the operations of a recording's step.
  static std::vector<cost::RecordedOperation> step_of(const run::StepRecording& recording) {
    std::vector<cost::RecordedOperation> operations;
    for (std::size_t i = recording.step.begin; i < recording.step.end; ++i) {
      const record::WorkEvent& event = recording.work.events[i];
      if (event.kind != record::WorkEvent::Kind::kOperation) continue;
      operations.push_back(recording.work.operations[event.index]);
    }
    return operations;
  }

  const PredictOptions& options_;
  const profile::Database& database_;
  const std::regex* pattern_;
  const std::atomic<bool>& stop_;
  std::vector<Recording> recordings_;
  std::map<std::pair<int, int>, std::string> faults_;  ///< by capability and batch.
  Error first_fault_;                                  ///< at the last batch.
};

/// Predicts on one GPU at one batch. Before it is said that the program does not fit, it is run in
/// that GPU's memory.
Result<PredictAnswer> answer_of(const Recordings& recordings, const profile::GpuSpec& gpu,
                                int batch) {
  auto [recording, why_other] = recordings.find(gpu, batch);
  PredictAnswer answer{
      .gpu = gpu, .recording = std::move(recording), .step = {}, .why_other = std::move(why_other)};
  if (!answer.fits()) {
    const Bytes asked = answer.recording->peak_memory;
    GPEMU_ASSIGN(Recordings::Recording within, recordings.record_within(gpu, batch));
    if (within != nullptr) {
      answer.recording = std::move(within);
      answer.memory_asked_for = asked;
    }
  }
  answer.step = predict::predict_step(answer.recording->work, answer.recording->step,
                                      answer.recording->gpu, gpu);
  return answer;
}

Result<PredictReport> predict_all(const PredictOptions& options) {
  GPEMU_ASSIGN(const std::optional<std::regex> pattern, read_pattern(options.pattern));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open());
  std::vector<profile::GpuSpec> gpus;
  for (const std::string& name : options.gpus) {
    GPEMU_ASSIGN(profile::GpuSpec gpu, database.gpu(name));
    gpus.push_back(std::move(gpu));
  }
  const std::vector<int> batches = options.batches.empty() ? std::vector<int>{0} : options.batches;
  const InterruptGuard interrupt;
  report::Provenance provenance = report::provenance_at(std::chrono::system_clock::now());
  Recordings recordings(options, database, pattern ? &*pattern : nullptr, interrupt.flag());
  GPEMU_TRY(recordings.record(gpus, batches));
  GPEMU_TRY(recordings.check_batches());
  PredictReport report{.words = options.words, .provenance = std::move(provenance), .answers = {}};
  for (const profile::GpuSpec& gpu : gpus) {
    for (const int batch : batches) {
      GPEMU_ASSIGN(PredictAnswer answer, answer_of(recordings, gpu, batch));
      report.answers.push_back(std::move(answer));
    }
  }
  return report;
}

Result<void> predict_program(const PredictOptions& options) {
  GPEMU_TRY(check(options));
  GPEMU_ASSIGN(const PredictReport report, predict_all(options));
  const std::string as_json = report::json_text(predict_json(report));
  if (!report::is_printed(options.json)) report::print_out("{}", predict_text(report));
  if (!options.json.empty()) GPEMU_TRY(report::write_json(options.json, as_json));
  if (!options.report.empty()) {
    GPEMU_TRY(write_file_atomically(options.report, predict_page(report)));
  }
  if (options.plot.empty()) return {};
  return write_file_atomically(options.plot, report::stacked_bars_svg(predict_plot(report)));
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "predict", "Predict how fast a CUDA program trains on GPUs, and whether it fits");
  command->footer(
      "Runs a few steps of the unmodified program on an emulated GPU, without waiting for it, once "
      "for\neach compute capability of the GPUs and each batch, and ends it then. Steps are "
      "recognised\nby NVTX ranges, by the optimizer's work, or by what recurs. The program takes "
      "its batch "
      "from\nthe variable GPEMU_BATCH, or {batch} in its arguments stands for it.\n"
      "Examples:\n"
      "  gpemu predict --gpu V100-PCIE-32GB,A100-SXM4-80GB,H100-SXM5-80GB -- python train.py\n"
      "  gpemu predict --gpu A100-SXM4-40GB --batch 32,64,128 -- python train.py --batch-size "
      "{batch}\n"
      "  gpemu predict --gpu T4 --step-pattern multi_tensor_apply --json - -- ./program\n");
  auto options = std::make_shared<PredictOptions>();
  command
      ->add_option("--gpu", options->gpus,
                   "Kinds of GPU, e.g. V100-PCIE-32GB,H100-SXM5-80GB; or TOML files")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  command->add_option("--batch", options->batches, "Batch sizes, e.g. 32,64,128")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--steps", options->steps, "Steps to record, after two warm-up steps")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--step-pattern", options->pattern,
                      "Regular expression for the name of an operation or NVTX range that comes "
                      "once in a step");
  command->add_option("--json", options->json,
                      "Write the answers as JSON; - prints them instead of the table");
  command->add_option("--plot", options->plot, "Write what the steps are made of as an SVG file");
  command->add_option("--report", options->report,
                      "Write a page (HTML) with the answers and a plot");
  command->add_option("program", options->words, "The program and its arguments, after --")
      ->required();
  command->positionals_at_end();
  set_action(*command, [options] { return predict_program(*options); });
}

}  // namespace gpemu::tools
