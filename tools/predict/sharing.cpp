// SPDX-License-Identifier: Apache-2.0
#include "predict/sharing.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/device_config.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/report/markup.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

/// The names of programs in tables are no longer than this.
constexpr std::size_t kMostName = 30;

/// A program among others on a GPU.
struct SharedStep {
  Duration alone{}, together{};
  double relative_error = 0;  ///< of the time together: those of the time alone and of the speed.
  std::string_view limit;
};

SharedStep shared_step(const PredictAnswer& program, const cost::SpeedEstimate& speed) {
  const predict::StepPrediction& step = program.step;
  SharedStep shared{
      .alone = step.time.time,
      .together = from_seconds(to_seconds(step.time.time) / speed.speed),
      .relative_error = (1 + step.time.relative_error) * (1 + speed.relative_error) - 1,
      .limit = predict::kStepLimitNames[static_cast<std::size_t>(step.limit())]};
  // The time that the others take is a part of the step like its own ones.
  if (shared.together - shared.alone > *std::ranges::max_element(step.parts)) {
    shared.limit = "the other programs";
  }
  return shared;
}

std::string whole_percent(double share) {
  return fmt::format("{:.0f}", 100 * share);
}

}  // namespace

Bytes SharingAnswer::needed_memory() const {
  Bytes sum = 0;
  for (const PredictAnswer& program : programs) sum += program.needed_memory();
  return sum;
}

std::vector<cost::SpeedEstimate> speeds_together(const std::vector<PredictAnswer>& programs,
                                                 std::string_view sharing) {
  const device::TimeSliceRules rules = device::time_slices(programs.front().gpu);
  cost::SharedGpu gpu{.side_by_side = sharing == "mps",
                      .switch_share = to_seconds(rules.context_switch) /
                                      to_seconds(rules.quantum + rules.context_switch),
                      .time_slice = rules.quantum,
                      .interrupts_kernels = programs.front().gpu.generation.interrupts_kernels};
  std::vector<cost::GpuLoad> predicted, least, most;
  for (const PredictAnswer& program : programs) {
    const predict::StepLoad load = predict::gpu_load(program.step);
    predicted.push_back(load.predicted);
    least.push_back(load.least);
    most.push_back(load.most);
  }
  std::vector<cost::SpeedEstimate> speeds = cost::estimate_shared_speeds(predicted, gpu);
  const std::vector<double> fast = cost::shared_speeds(least, gpu);
  const std::vector<double> slow = cost::shared_speeds(most, gpu);
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    // All programs err alike: they share the host, and the model of the GPU.
    const double of_times = std::max({fast[i] / speeds[i].speed, speeds[i].speed / slow[i], 1.0});
    speeds[i].relative_error = (1 + speeds[i].relative_error) * of_times - 1;
  }
  return speeds;
}

Result<std::vector<std::string>> words_beside(const std::string& text,
                                              const std::vector<std::string>& first) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) return fail(ErrorCode::kInvalidArgument, "--with: a program was expected");
  if (words.size() == 1 && text.ends_with(".py")) words.insert(words.begin(), first.front());
  return words;
}

std::string sharing_text(const SharingReport& report, const report::Terminal& terminal) {
  const std::string bar(terminal.plus_minus());
  report::TextTable table({"GPU", "batch", "program", "alone ms", bar, "together ms", bar, "speed",
                           bar, "GPU busy %", "memory %", "peak MiB", "limited by"});
  std::vector<PredictAnswer> all;
  std::string memory;
  for (const SharingAnswer& answer : report.answers) {
    for (std::size_t i = 0; i < answer.programs.size(); ++i) {
      const PredictAnswer& program = answer.programs[i];
      const cost::SpeedEstimate& speed = answer.speeds[i];
      const SharedStep step = shared_step(program, speed);
      const cost::GpuLoad load = predict::gpu_load(program.step).predicted;
      const int batch = program.program_run->batch;
      const bool fits = answer.fits();
      const auto if_fits = [fits](std::string cell) { return fits ? std::move(cell) : "-"; };
      table.add_row({answer.gpu().name, batch > 0 ? std::to_string(batch) : "-",
                     report::shortened(report.programs[i].back(), kMostName),
                     fmt::format("{:.2f}", to_milliseconds(step.alone)),
                     whole_percent(program.step.time.relative_error) + "%",
                     if_fits(fmt::format("{:.2f}", to_milliseconds(step.together))),
                     if_fits(whole_percent(step.relative_error) + "%"),
                     if_fits(fmt::format("{:.2f}", speed.speed)),
                     if_fits(whole_percent(speed.relative_error) + "%"), whole_percent(load.busy),
                     whole_percent(load.memory),
                     fmt::format("{:.0f}", to_mib(program.program_run->peak_memory)),
                     if_fits(std::string(step.limit))});
      all.push_back(program);
    }
    memory += fmt::format("on {}, they need {:.0f} of {:.0f} MiB together: {}\n", answer.gpu().name,
                          to_mib(answer.needed_memory()), to_mib(answer.gpu().memory_bytes),
                          answer.fits() ? "they fit" : "they do not fit");
  }
  return fmt::format(
      "{}\n"
      "Speed: that beside the others, divided by that alone; {}15% means that in 9 of 10 cases "
      "the\n"
      "truth is between speed / 1.15 and speed x 1.15. It includes the bars of the times alone.\n"
      "GPU busy: kernels run; memory: its traffic at the full rate; as shares of the time alone.\n"
      "The host's processors, data loading, and caches are not shared in this model.\n"
      "{}{}\n",
      table.str(terminal.output_columns), terminal.plus_minus(), memory,
      fmt::join(predict_basis(all), "\n"));
}

ordered_json sharing_json(const SharingReport& report) {
  ordered_json answers = ordered_json::array();
  for (const SharingAnswer& answer : report.answers) {
    ordered_json programs = ordered_json::array();
    for (std::size_t i = 0; i < answer.programs.size(); ++i) {
      const PredictAnswer& program = answer.programs[i];
      const cost::SpeedEstimate& speed = answer.speeds[i];
      const SharedStep step = shared_step(program, speed);
      const cost::GpuLoad load = predict::gpu_load(program.step).predicted;
      const int batch = program.program_run->batch;
      ordered_json row = {{"program", report.programs[i]},
                          {"batch", batch > 0 ? ordered_json(batch) : nullptr},
                          {"alone_ms", to_milliseconds(step.alone)},
                          {"alone_relative_error", program.step.time.relative_error},
                          {"alone_evidence", cost::evidence_name(program.step.time.evidence)},
                          {"busy", load.busy},
                          {"memory", load.memory},
                          {"width", load.width},
                          {"memory_mib", to_mib(program.needed_memory())},
                          {"not_supported", program.program_run->unsupported}};
      row["together"] = nullptr;
      if (answer.fits()) {
        row["together"] = {{"ms", to_milliseconds(step.together)},
                           {"relative_error", step.relative_error},
                           {"speed", speed.speed},
                           {"speed_relative_error", speed.relative_error},
                           {"evidence", cost::evidence_name(speed.evidence)},
                           {"limit", step.limit}};
      }
      programs.push_back(std::move(row));
    }
    answers.push_back({{"gpu", answer.gpu().name},
                       {"fits", answer.fits()},
                       {"memory_mib", to_mib(answer.needed_memory())},
                       {"capacity_mib", to_mib(answer.gpu().memory_bytes)},
                       {"programs", std::move(programs)}});
  }
  ordered_json json = {{"format", "gpemu-sharing-1"}};
  report::add_provenance(json, report.provenance);
  json["sharing"] = report.sharing;
  json["answers"] = std::move(answers);
  return json;
}

}  // namespace gpemu::tools
