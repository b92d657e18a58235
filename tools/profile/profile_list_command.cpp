// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/profile/database.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command.hpp"
#include "profile/profile_commands.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct ListOptions {
  std::string gpu;
  std::string model;
  bool as_json = false;
};

/// The measurements of one model on one GPU at one precision.
struct Measured {
  /// First and last batch size of each quantity, by Quantity; absent if it was not measured.
  std::array<std::optional<std::pair<int, int>>, profile::kQuantityNames.size()> batches;
  std::size_t points = 0;
  std::set<std::string> packs;
};

/// By GPU, model and precision.
using Measurements = std::map<std::tuple<std::string, std::string, std::string>, Measured>;

Result<Measurements> measurements(const profile::Database& database) {
  GPEMU_ASSIGN(const std::vector<profile::CurveKey> keys, database.curve_keys("", ""));
  Measurements all;
  for (const profile::CurveKey& key : keys) {
    GPEMU_ASSIGN(const std::optional<profile::Curve> curve, database.curve(key));
    if (!curve || curve->points.empty()) continue;
    Measured& measured = all[{key.gpu, key.model, key.precision}];
    measured.batches.at(static_cast<std::size_t>(key.quantity)) = {curve->points.front().batch,
                                                                   curve->points.back().batch};
    measured.points += curve->points.size();
    measured.packs.insert(curve->pack);
  }
  return all;
}

/// How many different values the keys of `all` have at `Part`, given the value at `Given`.
template <std::size_t Part, std::size_t Given>
std::size_t count_distinct(const Measurements& all, const std::string& given) {
  std::set<std::string> values;
  for (const auto& [key, measured] : all) {
    if (std::get<Given>(key) == given) values.insert(std::get<Part>(key));
  }
  return values.size();
}

Result<json> describe_packs(const profile::Database& database) {
  GPEMU_ASSIGN(const std::vector<profile::PackEntry> packs, database.packs());
  json result = json::array();
  for (const profile::PackEntry& pack : packs) {
    result.push_back({{"name", pack.info.name},
                      {"from", pack.from_user ? "user" : "installed"},
                      {"emulated", pack.info.emulated},
                      {"title", pack.info.title},
                      {"citation", pack.info.citation},
                      {"url", pack.info.url},
                      {"licence", pack.info.licence}});
  }
  return result;
}

Result<json> describe_gpus(const profile::Database& database, const Measurements& all) {
  GPEMU_ASSIGN(const std::vector<std::string> names, database.gpu_names());
  json result = json::array();
  for (const std::string& name : names) {
    GPEMU_ASSIGN(const profile::GpuSpec gpu, database.gpu(name));
    result.push_back({{"name", name},
                      {"aliases", gpu.aliases},
                      {"architecture", gpu.architecture},
                      {"memory_mib", to_mib(gpu.memory_bytes + gpu.reserved_memory_bytes)},
                      {"models_measured", count_distinct<1, 0>(all, name)}});
  }
  return result;
}

Result<json> describe_models(const profile::Database& database, const Measurements& all) {
  GPEMU_ASSIGN(const std::vector<std::string> names, database.model_names());
  json result = json::array();
  for (const std::string& name : names) {
    GPEMU_ASSIGN(const profile::ModelInfo model, database.model(name));
    result.push_back({{"name", name},
                      {"parameters", model.parameters},
                      {"input_shape", model.input_shape},
                      {"gpus_measured", count_distinct<0, 1>(all, name)}});
  }
  return result;
}

json describe_measurements(const Measurements& all) {
  json result = json::array();
  for (const auto& [key, measured] : all) {
    json batches = json::object();
    for (std::size_t i = 0; i < measured.batches.size(); ++i) {
      const auto& range = measured.batches.at(i);
      if (range)
        batches[std::string(profile::kQuantityNames.at(i))] = {range->first, range->second};
    }
    result.push_back({{"gpu", std::get<0>(key)},
                      {"model", std::get<1>(key)},
                      {"precision", std::get<2>(key)},
                      {"batches", std::move(batches)},
                      {"points", measured.points},
                      {"packs", measured.packs}});
  }
  return result;
}

void print_overview(const json& packs, const json& gpus, const json& models, const World& world) {
  report::TextTable pack_table({"PACK", "from", "title"});
  for (const json& pack : packs) {
    const std::string emulated = pack["emulated"].get<bool>() ? ", emulated" : "";
    pack_table.add_row({pack["name"], pack["from"].get<std::string>() + emulated, pack["title"]});
  }
  report::TextTable gpu_table(
      {"GPU", "architecture", "memory / MiB", "models measured", "also called"});
  for (const json& gpu : gpus) {
    gpu_table.add_row(
        {gpu["name"], gpu["architecture"], fmt::format("{:.0f}", gpu["memory_mib"].get<double>()),
         fmt::to_string(gpu["models_measured"].get<int>()),
         fmt::format("{}", fmt::join(gpu["aliases"].get<std::vector<std::string>>(), ", "))});
  }
  report::TextTable model_table({"MODEL", "parameters", "input", "GPUs measured"});
  for (const json& model : models) {
    model_table.add_row(
        {model["name"], fmt::to_string(model["parameters"].get<std::uint64_t>()),
         fmt::format("{}", fmt::join(model["input_shape"].get<std::vector<int>>(), "x")),
         fmt::to_string(model["gpus_measured"].get<int>())});
  }
  for (const report::TextTable* table : {&pack_table, &gpu_table, &model_table}) {
    if (!table->empty()) report::print_out("{}\n", table->str(world.terminal().output_columns));
  }
  report::print_out("--gpu or --model lists what was measured.\n");
}

void print_measurements(const Measurements& all, const World& world) {
  std::vector<std::string> header = {"GPU", "model", "precision"};
  header.insert(header.end(), profile::kQuantityNames.begin(), profile::kQuantityNames.end());
  header.insert(header.end(), {"points", "pack"});
  report::TextTable table(std::move(header));
  for (const auto& [key, measured] : all) {
    std::vector<std::string> row = {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
    for (const auto& range : measured.batches) {
      row.push_back(range ? fmt::format("{}-{}", range->first, range->second) : "");
    }
    row.push_back(fmt::to_string(measured.points));
    row.push_back(fmt::format("{}", fmt::join(measured.packs, " ")));
    table.add_row(std::move(row));
  }
  if (table.empty()) {
    report::print_out("there are no such measurements\n");
  } else {
    report::print_out("Measured batch sizes of each quantity:\n{}",
                      table.str(world.terminal().output_columns));
  }
}

Result<void> list(const ListOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  std::string gpu;
  std::string model;
  if (!options.gpu.empty()) {
    GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(options.gpu));
    gpu = spec.name;
  }
  if (!options.model.empty()) {
    GPEMU_ASSIGN(const profile::ModelInfo info, database.model(options.model));
    model = info.name;
  }
  GPEMU_ASSIGN(const Measurements all, measurements(database));
  Measurements selected = all;
  std::erase_if(selected, [&](const auto& entry) {
    return (!gpu.empty() && std::get<0>(entry.first) != gpu) ||
           (!model.empty() && std::get<1>(entry.first) != model);
  });
  if (!options.as_json && (!gpu.empty() || !model.empty())) {
    print_measurements(selected, world);
    return {};
  }
  GPEMU_ASSIGN(const json packs, describe_packs(database));
  GPEMU_ASSIGN(const json gpus, describe_gpus(database, all));
  GPEMU_ASSIGN(const json models, describe_models(database, all));
  if (options.as_json) {
    const json document = {{"packs", packs},
                           {"gpus", gpus},
                           {"models", models},
                           {"measured", describe_measurements(selected)}};
    report::print_out("{}", report::json_text(document));
  } else {
    print_overview(packs, gpus, models, world);
  }
  return {};
}

}  // namespace

void add_profile_list_command(Command profile, const World& world) {
  Command command = profile.subcommand("list", "List packs, GPUs, models, measurements");
  auto options = std::make_shared<ListOptions>();
  command.option("--gpu", options->gpu, "Only measurements on this GPU");
  command.option("--model", options->model, "Only measurements of this model");
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "Examples:\n"
      "  gpemu profile list\n"
      "  gpemu profile list --gpu V100-PCIE-32GB\n"
      "  gpemu profile list --model resnet50 --json");
  command.on_run([options, &world] { return list(*options, world); });
}

}  // namespace gpemu::tools
