// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/calibration_file.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "gpemu/profile/gpu_spec.hpp"

#include "calibration_reader.hpp"

namespace gpemu::profile {
namespace {

/// What a file keeps of a value: four digits, within the bounds.
double rounded(double value, const Parameter& parameter) {
  const std::string text = fmt::format("{:.4g}", value);
  double kept = value;
  std::from_chars(text.data(), text.data() + text.size(), kept);
  return std::clamp(kept, parameter.least, parameter.most);
}

std::string toml_text(std::string_view text) {
  std::ostringstream stream;
  const toml::value<std::string> value{std::string(text)};
  stream << toml::toml_formatter(value, toml::format_flags::none);
  return stream.str();
}

std::string written(const Calibration& calibration, std::string_view other_arithmetic) {
  std::string text = fmt::format(
      "[{}]\n"
      "# Written by `gpemu cost fit --write`, which replaces it. docs/design/operation-costs.md\n"
      "# has the equations.\n"
      "command = {}\npack = {}\nmodels = {}\nsteps = {}\nin_sample_error = {:.3f}\n"
      "tensor_cores = {}\n",
      kCalibrationTable, toml_text(calibration.command), toml_text(calibration.pack),
      calibration.models, calibration.steps, calibration.error, calibration.tensor_cores);
  if (calibration.half) text += "half = true\n";
  if (!other_arithmetic.empty()) {
    text += fmt::format("other_arithmetic_like = {}\n", toml_text(other_arithmetic));
  }
  if (const std::optional<CalibrationBars>& bars = calibration.bars) {
    text +=
        fmt::format("bar_unseen_model = {:.3f}\nbar_known_batch = {:.3f}\nbar_other_gpu = {:.3f}\n",
                    bars->unseen_model, bars->known_batch, bars->other_gpu);
  }
  for (int i = 0; i < kOperationParameterCount; ++i) {
    if (i == kFirstHostParameter)
      text += fmt::format("\n[{}.{}]\n", kCalibrationTable, kCalibrationHostTable);
    const Parameter& parameter = kOperationParameters.at(i);
    text +=
        fmt::format("{} = {}\n", parameter.name, rounded(calibration.parameters.at(i), parameter));
  }
  if (calibration.listed_tensor) {
    text += fmt::format("{} = {}\n", kListedTensor.name,
                        rounded(*calibration.listed_tensor, kListedTensor));
  }
  const auto add_arithmetic = [&](std::string_view table,
                                  const std::optional<OperationParameters>& parameters,
                                  const std::optional<double>& bar) {
    if (!parameters) return;
    text += fmt::format("\n[{}.{}]\n", kCalibrationTable, table);
    if (bar) text += fmt::format("bar_unseen_model = {:.3f}\n", *bar);
    for (int i = 0; i < kFirstCommonParameter; ++i) {
      const Parameter& parameter = kOperationParameters.at(i);
      text += fmt::format("{} = {}\n", parameter.name, rounded(parameters->at(i), parameter));
    }
  };
  const CalibrationBars bars = calibration.bars.value_or(CalibrationBars{});
  add_arithmetic(kCalibrationTf32Table, calibration.tf32, bars.tf32);
  add_arithmetic(kCalibrationFp32Table, calibration.fp32, bars.fp32);
  return text;
}

/// Returns the offset at which a line begins; lines count from 1, and beyond the last is the end.
std::size_t line_begin(std::string_view text, std::size_t line) {
  std::size_t at = 0;
  for (std::size_t i = 1; i < line; ++i) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return text.size();
    ++at;
  }
  return at;
}

/// Returns from which line on what follows a file's calibration stands.
std::size_t line_after(std::string_view text, const toml::table& root, std::size_t begin) {
  auto next = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 2;
  for (const auto& [key, node] : root) {
    const std::size_t line = node.source().begin.line;
    if (key.str() != kCalibrationTable && line > begin) next = std::min(next, line);
  }
  // Comments and empty lines before the next table are its own.
  const auto is_its = [&](std::size_t line) {
    const std::size_t at = line_begin(text, line);
    return at >= text.size() || text[at] == '\n' || text[at] == '#';
  };
  while (next > begin + 1 && is_its(next - 1)) --next;
  return next;
}

}  // namespace

Result<std::string> replace_calibration(std::string_view toml, std::string_view origin,
                                        const Calibration& calibration,
                                        std::string_view other_arithmetic) {
  GPEMU_TRY(parse_gpu_spec(toml, origin));
  const toml::table root = toml::parse(toml);
  const std::string table = written(calibration, other_arithmetic);
  std::string text(toml);
  if (const toml::node* const old = root.get(kCalibrationTable)) {
    const std::size_t line = old->source().begin.line;
    const std::size_t begin = line_begin(toml, line);
    text.replace(begin, line_begin(toml, line_after(toml, root, line)) - begin, table);
  } else {
    if (!text.ends_with('\n')) text += '\n';
    text += '\n' + table;
  }
  GPEMU_TRY(parse_gpu_spec(text, origin));
  return text;
}

}  // namespace gpemu::profile
