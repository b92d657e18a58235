// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/calibration.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "calibration_reader.hpp"

namespace gpemu::profile {
namespace {

constexpr std::string_view kTable = "calibration";
constexpr std::string_view kHostTable = "host";

std::span<const Parameter> device_parameters() {
  return std::span(kOperationParameters).first(kFirstHostParameter);
}

std::span<const Parameter> host_parameters() {
  return std::span(kOperationParameters).subspan(kFirstHostParameter);
}

/// Reads the table's own keys; every fault carries its line.
class Reader {
 public:
  Reader(const toml::table& table, std::string_view origin) : table_(table), origin_(origin) {}

  Result<void> read(GpuSpec& spec) const {
    if (table_.contains("like")) {
      GPEMU_TRY(check_keys(table_, {}, {"like"}, ""));
      GPEMU_ASSIGN(spec.calibrated_like, text("like"));
      return {};
    }
    Calibration calibration{.gpu = spec.name};
    GPEMU_TRY(check_keys(table_, device_parameters(),
                         {"command", "pack", "models", "steps", "in_sample_error", "tensor_cores",
                          "other_arithmetic_like", "bar_unseen_model", "bar_known_batch",
                          "bar_other_gpu", kHostTable},
                         ""));
    GPEMU_ASSIGN(calibration.command, text("command"));
    GPEMU_ASSIGN(calibration.pack, text("pack"));
    GPEMU_ASSIGN(calibration.models, count("models"));
    GPEMU_ASSIGN(calibration.steps, count("steps"));
    GPEMU_ASSIGN(calibration.error,
                 number(table_, {.name = "in_sample_error", .least = 0, .most = 1}));
    const toml::node* const tensor_cores = table_.get("tensor_cores");
    if (tensor_cores == nullptr || !tensor_cores->is_boolean()) {
      return fault(tensor_cores == nullptr ? table_ : *tensor_cores, "tensor_cores",
                   "expected true or false");
    }
    calibration.tensor_cores = tensor_cores->as_boolean()->get();
    if (table_.contains("other_arithmetic_like")) {
      GPEMU_ASSIGN(spec.other_arithmetic_like, text("other_arithmetic_like"));
    }
    if (table_.contains("bar_unseen_model")) {
      CalibrationBars& bars = calibration.bars.emplace();
      GPEMU_ASSIGN(bars.unseen_model, bar("bar_unseen_model"));
      GPEMU_ASSIGN(bars.known_batch, bar("bar_known_batch"));
      GPEMU_ASSIGN(bars.other_gpu, bar("bar_other_gpu"));
    }
    GPEMU_TRY(read_parameters(table_, device_parameters(), calibration.parameters.begin()));
    GPEMU_TRY(read_host(calibration));
    spec.calibration = std::move(calibration);
    return {};
  }

 private:
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> fault(const toml::node& node, std::string_view field,
                                             fmt::format_string<Args...> format,
                                             Args&&... args) const {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}.{}: {}", origin_, node.source().begin.line,
                kTable, field, fmt::format(format, std::forward<Args>(args)...));
  }

  /// Refuses what no reader would look at.
  [[nodiscard]] Result<void> check_keys(const toml::table& table,
                                        std::span<const Parameter> parameters,
                                        std::vector<std::string_view> others,
                                        std::string_view prefix) const {
    for (const auto& [key, node] : table) {
      const bool known =
          std::ranges::find(others, key.str()) != others.end() ||
          std::ranges::find(parameters, key.str(), &Parameter::name) != parameters.end();
      if (!known) return fault(node, fmt::format("{}{}", prefix, key.str()), "unknown key");
    }
    return {};
  }

  [[nodiscard]] Result<std::string> text(std::string_view key) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return fault(table_, key, "missing");
    const auto* const value = node->as_string();
    if (value == nullptr || value->get().empty()) {
      return fault(*node, key, "expected a text that is not empty");
    }
    return value->get();
  }

  [[nodiscard]] Result<int> count(std::string_view key) const {
    constexpr double kMost = 1e6;
    GPEMU_ASSIGN(const double value, number(table_, {.name = key, .least = 1, .most = kMost}));
    if (value == std::floor(value)) return static_cast<int>(value);
    return fault(*table_.get(key), key, "expected a whole number");
  }

  [[nodiscard]] Result<double> number(const toml::table& table, const Parameter& parameter) const {
    const toml::node* const node = table.get(parameter.name);
    if (node == nullptr) return fault(table, parameter.name, "missing");
    if (!node->is_number()) return fault(*node, parameter.name, "expected a number");
    const double value = node->value<double>().value_or(std::nan(""));
    if (std::isnan(value) || value < parameter.least || value > parameter.most) {
      return fault(*node, parameter.name, "{} is not between {} and {}", value, parameter.least,
                   parameter.most);
    }
    return value;
  }

  [[nodiscard]] Result<double> bar(std::string_view key) const {
    return number(table_, {.name = key, .least = 1e-3, .most = 10});
  }

  [[nodiscard]] Result<void> read_parameters(const toml::table& table,
                                             std::span<const Parameter> parameters,
                                             OperationParameters::iterator to) const {
    for (const Parameter& parameter : parameters) {
      GPEMU_ASSIGN(*to, number(table, parameter));
      ++to;
    }
    return {};
  }

  [[nodiscard]] Result<void> read_host(Calibration& calibration) const {
    const toml::node* const node = table_.get(kHostTable);
    if (node == nullptr) return fault(table_, kHostTable, "missing");
    if (!node->is_table()) return fault(*node, kHostTable, "expected a table");
    const toml::table& host = *node->as_table();
    GPEMU_TRY(check_keys(host, host_parameters(), {}, "host."));
    return read_parameters(host, host_parameters(),
                           calibration.parameters.begin() + kFirstHostParameter);
  }

  const toml::table& table_;
  std::string_view origin_;
};

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
      kTable, toml_text(calibration.command), toml_text(calibration.pack), calibration.models,
      calibration.steps, calibration.error, calibration.tensor_cores);
  if (!other_arithmetic.empty()) {
    text += fmt::format("other_arithmetic_like = {}\n", toml_text(other_arithmetic));
  }
  if (const std::optional<CalibrationBars>& bars = calibration.bars) {
    text +=
        fmt::format("bar_unseen_model = {:.3f}\nbar_known_batch = {:.3f}\nbar_other_gpu = {:.3f}\n",
                    bars->unseen_model, bars->known_batch, bars->other_gpu);
  }
  for (int i = 0; i < kOperationParameterCount; ++i) {
    if (i == kFirstHostParameter) text += fmt::format("\n[{}.{}]\n", kTable, kHostTable);
    const Parameter& parameter = kOperationParameters.at(i);
    text +=
        fmt::format("{} = {}\n", parameter.name, rounded(calibration.parameters.at(i), parameter));
  }
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
    if (key.str() != kTable && line > begin) next = std::min(next, line);
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

Result<void> read_calibration(const toml::table& root, std::string_view origin, GpuSpec& spec) {
  const toml::node* const node = root.get(kTable);
  if (node == nullptr) return {};
  if (!node->is_table()) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}: expected a table", origin,
                node->source().begin.line, kTable);
  }
  return Reader(*node->as_table(), origin).read(spec);
}

Result<void> adopt_calibrations(GpuSpec& spec, const FindGpu& find) {
  const auto adopt = [&](const std::string& name, std::string_view key) -> Result<GpuSpec> {
    Result<GpuSpec> other = find(name);
    if (other && other->calibration) return other;
    return fail(ErrorCode::kCorruptData, "{}: {}.{}: there is no GPU \"{}\" with parameters",
                spec.name, kTable, key, name);
  };
  if (!spec.calibrated_like.empty()) {
    GPEMU_ASSIGN(GpuSpec like, adopt(spec.calibrated_like, "like"));
    spec.calibration = std::move(like.calibration);
    spec.other_arithmetic_like = like.other_arithmetic_like;
  }
  if (!spec.other_arithmetic_like.empty()) {
    GPEMU_ASSIGN(GpuSpec like, adopt(spec.other_arithmetic_like, "other_arithmetic_like"));
    const auto tensor_cores = [](const GpuSpec& gpu) {
      return gpu.calibration && gpu.calibration->tensor_cores;
    };
    if (tensor_cores(like) == tensor_cores(spec)) {
      return fail(ErrorCode::kCorruptData,
                  "{}: {}.other_arithmetic_like: {} has no other arithmetic", spec.name, kTable,
                  like.name);
    }
    spec.other_arithmetic = std::move(like.calibration);
  }
  return {};
}

Result<std::string> replace_calibration(std::string_view toml, std::string_view origin,
                                        const Calibration& calibration,
                                        std::string_view other_arithmetic) {
  GPEMU_TRY(parse_gpu_spec(toml, origin));
  const toml::table root = toml::parse(toml);
  const std::string table = written(calibration, other_arithmetic);
  std::string text(toml);
  if (const toml::node* const old = root.get(kTable)) {
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
