// SPDX-License-Identifier: Apache-2.0
#include "pack_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "table_reader.hpp"
#include "toml_parser.hpp"

namespace gpemu::profile {
namespace {

constexpr int kFormatVersion = 1;
constexpr std::string_view kModelsHeader = "model,parameters,channels,height,width";
constexpr std::string_view kCurvesHeader =
    "model,quantity,measured_rows,mean_error_percent,p90_error_percent,p95_error_percent,"
    "max_error_percent";
constexpr std::string_view kLimitsHeader = "model,largest_batch_measured,first_batch_out_of_memory";
constexpr std::array<std::string_view, kQuantityNames.size()> kPointsHeaders = {
    "model,batch,forward_ms", "model,batch,backward_optimizer_ms",
    "model,batch,input_copy_pageable_ms", "model,batch,peak_memory_mib",
    "model,batch,persistent_memory_mib"};

// Far above anything real, so that only damage exceeds them.
constexpr std::int64_t kMaxBatch = 10'000'000;
constexpr std::int64_t kMaxRows = 1'000'000'000;
constexpr std::int64_t kMaxParameters = 1'000'000'000'000'000;
constexpr std::int64_t kMaxSide = 1'000'000;

/// The text fields of pack.toml, in the order in which they are written.
struct TextField {
  std::string_view key;
  std::string PackInfo::* member;
};
constexpr std::array<TextField, 8> kTextFields = {{{"name", &PackInfo::name},
                                                   {"title", &PackInfo::title},
                                                   {"citation", &PackInfo::citation},
                                                   {"url", &PackInfo::url},
                                                   {"licence", &PackInfo::licence},
                                                   {"method", &PackInfo::method},
                                                   {"framework", &PackInfo::framework},
                                                   {"host", &PackInfo::host}}};

class InfoReader {
 public:
  InfoReader(const std::filesystem::path& file, std::vector<PackFault>& faults)
      : file_(file), faults_(faults) {}

  InfoRow read(const toml::table& table) {
    check_format(table);
    for (const TextField& field : kTextFields) {
      info_.*field.member = text(table, field.key);
    }
    if (!info_.name.empty() && !is_name(info_.name)) {
      fault(*table.get("name"), "name must be of letters, digits, '_', '-' and '.'");
      info_.name.clear();
    }
    read_samples(table);
    read_emulated(table);
    read_gpus(table);
    std::map<std::string, int, std::less<>> lines;
    for (const auto& [key, node] : table) {
      lines.emplace(key.str(), static_cast<int>(node.source().begin.line));
      const std::string_view known[] = {"format", "samples", "emulated", "gpu"};
      if (std::ranges::find(known, key.str()) == std::end(known) &&
          std::ranges::find(kTextFields, key.str(), &TextField::key) == kTextFields.end()) {
        fault(node, fmt::format("unknown key \"{}\"", key.str()));
      }
    }
    return {std::move(info_), std::move(lines)};
  }

 private:
  void fault(const toml::node& node, std::string message) {
    faults_.push_back({file_, static_cast<int>(node.source().begin.line), std::move(message)});
  }

  void missing(std::string_view key) {
    faults_.push_back({file_, 0, fmt::format("\"{}\" is missing", key)});
  }

  void check_format(const toml::table& table) {
    const toml::node* node = table.get("format");
    if (node == nullptr) return missing("format");
    if (node->value_exact<std::int64_t>() != kFormatVersion) {
      fault(*node, fmt::format("this gpemu reads packs with format = {}", kFormatVersion));
    }
  }

  std::string text(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      missing(key);
      return {};
    }
    const std::optional<std::string> value = node->value_exact<std::string>();
    if (!value || value->empty()) fault(*node, fmt::format("\"{}\" must be a string", key));
    return value.value_or(std::string());
  }

  void read_samples(const toml::table& table) {
    const toml::node* node = table.get("samples");
    if (node == nullptr) return missing("samples");
    const std::optional<std::int64_t> value = node->value_exact<std::int64_t>();
    if (!value || *value < 0 || *value > kMaxRows) {
      return fault(*node, "\"samples\" must be a whole number, 0 when it is not stated");
    }
    info_.samples = static_cast<int>(*value);
  }

  void read_emulated(const toml::table& table) {
    const toml::node* node = table.get("emulated");
    if (node == nullptr) return;
    const std::optional<bool> value = node->value_exact<bool>();
    if (!value) return fault(*node, "\"emulated\" must be true or false");
    info_.emulated = *value;
  }

  void read_gpus(const toml::table& table) {
    const toml::node* node = table.get("gpu");
    if (node == nullptr) return;
    const toml::table* gpus = node->as_table();
    if (gpus == nullptr) return fault(*node, "\"gpu\" must be tables [gpu.NAME]");
    for (const auto& [name, entry] : *gpus) {
      const toml::table* gpu = entry.as_table();
      if (gpu == nullptr || gpu->size() != 1 || !gpu->contains("note")) {
        fault(entry, fmt::format("[gpu.{}] must hold a \"note\" and nothing else", name.str()));
      } else if (!is_name(name.str())) {
        fault(entry, fmt::format("\"{}\" cannot be the name of a GPU", name.str()));
      } else {
        info_.gpu_notes.emplace(name.str(), text(*gpu, "note"));
      }
    }
  }

  const std::filesystem::path& file_;
  std::vector<PackFault>& faults_;
  PackInfo info_;
};

/// Reports a row that does not come after the row before it.
template <typename Key>
void check_order(TableReader& table, std::optional<Key>& previous, Key key) {
  if (previous && key == *previous) {
    table.fault("the same record as in the previous line");
  } else if (previous && key < *previous) {
    table.fault("not in ascending order, or repeated");
  }
  previous = std::move(key);
}

std::optional<Quantity> quantity_field(TableReader& table, std::size_t column) {
  const auto found = std::ranges::find(kQuantityNames, table.field(column));
  if (found == kQuantityNames.end()) {
    table.fault(
        fmt::format("unknown quantity; expected one of {}", fmt::join(kQuantityNames, ", ")));
    return std::nullopt;
  }
  return static_cast<Quantity>(found - kQuantityNames.begin());
}

std::optional<double> percent_field(TableReader& table, std::size_t column) {
  const std::optional<double> value = table.number(column);
  if (!value) return std::nullopt;
  if (*value < 0 || *value > 100) {
    table.fault(fmt::format("an error of {} %; expected 0 to 100", *value));
    return std::nullopt;
  }
  return *value / 100;
}

std::string toml_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result;
}

/// Returns a basic TOML string, folded over several lines where it is long.
std::string toml_string(std::string_view text) {
  constexpr std::size_t kWidth = 96;
  if (text.size() <= kWidth - 10) return fmt::format("\"{}\"", toml_escaped(text));
  // A backslash at a line's end swallows white space after it, in Unicode's sense: hence only in
  // front of a visible character of ASCII.
  const auto may_break_before = [text](std::size_t i) {
    return i < text.size() && text[i] > ' ' && text[i] <= '~';
  };
  std::string result = may_break_before(0) ? "\"\"\"\\\n" : "\"\"\"";
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size() - 1) + 1;
    if (column > 0 && column + (end - begin) > kWidth && may_break_before(begin)) {
      result += "\\\n";
      column = 0;
    }
    result += toml_escaped(text.substr(begin, end - begin));
    column += end - begin;
    begin = end;
  }
  return result + "\"\"\"";
}

/// Rounds to what the tables show: enough digits for 0.1 us, 100 bytes and 0.001 % of error.
std::string number_text(double value, double decimals) {
  return fmt::format("{}", std::round(value * decimals) / decimals);
}

std::string percent_text(double relative_error) {
  return number_text(relative_error * 100, 1e3);
}

std::string format_info(const PackInfo& info) {
  std::string text = fmt::format("format = {}\n", kFormatVersion);
  for (const TextField& field : kTextFields) {
    text += fmt::format("{} = {}\n", field.key, toml_string(info.*field.member));
  }
  text += fmt::format("samples = {}\n", info.samples);
  if (info.emulated) text += "emulated = true\n";
  for (const auto& [gpu, note] : info.gpu_notes) {
    text += fmt::format("\n[gpu.\"{}\"]\nnote = {}\n", gpu, toml_string(note));
  }
  return text;
}

std::string format_models(const Pack& pack) {
  std::map<std::string_view, const ModelInfo*> models;
  for (const ModelInfo& model : pack.models) models.emplace(model.name, &model);
  std::string text = fmt::format("{}\n", kModelsHeader);
  for (const auto& [name, model] : models) {
    text += fmt::format("{},{},{}\n", name, model->parameters, fmt::join(model->input_shape, ","));
  }
  return text;
}

std::string format_curve_row(const Curve& curve) {
  return fmt::format("{},{},{},{},{},{},{}\n", curve.key.model, quantity_name(curve.key.quantity),
                     curve.measured_rows, percent_text(curve.mean_relative_error),
                     percent_text(curve.p90_relative_error), percent_text(curve.p95_relative_error),
                     percent_text(curve.max_relative_error));
}

}  // namespace

InfoRow parse_pack_info(std::string_view toml, const std::filesystem::path& file,
                        std::vector<PackFault>& faults) {
  try {
    return InfoReader(file, faults).read(toml::parse(toml));
  } catch (const toml::parse_error& error) {
    faults.push_back(
        {file, static_cast<int>(error.source().begin.line), std::string(error.description())});
    return {};
  }
}

std::vector<ModelRow> parse_models(std::string_view csv, const std::filesystem::path& file,
                                   std::vector<PackFault>& faults) {
  TableReader table(csv, file, kModelsHeader, faults);
  std::vector<ModelRow> rows;
  std::optional<std::string> previous;
  while (table.next()) {
    const auto name = table.name(0);
    const auto parameters = table.integer(1, 1, kMaxParameters);
    const auto channels = table.integer(2, 1, kMaxSide);
    const auto height = table.integer(3, 1, kMaxSide);
    const auto width = table.integer(4, 1, kMaxSide);
    if (!name || !parameters || !channels || !height || !width) continue;
    check_order(table, previous, *name);
    rows.push_back({.model = {.name = *name,
                              .parameters = static_cast<std::uint64_t>(*parameters),
                              .input_shape = {static_cast<int>(*channels),
                                              static_cast<int>(*height), static_cast<int>(*width)},
                              .pack = {}},
                    .line = table.line()});
  }
  return rows;
}

std::vector<CurveRow> parse_curves(std::string_view csv, const std::filesystem::path& file,
                                   std::vector<PackFault>& faults) {
  TableReader table(csv, file, kCurvesHeader, faults);
  std::vector<CurveRow> rows;
  std::optional<std::pair<std::string, Quantity>> previous;
  while (table.next()) {
    const auto model = table.name(0);
    const auto quantity = quantity_field(table, 1);
    const auto measured_rows = table.integer(2, 1, kMaxRows);
    const auto mean = percent_field(table, 3);
    const auto p90 = percent_field(table, 4);
    const auto p95 = percent_field(table, 5);
    const auto max = percent_field(table, 6);
    if (!model || !quantity || !measured_rows || !mean || !p90 || !p95 || !max) continue;
    check_order(table, previous, std::pair(*model, *quantity));
    CurveRow row;
    row.line = table.line();
    row.curve.key.model = *model;
    row.curve.key.quantity = *quantity;
    row.curve.measured_rows = static_cast<int>(*measured_rows);
    row.curve.mean_relative_error = *mean;
    row.curve.p90_relative_error = *p90;
    row.curve.p95_relative_error = *p95;
    row.curve.max_relative_error = *max;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<LimitRow> parse_limits(std::string_view csv, const std::filesystem::path& file,
                                   std::vector<PackFault>& faults) {
  TableReader table(csv, file, kLimitsHeader, faults);
  std::vector<LimitRow> rows;
  std::optional<std::string> previous;
  while (table.next()) {
    const auto model = table.name(0);
    const auto largest = table.integer(1, 1, kMaxBatch);
    const bool every_batch_ran = table.field(2).empty();
    const auto first = every_batch_ran ? std::nullopt : table.integer(2, 1, kMaxBatch);
    if (!model || !largest || (!every_batch_ran && !first)) continue;
    check_order(table, previous, *model);
    LimitRow row;
    row.line = table.line();
    row.limit.model = *model;
    row.limit.largest_batch_measured = static_cast<int>(*largest);
    if (first) row.limit.first_batch_out_of_memory = static_cast<int>(*first);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<PointRow> parse_points(std::string_view csv, Quantity quantity,
                                   const std::filesystem::path& file,
                                   std::vector<PackFault>& faults) {
  TableReader table(csv, file, kPointsHeaders[static_cast<std::size_t>(quantity)], faults);
  std::vector<PointRow> rows;
  std::optional<std::pair<std::string, std::int64_t>> previous;
  while (table.next()) {
    const auto model = table.name(0);
    const auto batch = table.integer(1, 1, kMaxBatch);
    const auto value = table.number(2);
    if (!model || !batch || !value) continue;
    if (*value <= 0) {
      table.fault(fmt::format("{} {} is not positive", *value, quantity_unit(quantity)));
      continue;
    }
    check_order(table, previous, std::pair(*model, *batch));
    rows.push_back({*model, {static_cast<int>(*batch), *value}, table.line()});
  }
  return rows;
}

std::string points_file_name(Quantity quantity) {
  return fmt::format("{}.csv", quantity_name(quantity));
}

Result<void> check_pack_names(const Pack& pack) {
  std::vector<std::string_view> names = {pack.info.name};
  for (const auto& [gpu, note] : pack.info.gpu_notes) names.push_back(gpu);
  for (const ModelInfo& model : pack.models) names.push_back(model.name);
  for (const Curve& curve : pack.curves) {
    names.insert(names.end(), {curve.key.model, curve.key.gpu, curve.key.precision});
  }
  for (const MemoryLimit& limit : pack.limits) {
    names.insert(names.end(), {limit.model, limit.gpu, limit.precision});
  }
  for (const std::string_view name : names) {
    if (!is_name(name)) {
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" cannot be a name in a pack; use letters, digits, '_', '-' and '.'", name);
    }
  }
  return {};
}

Result<std::map<std::filesystem::path, std::string>> format_pack(const Pack& pack) {
  GPEMU_TRY(check_pack_names(pack));
  std::map<std::filesystem::path, std::string> files;
  files["pack.toml"] = format_info(pack.info);
  files["models.csv"] = format_models(pack);

  std::map<CurveKey, const Curve*> curves;
  for (const Curve& curve : pack.curves) {
    if (!curves.emplace(curve.key, &curve).second) {
      return fail(ErrorCode::kInvalidArgument, "the pack holds {} of {} on {} twice",
                  quantity_name(curve.key.quantity), curve.key.model, curve.key.gpu);
    }
  }
  const auto append = [&files](const std::filesystem::path& path, std::string_view header,
                               std::string_view rows) {
    std::string& text = files[path];
    if (text.empty()) text = fmt::format("{}\n", header);
    text += rows;
  };
  for (const auto& [key, curve] : curves) {
    const std::filesystem::path folder = std::filesystem::path(key.gpu) / key.precision;
    append(folder / "curves.csv", kCurvesHeader, format_curve_row(*curve));
    std::string rows;
    for (const CurvePoint& point : curve->points) {
      rows += fmt::format("{},{},{}\n", key.model, point.batch, number_text(point.value, 1e4));
    }
    append(folder / points_file_name(key.quantity),
           kPointsHeaders[static_cast<std::size_t>(key.quantity)], rows);
  }
  std::map<std::tuple<std::string, std::string, std::string>, const MemoryLimit*> limits;
  for (const MemoryLimit& limit : pack.limits) {
    limits.emplace(std::tuple(limit.model, limit.gpu, limit.precision), &limit);
  }
  for (const auto& [key, limit] : limits) {
    const std::string first = limit->first_batch_out_of_memory
                                  ? fmt::format("{}", *limit->first_batch_out_of_memory)
                                  : std::string();
    append(std::filesystem::path(limit->gpu) / limit->precision / "limits.csv", kLimitsHeader,
           fmt::format("{},{},{}\n", limit->model, limit->largest_batch_measured, first));
  }
  for (const ModelRecording& recording : pack.recordings) {
    files[std::filesystem::path(kOperationsFolder) / (recording.model + ".json")] = recording.text;
  }
  return files;
}

}  // namespace gpemu::profile
