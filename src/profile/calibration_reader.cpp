// SPDX-License-Identifier: Apache-2.0
#include "calibration_reader.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpemu::profile {
namespace {

std::span<const Parameter> device_parameters() {
  return std::span(kOperationParameters).first(kFirstHostParameter);
}

std::span<const Parameter> product_parameters() {
  return std::span(kOperationParameters).first(kFirstCommonParameter);
}

std::span<const Parameter> host_parameters() {
  return std::span(kOperationParameters).subspan(kFirstHostParameter);
}

constexpr std::string_view kUnseenModelBar = "bar_unseen_model";

/// Reads the table's own keys; every fault carries its line.
class Reader {
 public:
  Reader(const toml::table& table, std::string_view origin) : table_(table), origin_(origin) {}

  [[nodiscard]] Result<FileCalibration> read(std::string_view gpu) const {
    FileCalibration result;
    if (table_.contains("like")) {
      GPEMU_TRY(check_keys(table_, {}, {"like", "host_like"}, ""));
      GPEMU_ASSIGN(result.like, text("like"));
      if (table_.contains("host_like")) {
        GPEMU_ASSIGN(result.host_like, text("host_like"));
      }
      return result;
    }
    Calibration calibration{.gpu = std::string(gpu)};
    GPEMU_TRY(
        check_keys(table_, device_parameters(),
                   {"command", "pack", "models", "steps", "in_sample_error", "tensor_cores", "half",
                    "other_arithmetic_like", kUnseenModelBar, "bar_known_batch", "bar_other_gpu",
                    kCalibrationHostTable, kCalibrationTf32Table, kCalibrationFp32Table},
                   ""));
    GPEMU_TRY(check_complete());
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
    if (const toml::node* const half = table_.get("half")) {
      if (!half->is_boolean()) return fault(*half, "half", "expected true or false");
      calibration.half = half->as_boolean()->get();
    }
    if (table_.contains("other_arithmetic_like")) {
      GPEMU_ASSIGN(result.other_arithmetic_like, text("other_arithmetic_like"));
    }
    CalibrationBars bars;
    const bool has_bars = table_.contains(kUnseenModelBar);
    if (has_bars) {
      GPEMU_ASSIGN(bars.unseen_model, bar(table_, kUnseenModelBar));
      GPEMU_ASSIGN(bars.known_batch, bar(table_, "bar_known_batch"));
      GPEMU_ASSIGN(bars.other_gpu, bar(table_, "bar_other_gpu"));
    }
    GPEMU_TRY(read_parameters(table_, device_parameters(), calibration.parameters.begin()));
    GPEMU_TRY(read_host(calibration));
    GPEMU_TRY(read_arithmetic(kCalibrationTf32Table, calibration, calibration.tf32, bars.tf32));
    GPEMU_TRY(read_arithmetic(kCalibrationFp32Table, calibration, calibration.fp32, bars.fp32));
    if (has_bars) calibration.bars = bars;
    result.own = std::move(calibration);
    return result;
  }

 private:
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> fault(const toml::node& node, std::string_view field,
                                             fmt::format_string<Args...> format,
                                             Args&&... args) const {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}.{}: {}", origin_, node.source().begin.line,
                kCalibrationTable, field, fmt::format(format, std::forward<Args>(args)...));
  }

  /// Names all keys that are missing, so that a file of an older gpemu is mended at once.
  [[nodiscard]] Result<void> check_complete() const {
    std::vector<std::string> missing;
    const auto look = [&missing](const toml::table& table, std::string_view prefix,
                                 std::string_view key) {
      if (!table.contains(key)) missing.push_back(fmt::format("{}{}", prefix, key));
    };
    for (const std::string_view key :
         {"command", "pack", "models", "steps", "in_sample_error", "tensor_cores"}) {
      look(table_, "", key);
    }
    for (const Parameter& parameter : device_parameters()) look(table_, "", parameter.name);
    look(table_, "", kCalibrationHostTable);
    for (const auto& [name, parameters] :
         {std::pair(kCalibrationHostTable, host_parameters()),
          std::pair(kCalibrationTf32Table, product_parameters()),
          std::pair(kCalibrationFp32Table, product_parameters())}) {
      const toml::node* const node = table_.get(name);
      if (node == nullptr || !node->is_table()) continue;
      const std::string prefix = fmt::format("{}.", name);
      // What is missing may be there with a typing error.
      GPEMU_TRY(
          check_keys(*node->as_table(), parameters, {kListedTensor.name, kUnseenModelBar}, prefix));
      for (const Parameter& parameter : parameters) {
        look(*node->as_table(), prefix, parameter.name);
      }
    }
    if (missing.empty()) return {};
    return fault(
        table_, fmt::format("{}", fmt::join(missing, ", ")),
        "missing; copy {} from a file in catalog/gpus/ of this gpemu, or write only like = \"GPU\" "
        "to have what a measured GPU has",
        missing.size() == 1 ? "it" : "them");
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
      return fault(*node, key, "expected a non-empty string");
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

  [[nodiscard]] Result<double> bar(const toml::table& table, std::string_view key) const {
    return number(table, {.name = key, .least = 1e-3, .most = 10});
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

  /// Reads the parameters of products in another arithmetic and their bar, if the file has them.
  [[nodiscard]] Result<void> read_arithmetic(std::string_view key, const Calibration& calibration,
                                             std::optional<OperationParameters>& to,
                                             std::optional<double>& to_bar) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return {};
    if (!node->is_table()) return fault(*node, key, "expected a table");
    const toml::table& table = *node->as_table();
    const bool has_bar = table.contains(kUnseenModelBar) && table_.contains(kUnseenModelBar);
    GPEMU_TRY(check_keys(table, product_parameters(),
                         has_bar ? std::vector{kUnseenModelBar} : std::vector<std::string_view>(),
                         fmt::format("{}.", key)));
    if (has_bar) {
      GPEMU_ASSIGN(to_bar, bar(table, kUnseenModelBar));
    }
    to = calibration.parameters;
    return read_parameters(table, product_parameters(), to->begin());
  }

  [[nodiscard]] Result<void> read_host(Calibration& calibration) const {
    const toml::node* const node = table_.get(kCalibrationHostTable);
    if (node == nullptr) return fault(table_, kCalibrationHostTable, "missing");
    if (!node->is_table()) return fault(*node, kCalibrationHostTable, "expected a table");
    const toml::table& host = *node->as_table();
    GPEMU_TRY(check_keys(host, host_parameters(), {kListedTensor.name}, "host."));
    if (host.contains(kListedTensor.name)) {
      GPEMU_ASSIGN(calibration.listed_tensor, number(host, kListedTensor));
    }
    return read_parameters(host, host_parameters(),
                           calibration.parameters.begin() + kFirstHostParameter);
  }

  const toml::table& table_;
  std::string_view origin_;
};

}  // namespace

Result<FileCalibration> read_calibration(const toml::table& root, std::string_view origin,
                                         std::string_view gpu) {
  const toml::node* const node = root.get(kCalibrationTable);
  if (node == nullptr) return FileCalibration{};
  if (!node->is_table()) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}: expected a table", origin,
                node->source().begin.line, kCalibrationTable);
  }
  return Reader(*node->as_table(), origin).read(gpu);
}

}  // namespace gpemu::profile
