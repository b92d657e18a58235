// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/database_writer.hpp"
#include "gpemu/profile/pack.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "profile/curve_selection.hpp"
#include "profile/profile_commands.hpp"
#include "profile/profile_pack_commands.hpp"

namespace gpemu::tools {

namespace fs = std::filesystem;

Result<fs::path> user_database(const World& world) {
  if (!world.profiles.user.empty()) return world.profiles.user;
  return fail(ErrorCode::kInvalidArgument,
              "there is no place for your own profiles: set HOME or XDG_DATA_HOME");
}

namespace {

// Curves of a GPU that has no specification are stored but not found by its name.
Result<void> note_unknown_gpus(const profile::Pack& pack, const profile::Database& database) {
  std::set<std::string> gpus;
  for (const profile::Curve& curve : pack.curves) gpus.insert(curve.key.gpu);
  for (const std::string& gpu : gpus) {
    const auto spec = database.gpu(gpu);
    if (spec && spec->name == gpu) continue;
    report::print_out(
        "note: there is no GPU \"{0}\"; use these profiles with --gpu PATH, a TOML file whose "
        "name is \"{0}\"\n",
        gpu);
  }
  return {};
}

/// Errors: kInvalidArgument if measurements on an emulated GPU would replace those on a real one.
Result<void> check_evidence(const profile::Pack& pack, const profile::Database& database) {
  if (!pack.info.emulated) return {};
  for (const profile::Curve& curve : pack.curves) {
    GPEMU_ASSIGN(const auto known, database.curve(curve.key));
    if (!known || known->emulated) continue;
    return fail(
        ErrorCode::kInvalidArgument,
        "pack {} was measured on an emulated GPU, and {} on {} at {} was measured on a real "
        "one, in pack {}: the new measurement would replace it. scripts/claims/compare_measured.py "
        "compares the folders",
        pack.info.name, curve.key.model, curve.key.gpu, curve.key.precision, known->pack);
  }
  report::print_out(
      "note: {} was measured on an emulated GPU: results that rest on it have the evidence "
      "'emulated'\n",
      pack.info.name);
  return {};
}

Result<void> add(const fs::path& folder, const World& world) {
  GPEMU_ASSIGN(const fs::path user, user_database(world));
  GPEMU_ASSIGN(const profile::Pack pack, profile::load_pack(folder));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_TRY(check_evidence(pack, database));
  GPEMU_TRY(note_unknown_gpus(pack, database));
  GPEMU_TRY(profile::add_pack(user, pack));
  report::print_out("added {} ({} curves) to {}\n", pack.info.name, pack.curves.size(),
                    user.string());
  return {};
}

Result<void> remove(const std::string& name, const World& world) {
  GPEMU_ASSIGN(const fs::path user, user_database(world));
  GPEMU_TRY(profile::remove_pack(user, name));
  report::print_out("removed {} from {}\n", name, user.string());
  return {};
}

struct ExportOptions {
  CurveSelection selection;
  std::string pack;
  fs::path output;
};

Result<void> export_pack(const ExportOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const profile::Pack pack, database.pack(options.pack));
  GPEMU_TRY(profile::write_pack(pack, options.output));
  report::print_out("wrote {} curves to {}\n", pack.curves.size(), options.output.string());
  return {};
}

Result<void> export_curves(const ExportOptions& options, const World& world) {
  if (options.selection.gpu.empty() || options.selection.model.empty()) {
    return fail(ErrorCode::kInvalidArgument, "give --pack, or --gpu and --model");
  }
  if (options.output.extension() != ".csv") {
    return fail(ErrorCode::kInvalidArgument,
                "--output {}: curves are written to a name that ends "
                "in .csv",
                options.output.string());
  }
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const std::vector<profile::Curve> curves,
               select_curves(database, options.selection));
  std::string csv = "gpu,model,precision,quantity,unit,batch,value,pack\n";
  std::size_t points = 0;
  for (const profile::Curve& curve : curves) {
    for (const profile::CurvePoint& point : curve.points) {
      csv += fmt::format("{},{},{},{},{},{},{},{}\n", curve.key.gpu, curve.key.model,
                         curve.key.precision, profile::quantity_name(curve.key.quantity),
                         profile::quantity_unit(curve.key.quantity), point.batch, point.value,
                         curve.pack);
    }
    points += curve.points.size();
  }
  GPEMU_TRY(write_file_atomically(options.output, csv));
  report::print_out("wrote {} points of {} curves to {}\n", points, curves.size(),
                    options.output.string());
  return {};
}

}  // namespace

void add_profile_export_command(Command profile, const World& world) {
  Command command = profile.subcommand("export", "Write a pack as a folder, or curves as CSV");
  auto options = std::make_shared<ExportOptions>();
  Option pack = command.option("--pack", options->pack, "Pack to write as a folder");
  add_selection_options(command, options->selection);
  for (const char* of_curves : {"--gpu", "--model", "--precision", "--quantity"}) {
    pack.excludes(of_curves);
  }
  command.option("--output", options->output, "New folder for the pack, or CSV file for the curves")
      .placeholder("PATH")
      .required();
  command.notes(
      "Examples:\n"
      "  gpemu profile export --pack gpemu-vldb25 --output my-pack\n"
      "  gpemu profile export --gpu K80 --model resnet50 --quantity forward --output k80.csv");
  command.on_run([options, &world] {
    return options->pack.empty() ? export_curves(*options, world) : export_pack(*options, world);
  });
}

void add_profile_add_command(Command profile, const World& world) {
  Command command =
      profile.subcommand("add", "Add a pack to your own database, or replace it there");
  auto folder = std::make_shared<fs::path>();
  command.option("folder", *folder, "Folder with pack.toml").required();
  command.notes(
      "Your packs take precedence over the installed ones, and later packs over earlier ones.\n"
      "Example:\n"
      "  gpemu profile add my-pack");
  command.on_run([folder, &world] { return add(*folder, world); });
}

void add_profile_remove_command(Command profile, const World& world) {
  Command command = profile.subcommand("remove", "Remove a pack from your own database");
  auto name = std::make_shared<std::string>();
  command.option("name", *name, "Name of the pack, as gpemu profile list shows it").required();
  command.notes(
      "Example:\n"
      "  gpemu profile remove my-pack");
  command.on_run([name, &world] { return remove(*name, world); });
}

void add_profile_command(Command app, const World& world) {
  Command profile =
      app.subcommand("profile", "List, show, measure, add, check and export profiles");
  profile.require_subcommand();
  profile.notes(
      "Examples:\n"
      "  gpemu profile list\n"
      "  gpemu profile show --gpu V100-PCIE-32GB --model resnet50");
  add_profile_list_command(profile, world);
  add_profile_show_command(profile, world);
  add_profile_export_command(profile, world);
  add_profile_measure_command(profile, world);
  add_profile_import_command(profile, world);
  add_profile_check_command(profile, world);
  add_profile_compare_command(profile, world);
  add_profile_add_command(profile, world);
  add_profile_remove_command(profile, world);
}

}  // namespace gpemu::tools
