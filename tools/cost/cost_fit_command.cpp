// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_fit_command.hpp"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/calibrate/calibration.hpp"
#include "gpemu/profile/calibration_file.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command.hpp"
#include "cost/cost_published.hpp"
#include "cost/recorded_gpus.hpp"

namespace gpemu::tools {
namespace {

using profile::Calibration;
using profile::kOperationParameters;
using OrderedJson = nlohmann::ordered_json;

struct FitCommandOptions {
  std::string recordings;
  std::string gpus_folder;
  bool as_json = false;
  bool published = false;
  std::string gpu = std::string(profile::kHalfGpu);  ///< to fit to published steps.
};

/// Returns the names of the packs that measured steps of the models on a GPU.
Result<std::string> packs_of(const calibrate::JoinedRecordings& recorded,
                             const profile::Database& database, const std::string& gpu) {
  std::set<std::string> packs;
  for (const std::string& model : recorded.models) {
    GPEMU_ASSIGN(const std::vector<profile::CurveKey> keys, database.curve_keys(model, gpu));
    for (const profile::CurveKey& key : keys) {
      if (key.quantity != profile::Quantity::kForward) continue;
      GPEMU_ASSIGN(const std::optional<profile::Curve> curve, database.curve(key));
      if (curve) packs.insert(curve->pack);
    }
  }
  return fmt::format("{}", fmt::join(packs, ", "));
}

bool is_at_bound(double value, const profile::Parameter& parameter) {
  constexpr double kNear = 1.005;  // Allows for four digits and the fit's step size.
  return value < parameter.least * kNear || value > parameter.most / kNear;
}

void print_table(const std::vector<Calibration>& calibrations, const World& world) {
  std::vector<std::string> header = {"parameter"};
  for (const Calibration& calibration : calibrations) header.push_back(calibration.gpu);
  report::TextTable table(std::move(header));
  for (std::size_t i = 0; i < kOperationParameters.size(); ++i) {
    std::vector<std::string> cells = {std::string(kOperationParameters.at(i).name)};
    for (const Calibration& calibration : calibrations) {
      const double value = calibration.parameters.at(i);
      cells.push_back(fmt::format("{:.4g}{}", value,
                                  is_at_bound(value, kOperationParameters.at(i)) ? "*" : " "));
    }
    table.add_row(std::move(cells));
  }
  const auto add_row = [&](std::string name, const auto& of) {
    std::vector<std::string> cells = {std::move(name)};
    for (const Calibration& calibration : calibrations) cells.push_back(of(calibration));
    table.add_row(std::move(cells));
  };
  add_row("tensor cores", [](const Calibration& c) { return c.tensor_cores ? "yes " : "no "; });
  add_row("models", [](const Calibration& c) { return fmt::format("{} ", c.models); });
  add_row("steps", [](const Calibration& c) { return fmt::format("{} ", c.steps); });
  add_row("mean error %",
          [](const Calibration& c) { return fmt::format("{:.1f} ", 100 * c.error); });
  report::print_out("{}\n*: at its bound\n", table.str(world.terminal().output_columns));
}

void print_json(const std::vector<Calibration>& calibrations) {
  OrderedJson document = OrderedJson::object();
  for (const Calibration& calibration : calibrations) {
    OrderedJson parameters = OrderedJson::object(), at_bound = OrderedJson::array();
    for (std::size_t i = 0; i < kOperationParameters.size(); ++i) {
      const profile::Parameter& parameter = kOperationParameters.at(i);
      parameters[std::string(parameter.name)] = calibration.parameters.at(i);
      if (is_at_bound(calibration.parameters.at(i), parameter)) at_bound.push_back(parameter.name);
    }
    document[calibration.gpu] = {{"pack", calibration.pack},
                                 {"models", calibration.models},
                                 {"steps", calibration.steps},
                                 {"mean_error", calibration.error},
                                 {"tensor_cores", calibration.tensor_cores},
                                 {"parameters", parameters},
                                 {"at_bound", at_bound}};
  }
  report::print_out("{}", report::json_text(document));
}

/// Writes the calibrations into the GPUs' files: into all of them, or into none.
Result<void> write(const std::string& folder, const std::vector<calibrate::CalibratedGpu>& gpus,
                   const std::vector<Calibration>& calibrations) {
  std::vector<std::pair<std::filesystem::path, std::string>> files;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto path = std::filesystem::path(folder) / (gpus[i].spec.name + ".toml");
    GPEMU_ASSIGN(const std::string old, read_file(path));
    GPEMU_ASSIGN(const profile::GpuSpec spec, profile::parse_gpu_spec(old, path.string()));
    Calibration calibration = calibrations[i];
    if (spec.calibration) calibration.bars = spec.calibration->bars;
    GPEMU_ASSIGN(std::string text, profile::replace_calibration(
                                       old, path.string(), calibration,
                                       calibrate::other_arithmetic(gpus[i], gpus, calibrations)));
    files.emplace_back(path, std::move(text));
  }
  for (const auto& [path, text] : files) {
    GPEMU_TRY(write_file_atomically(path, text));
    report::print_error("gpemu: wrote {}\n", path.string());
  }
  return {};
}

Result<void> fit(const FitCommandOptions& options, const World& world) {
  if (options.published) {
    GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
    return fit_published(options.recordings, options.gpu, database, options.gpus_folder, world);
  }
  GPEMU_ASSIGN(const calibrate::JoinedRecordings recorded,
               read_joined_recordings(options.recordings));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const std::vector<calibrate::CalibratedGpu> gpus,
               measured_gpus(options.recordings, recorded, database));
  std::error_code error;
  if (!options.gpus_folder.empty() && !std::filesystem::is_directory(options.gpus_folder, error)) {
    return fail(ErrorCode::kNotFound, "--write: there is no folder {}", options.gpus_folder);
  }
  GPEMU_ASSIGN(std::vector<Calibration> calibrations, calibrate::calibrate_gpus(recorded, gpus));
  for (Calibration& calibration : calibrations) {
    calibration.command = fmt::format("gpemu cost fit {}", options.recordings);
    GPEMU_ASSIGN(calibration.pack, packs_of(recorded, database, calibration.gpu));
  }
  if (options.as_json) {
    print_json(calibrations);
  } else {
    print_table(calibrations, world);
  }
  if (options.gpus_folder.empty()) return {};
  return write(options.gpus_folder, gpus, calibrations);
}

}  // namespace

void add_cost_fit_command(Command cost, const World& world) {
  Command command =
      cost.subcommand("fit", "Fit the operation cost model to measured training steps");
  auto options = std::make_shared<FitCommandOptions>();
  command
      .option("recordings", options->recordings,
              "Folder of recordings, e.g. evidence/packs/gpemu-vldb25/operations")
      .required();
  command
      .option("--write", options->gpus_folder,
              "Folder of the GPU files in which to write the parameters, e.g. catalog/gpus")
      .placeholder("FOLDER");
  command.flag("--json", options->as_json, "Print JSON");
  command
      .flag("--published", options->published,
            "Fit one GPU to the steps and operations of a folder such as evidence/published")
      .excludes("--json");
  command
      .option("--gpu", options->gpu,
              "With --published: the GPU to fit; default: " + std::string(profile::kHalfGpu))
      .placeholder("GPU");
  command.notes(
      "All GPUs on which the recorded models were measured are fitted together. The fit takes\n"
      "seconds. --write replaces the table \"calibration\" in their files, except for the error\n"
      "bars, which \"gpemu cost eval --write\" writes. The same measurements always give\n"
      "identical files. The new values take effect when the profiles are built again.\n"
      "Example:\n"
      "  gpemu cost fit evidence/packs/gpemu-vldb25/operations --write catalog/gpus\n"
      "  gpemu cost fit evidence/published --published --write catalog/gpus\n"
      "  gpemu cost fit evidence/ours/h200 --published --gpu H200-SXM-141GB --write catalog/gpus");
  command.on_run([options, &world] { return fit(*options, world); });
}

}  // namespace gpemu::tools
