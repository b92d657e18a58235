// SPDX-License-Identifier: Apache-2.0
#include "predict/predict_report.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/device_config.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/report/markup.hpp"
#include "gpemu/report/page.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "predict/program_runs.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

/// Classes of operations that the table names.
constexpr std::size_t kTopClasses = 3;

/// Colours of predict::kStepLimitNames.
constexpr std::array<report::Colour, predict::kStepLimitCount> kLimitColours = {
    report::Colour::kCompute, report::Colour::kMemory, report::Colour::kLatency,
    report::Colour::kCopy, report::Colour::kHostWork};

double per_second(const PredictAnswer& answer) {
  const double steps = 1 / to_seconds(answer.step.time.time);
  return steps * std::max(answer.program_run->batch, 1);
}

double share_of(Duration part, Duration whole) {
  return whole > Duration::zero() ? to_seconds(part) / to_seconds(whole) : 0;
}

Duration total(const predict::StepPrediction& step) {
  Duration sum{};
  for (const predict::ClassTime& entry : step.classes) sum += entry.time;
  return sum;
}

std::string top_classes(const predict::StepPrediction& step) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(kTopClasses, step.classes.size()); ++i) {
    const predict::ClassTime& entry = step.classes[i];
    texts.push_back(fmt::format("{} {:.0f} %", kernels::operation_class_name(entry.operation_class),
                                100 * share_of(entry.time, total(step))));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string_view sign_name(predict::StepSign sign) {
  return predict::kStepSignNames[static_cast<std::size_t>(sign)];
}

std::string limit_text(const predict::StepPrediction& step) {
  const auto limit = static_cast<std::size_t>(step.limit());
  return fmt::format("{} {:.0f} %", predict::kStepLimitNames[limit],
                     100 * share_of(step.parts[limit], step.time.time));
}

std::vector<std::string> cells(const PredictAnswer& answer) {
  const run::ProgramRun& seen = *answer.program_run;
  const bool fits = answer.fits();
  return {answer.gpu.name,
          seen.batch > 0 ? std::to_string(seen.batch) : "-",
          fits ? fmt::format("{:.2f}", to_milliseconds(answer.step.time.time)) : "-",
          fits ? fmt::format("{:.0f}%", 100 * answer.step.time.relative_error) : "-",
          fits ? fmt::format("{:.1f}", per_second(answer)) : "-",
          fmt::format("{:.0f}", to_mib(seen.peak_memory)),
          fmt::format("{:.0f}", to_mib(answer.gpu.memory_bytes)),
          fits ? "yes" : "no",
          fits ? std::string(cost::evidence_name(answer.step.time.evidence)) : "-",
          fits ? limit_text(answer.step) : "-",
          fits ? top_classes(answer.step) : "-"};
}

ordered_json describe(const PredictAnswer& answer) {
  const run::ProgramRun& seen = *answer.program_run;
  ordered_json row = {{"gpu", answer.gpu.name},
                      {"batch", seen.batch > 0 ? ordered_json(seen.batch) : nullptr},
                      {"fits", answer.fits()},
                      {"memory_mib",
                       {{"peak", to_mib(seen.peak_memory)},
                        {"context", to_mib(device::context_bytes(answer.gpu))},
                        {"asked_for", to_mib(answer.memory_asked_for)},
                        {"capacity", to_mib(answer.gpu.memory_bytes)}}},
                      {"recorded_on", seen.gpu.name},
                      {"why_other", answer.why_other},
                      {"steps", seen.found.steps.size()},
                      {"steps_by", sign_name(seen.found.sign)},
                      {"operations", answer.operations()}};
  if (!answer.fits()) {
    row["step"] = nullptr;
    return row;
  }
  const predict::StepPrediction& step = answer.step;
  ordered_json parts = ordered_json::object();
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    parts[std::string(predict::kStepLimitNames[i])] = to_milliseconds(step.parts[i]);
  }
  ordered_json classes = ordered_json::array();
  for (const predict::ClassTime& entry : step.classes) {
    classes.push_back({{"name", kernels::operation_class_name(entry.operation_class)},
                       {"operations", entry.operations},
                       {"ms", to_milliseconds(entry.time)}});
  }
  row["step"] = {
      {"ms", to_milliseconds(step.time.time)},
      {"relative_error", step.time.relative_error},
      {"evidence", cost::evidence_name(step.time.evidence)},
      {"steps_per_s", 1 / to_seconds(step.time.time)},
      {"samples_per_s", seen.batch > 0 ? ordered_json(per_second(answer)) : ordered_json()},
      {"limit", predict::kStepLimitNames[static_cast<std::size_t>(step.limit())]},
      {"parts_ms", std::move(parts)},
      {"host_ms", to_milliseconds(step.host)},
      {"busy_ms", to_milliseconds(step.busy)},
      {"classes", std::move(classes)}};
  return row;
}

}  // namespace

Bytes PredictAnswer::needed_memory() const {
  return tools::needed_memory(*program_run, gpu);
}

int PredictAnswer::operations() const {
  int count = 0;
  for (const predict::ClassTime& entry : step.classes) count += entry.operations;
  return count;
}

std::vector<std::string> predict_basis(const std::vector<PredictAnswer>& answers) {
  std::vector<std::string> lines;
  const auto add = [&lines](std::string line) {
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  };
  for (const PredictAnswer& answer : answers) {
    const run::ProgramRun& seen = *answer.program_run;
    add(fmt::format("on {}{}: {} steps, found by {}; {} operations in the median step{}",
                    seen.gpu.name, seen.batch > 0 ? fmt::format(", batch {}", seen.batch) : "",
                    seen.found.steps.size(), sign_name(seen.found.sign), answer.operations(),
                    !seen.exit_code
                        ? ""
                        : fmt::format("; the program ended with exit code {}", *seen.exit_code)));
    if (seen.exit_code && seen.found.sign == predict::StepSign::kSequence) {
      add("layers repeat as well: check that this is a plausible number of operations for a whole "
          "step");
    }
    if (seen.found.steps.size() <= predict::kWarmUpSteps) {
      add(fmt::format("only {} steps: they may still include warm-up work",
                      seen.found.steps.size()));
    }
    if (seen.processes > 1) {
      add(fmt::format("{} processes used the GPU; only the one with the most work was used",
                      seen.processes));
    }
    if (!seen.unsupported.empty()) {
      add(fmt::format("unsupported calls: {}", fmt::join(seen.unsupported, ", ")));
    }
    if (!seen.not_computed.empty()) add(seen.not_computed);
    if (answer.memory_asked_for > 0) {
      add(
          fmt::format("{}{}: recorded with this GPU's {:.0f} MiB, which were enough; with more "
                      "memory the program held {:.0f} MiB",
                      answer.gpu.name, seen.batch > 0 ? fmt::format(", batch {}", seen.batch) : "",
                      to_mib(answer.gpu.memory_bytes), to_mib(answer.memory_asked_for)));
    }
    if (!answer.why_other.empty()) {
      add(fmt::format("{}: recorded on {}, for the program {}", answer.gpu.name, seen.gpu.name,
                      answer.why_other));
    }
  }
  return lines;
}

/// Returns what contexts take on the GPUs, in MiB: "400", or "400 to 667".
std::string contexts_text(const std::vector<PredictAnswer>& answers) {
  std::set<Bytes> sizes;
  for (const PredictAnswer& answer : answers) sizes.insert(device::context_bytes(answer.gpu));
  const std::string least = fmt::format("{:.0f}", to_mib(*sizes.begin()));
  if (sizes.size() == 1) return least;
  return fmt::format("{} to {:.0f}", least, to_mib(*sizes.rbegin()));
}

std::string predict_text(const PredictReport& report, const report::Terminal& terminal) {
  const bool batch = report.answers.front().program_run->batch > 0;
  report::TextTable table({"GPU", "batch", "step ms", std::string(terminal.plus_minus()),
                           batch ? "samples/s" : "steps/s", "peak MiB", "of MiB", "fits",
                           "times are", "limited by", "of its operations' time"});
  for (const PredictAnswer& answer : report.answers) table.add_row(cells(answer));
  return fmt::format(
      "{}\n"
      "{}15% means that in 9 of 10 cases the truth is between time / 1.15 and time x 1.15.\n"
      "Data loading is not modelled: batches are assumed to be ready. Peak is what the program\n"
      "held; the context takes another {} MiB.\n"
      "{}\n",
      table.str(terminal.output_columns), terminal.plus_minus(), contexts_text(report.answers),
      fmt::join(predict_basis(report.answers), "\n"));
}

ordered_json predict_json(const PredictReport& report) {
  ordered_json answers = ordered_json::array();
  for (const PredictAnswer& answer : report.answers) answers.push_back(describe(answer));
  std::set<std::string> unsupported;
  for (const PredictAnswer& answer : report.answers) {
    unsupported.insert(answer.program_run->unsupported.begin(),
                       answer.program_run->unsupported.end());
  }
  ordered_json json = {{"format", "gpemu-predict-1"}};
  report::add_provenance(json, report.provenance);
  json["program"] = report.words;
  json["not_supported"] = unsupported;
  json["answers"] = std::move(answers);
  return json;
}

report::StackedBars predict_plot(const PredictReport& report) {
  report::StackedBars plot{.title = "Parts of a training step",
                           .x_label = "time of a step",
                           .unit = "ms",
                           .parts = {},
                           .bars = {}};
  for (std::size_t i = 0; i < kLimitColours.size(); ++i) {
    plot.parts.push_back({std::string(predict::kStepLimitNames[i]), kLimitColours[i]});
  }
  for (const PredictAnswer& answer : report.answers) {
    const int batch = answer.program_run->batch;
    report::StackedBar bar{
        .label = fmt::format("{}{}", answer.gpu.name, batch > 0 ? fmt::format(", {}", batch) : ""),
        .values = {},
        .note = "does not fit"};
    if (answer.fits()) {
      for (const Duration part : answer.step.parts) bar.values.push_back(to_milliseconds(part));
      bar.relative_error = answer.step.time.relative_error;
    }
    plot.bars.push_back(std::move(bar));
  }
  return plot;
}

std::string predict_page(const PredictReport& report) {
  const bool batch = report.answers.front().program_run->batch > 0;
  report::Page page("Training steps of " + report::shortened(report::shell_line(report.words), 60));
  page.paragraph(
      "The time of one training step on each GPU, predicted from a few recorded steps of the "
      "program. Data loading is not modelled: batches are assumed to be ready.");
  report::Page::Rows steps, memory;
  for (const PredictAnswer& answer : report.answers) {
    const std::vector<std::string> all = cells(answer);
    const std::string error = answer.fits()
                                  ? fmt::format("{:.0f}", 100 * answer.step.time.relative_error)
                                  : std::string("-");
    steps.push_back({all[0], all[1], all[2], error, all[4], all[8], all[9]});
    memory.push_back({all[0], all[1], all[5],
                      fmt::format("{:.0f}", to_mib(device::context_bytes(answer.gpu))), all[6],
                      all[7], all[10]});
  }
  page.heading("Time");
  page.plot(predict_plot(report));
  page.table({"GPU", "batch", "step (ms)", "± (%)", batch ? "samples/s" : "steps/s", "evidence",
              "limited by"},
             steps);
  page.paragraph(
      "±15 % means that in 9 of 10 cases the truth is between time / 1.15 and time x 1.15.");
  page.heading("Memory and operations");
  page.table({"GPU", "batch", "held (MiB)", "context (MiB)", "capacity (MiB)", "fits",
              "what its operations' time goes into"},
             memory);
  page.heading("What was recorded");
  for (const std::string& line : predict_basis(report.answers)) page.paragraph(line);
  report::add_provenance(page, report.provenance);
  return page.html();
}

}  // namespace gpemu::tools
