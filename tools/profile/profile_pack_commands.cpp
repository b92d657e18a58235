// SPDX-License-Identifier: Apache-2.0
#include "profile/profile_pack_commands.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/profile/database.hpp"
#include "gpemu/profile/database_writer.hpp"
#include "gpemu/profile/import.hpp"
#include "gpemu/profile/pack.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command.hpp"
#include "profile/profile_commands.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using profile::Quantity;
using profile::quantity_name;

/// How far a pack's times may be from the measured rows. Source: docs/reference/pack-format.md.
constexpr double kMaxMeanTimeError = 0.006;
constexpr double kMaxP95TimeError = 0.02;

struct ImportOptions {
  std::filesystem::path folder;
  std::filesystem::path output;
  bool add = false;
  std::string name;
  std::filesystem::path info;
  std::filesystem::path models;
  std::vector<std::string> precisions;
  double tolerance_percent = profile::FitTolerances().time * 100;
};

/// Reads "GPU=LABEL" pairs.
Result<profile::ImportNames> import_names(const profile::Database& database,
                                          const std::vector<std::string>& precisions) {
  profile::ImportNames names;
  names.gpu = [&database](std::string_view name) -> Result<std::string> {
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(name));
    return std::move(spec.name);
  };
  for (const std::string& text : precisions) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size()) {
      return fail(ErrorCode::kInvalidArgument, "--precision {}: write GPU=LABEL", text);
    }
    GPEMU_ASSIGN(const std::string gpu, names.gpu(text.substr(0, equals)));
    names.precisions[gpu] = text.substr(equals + 1);
  }
  return names;
}

/// Returns the pack's provenance.
Result<profile::PackInfo> import_info(const ImportOptions& options) {
  profile::PackInfo info;
  if (!options.info.empty()) {
    GPEMU_ASSIGN(info, profile::load_pack_info(options.info));
  } else {
    for (std::string* field : {&info.title, &info.citation, &info.url, &info.licence, &info.method,
                               &info.framework, &info.host}) {
      *field = profile::kNotStated;
    }
  }
  if (!options.name.empty()) info.name = options.name;
  if (info.name.empty()) {
    return fail(ErrorCode::kInvalidArgument, "give the pack a --name, or an --info file with one");
  }
  return info;
}

Result<std::vector<profile::ModelInfo>> import_models(const profile::Database& database,
                                                      const std::filesystem::path& file) {
  if (!file.empty()) return profile::load_models(file);
  std::vector<profile::ModelInfo> models;
  GPEMU_ASSIGN(const std::vector<std::string> names, database.model_names());
  for (const std::string& name : names) {
    GPEMU_ASSIGN(models.emplace_back(), database.model(name));
  }
  return models;
}

void print_import(const profile::MeasuredData& data, const profile::Pack& pack,
                  const World& world) {
  for (const std::string& message : data.messages) report::print_out("{}\n", message);
  const profile::PackComparison comparison = profile::compare_pack(pack, data);
  report::TextTable table({"gpu", "quantity", "measured", "extrapolated", "dropped", "points",
                           "mean / %", "p95 / %", "max / %"});
  for (const auto& [gpu, counts] : data.counts) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::size_t points = 0;
      for (const profile::Curve& curve : pack.curves) {
        const bool here = curve.key.gpu == gpu && curve.key.quantity == static_cast<Quantity>(i);
        points += here ? curve.points.size() : 0;
      }
      const auto fidelity = comparison.fidelity.find(gpu);
      const profile::Fidelity error =
          fidelity == comparison.fidelity.end() ? profile::Fidelity() : fidelity->second[i];
      table.add_row({gpu, std::string(quantity_name(static_cast<Quantity>(i))),
                     fmt::to_string(counts[i].measured), fmt::to_string(counts[i].extrapolated),
                     fmt::to_string(counts[i].dropped), fmt::to_string(points),
                     report::percent(error.mean_error, 3), report::percent(error.p95_error, 3),
                     report::percent(error.max_error, 3)});
    }
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
}

Result<void> import_pack(const ImportOptions& options, const World& world) {
  const bool adds = options.add || options.output.empty();
  std::filesystem::path user;
  if (adds) {
    GPEMU_ASSIGN(user, user_database(world));
  }
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const profile::PackInfo info, import_info(options));
  GPEMU_ASSIGN(const profile::ImportNames names, import_names(database, options.precisions));
  GPEMU_ASSIGN(const auto models, import_models(database, options.models));
  GPEMU_ASSIGN(const profile::MeasuredData data, profile::read_gpemu_tables(options.folder, names));
  profile::FitTolerances tolerances;
  tolerances.time = options.tolerance_percent / 100;
  GPEMU_ASSIGN(const profile::Pack pack, profile::fit_pack(data, info, models, tolerances));
  print_import(data, pack, world);
  if (!options.output.empty()) {
    GPEMU_TRY(profile::write_pack(pack, options.output));
    report::print_out("wrote {}\n", options.output.string());
  }
  if (adds) {
    GPEMU_TRY(profile::add_pack(user, pack));
    report::print_out("added {} to {}\n", pack.info.name, user.string());
  }
  return {};
}

Result<void> check(const std::filesystem::path& folder, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const std::vector<std::string> gpus, database.gpu_names());
  if (std::error_code error; !std::filesystem::exists(folder / "pack.toml", error)) {
    return fail(ErrorCode::kNotFound, "there is no {}", (folder / "pack.toml").string());
  }
  const std::vector<profile::PackFault> faults = profile::check_pack(folder, gpus);
  for (const profile::PackFault& fault : faults) {
    report::print_out("{}:{}: {}\n", fault.file.string(), fault.line, fault.message);
  }
  if (faults.empty()) {
    GPEMU_ASSIGN(const profile::PackInfo info, profile::load_pack_info(folder / "pack.toml"));
    report::print_out("{}: no faults{}\n", folder.string(),
                      info.emulated ? "; measured on an emulated GPU: nothing to contribute" : "");
    return {};
  }
  return fail(ErrorCode::kCorruptData, "{}: {} fault{}", folder.string(), faults.size(),
              faults.size() == 1 ? "" : "s");
}

struct CompareOptions {
  std::filesystem::path pack;
  std::filesystem::path raw;
  bool as_json = false;
};

json describe(const profile::Fidelity& fidelity) {
  return {{"rows", fidelity.rows},
          {"mean_error", fidelity.mean_error},
          {"p95_error", fidelity.p95_error},
          {"max_error", fidelity.max_error}};
}

void print_json(const profile::PackComparison& comparison, bool passed) {
  json gpus = json::object();
  for (const auto& [gpu, quantities] : comparison.fidelity) {
    for (std::size_t i = 0; i < quantities.size(); ++i) {
      gpus[gpu][std::string(quantity_name(static_cast<Quantity>(i)))] = describe(quantities[i]);
    }
  }
  const json result = {{"gpus", std::move(gpus)},
                       {"times", describe(comparison.times)},
                       {"faults", comparison.faults},
                       {"passed", passed}};
  report::print_out("{}", report::json_text(result));
}

void print_comparison(const profile::PackComparison& comparison, const World& world) {
  report::TextTable table({"gpu", "quantity", "rows", "mean / %", "p95 / %", "max / %"});
  const auto add = [&table](const std::string& gpu, std::string_view quantity,
                            const profile::Fidelity& fidelity) {
    table.add_row({gpu, std::string(quantity), fmt::to_string(fidelity.rows),
                   report::percent(fidelity.mean_error, 3), report::percent(fidelity.p95_error, 3),
                   report::percent(fidelity.max_error, 3)});
  };
  for (const auto& [gpu, quantities] : comparison.fidelity) {
    if (gpu == "all") continue;
    for (std::size_t i = 0; i < quantities.size(); ++i) {
      add(gpu, quantity_name(static_cast<Quantity>(i)), quantities[i]);
    }
  }
  const auto all = comparison.fidelity.find("all");
  for (std::size_t i = 0; all != comparison.fidelity.end() && i < all->second.size(); ++i) {
    add("all", quantity_name(static_cast<Quantity>(i)), all->second[i]);
  }
  add("all", "forward and backward", comparison.times);
  report::print_out("{}", table.str(world.terminal().output_columns));
  for (const std::string& fault : comparison.faults) report::print_out("{}\n", fault);
}

Result<void> compare(const CompareOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const profile::Pack pack, profile::load_pack(options.pack));
  // The raw tables do not say at which precision a GPU was measured; the pack does.
  std::vector<std::string> precisions;
  precisions.reserve(pack.curves.size());
  for (const profile::Curve& curve : pack.curves) {
    precisions.push_back(fmt::format("{}={}", curve.key.gpu, curve.key.precision));
  }
  GPEMU_ASSIGN(const profile::ImportNames names, import_names(database, precisions));
  GPEMU_ASSIGN(const profile::MeasuredData data, profile::read_gpemu_tables(options.raw, names));
  const profile::PackComparison comparison = profile::compare_pack(pack, data);
  const bool close = comparison.times.mean_error <= kMaxMeanTimeError &&
                     comparison.times.p95_error <= kMaxP95TimeError;
  const bool passed = close && comparison.faults.empty();
  if (options.as_json) {
    print_json(comparison, passed);
  } else {
    print_comparison(comparison, world);
  }
  if (passed) return {};
  if (!close) {
    return fail(ErrorCode::kCorruptData,
                "the pack's times are off by {} % on average and {} % at the 95th percentile; at "
                "most {} % and {} % are allowed",
                report::percent(comparison.times.mean_error, 3),
                report::percent(comparison.times.p95_error, 3),
                report::percent(kMaxMeanTimeError, 3), report::percent(kMaxP95TimeError, 3));
  }
  return fail(ErrorCode::kCorruptData, "the pack differs from the tables that it should come from");
}

}  // namespace

void add_profile_import_command(Command profile, const World& world) {
  Command command = profile.subcommand(
      "import", "Make a pack from GPEmu's published tables, leaving out extrapolated rows");
  auto options = std::make_shared<ImportOptions>();
  command.option("folder", options->folder, "Folder of the tables").required();
  command
      .option("--output", options->output,
              "New folder for the pack; without it, the pack is added to your database")
      .placeholder("FOLDER");
  command.flag("--add", options->add, "Also add the pack to your database");
  command.option("--name", options->name, "Name of the pack");
  command
      .option("--info", options->info,
              "A pack.toml that says where the numbers come from and how they were measured")
      .placeholder("FILE");
  command
      .option("--models", options->models,
              "A models.csv; without it, the models that the database knows")
      .placeholder("FILE");
  command.option("--precision", options->precisions,
                 "GPU=LABEL for a GPU that was not measured in fp32; repeatable");
  command
      .option(
          "--tolerance", options->tolerance_percent,
          "Leave out times that the pack's other points reproduce within this error, in percent")
      .real_range(0, 50)
      .show_default();
  command.notes(
      "Examples:\n"
      "  gpemu profile import gpemu/profiled_data --name gpemu-own\n"
      "  gpemu profile import tables --info pack.toml --models models.csv --output profiles/mine\n"
      "      --precision A100-SXM4-40GB=tf32");
  command.on_run([options, &world] { return import_pack(*options, world); });
}

void add_profile_check_command(Command profile, const World& world) {
  Command command = profile.subcommand("check",
                                       "Check a pack against the rules for contributions; report "
                                       "every fault with its file and line");
  auto folder = std::make_shared<std::filesystem::path>();
  command.option("pack", *folder, "Folder of the pack").required();
  command.notes("Example:\n  gpemu profile check evidence/packs/gpemu-vldb25");
  command.on_run([folder, &world] { return check(*folder, world); });
}

void add_profile_compare_command(Command profile, const World& world) {
  Command command = profile.subcommand(
      "compare", "Report how well a pack reproduces the measured rows of the tables it comes from");
  auto options = std::make_shared<CompareOptions>();
  command.option("pack", options->pack, "Folder of the pack").required();
  command.option("tables", options->raw, "Folder of the tables").required();
  command.flag("--json", options->as_json, "Print JSON");
  command.notes("Example:\n  gpemu profile compare evidence/packs/gpemu-vldb25 tables");
  command.on_run([options, &world] { return compare(*options, world); });
}

}  // namespace gpemu::tools
