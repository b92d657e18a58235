// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_eval_command.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/calibrate/bars.hpp"
#include "gpemu/calibrate/evaluate.hpp"
#include "gpemu/profile/calibration_file.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cost/cost_eval_memory.hpp"
#include "cost/cost_eval_report.hpp"
#include "cost/cost_published.hpp"
#include "cost/recorded_gpus.hpp"

namespace gpemu::tools {
namespace {

using calibrate::PredictedStep;
using nlohmann::json;

struct EvalOptions {
  std::string folder;
  std::vector<std::string> protocols;
  std::string group = "gpu";
  bool as_json = false;
  bool check = false;
  std::string gpus_folder;
  bool memory = false;
  bool published = false;
  bool gpu_out = false;
};

/// The file of a GPU, into which bars can be written.
struct GpuFile {
  std::filesystem::path path;
  std::string text;
  profile::Calibration calibration;
  std::string other_arithmetic_like;
};

/// Reads the files of GPUs. Errors: kNotFound for one without parameters.
Result<std::vector<GpuFile>> read_gpu_files(const std::string& folder,
                                            const std::vector<calibrate::CalibratedGpu>& gpus) {
  if (std::error_code error; !std::filesystem::is_directory(folder, error)) {
    return fail(ErrorCode::kNotFound, "--write: there is no folder {}", folder);
  }
  std::vector<GpuFile> files;
  for (const calibrate::CalibratedGpu& gpu : gpus) {
    const auto path = std::filesystem::path(folder) / (gpu.spec.name + ".toml");
    GPEMU_ASSIGN(std::string text, read_file(path));
    GPEMU_ASSIGN(profile::GpuSpec spec, profile::parse_gpu_spec(text, path.string()));
    if (!spec.calibration) {
      return fail(ErrorCode::kNotFound,
                  "{} has no parameters; `gpemu cost fit --write` writes them", path.string());
    }
    files.push_back({.path = path,
                     .text = std::move(text),
                     .calibration = *std::move(spec.calibration),
                     .other_arithmetic_like = std::move(spec.other_arithmetic_like)});
  }
  return files;
}

/// Writes bars into the GPUs' files, beside their parameters.
Result<void> write_bars(std::vector<GpuFile> files,
                        const std::vector<profile::CalibrationBars>& bars) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    GpuFile& file = files[i];
    file.calibration.bars = bars[i];
    GPEMU_ASSIGN(file.text,
                 profile::replace_calibration(file.text, file.path.string(), file.calibration,
                                              file.other_arithmetic_like));
  }
  for (const GpuFile& file : files) {
    GPEMU_TRY(write_file_atomically(file.path, file.text));
    report::print_error("gpemu: wrote {}\n", file.path.string());
  }
  return {};
}

Result<void> evaluate(const EvalOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  if (options.published) {
    return evaluate_published(options.folder, database, options.gpu_out, options.as_json, world);
  }
  if (options.memory) {
    GPEMU_ASSIGN(const std::vector<step::Recording> recordings, read_recordings(options.folder));
    return evaluate_memory(recordings, database, options.as_json, world);
  }
  GPEMU_ASSIGN(const calibrate::JoinedRecordings recorded, read_joined_recordings(options.folder));
  GPEMU_ASSIGN(const std::vector<calibrate::CalibratedGpu> gpus,
               measured_gpus(options.folder, recorded, database));
  std::vector<GpuFile> files;
  if (!options.gpus_folder.empty()) {
    GPEMU_ASSIGN(files, read_gpu_files(options.gpus_folder, gpus));
  }
  json document = json::object();
  std::vector<std::string> faults;
  std::vector<profile::CalibrationBars> stated(gpus.size());
  for (std::size_t i = 0; i < calibrate::kProtocolNames.size(); ++i) {
    const std::string name(calibrate::kProtocolNames[i]);
    if (std::ranges::find(options.protocols, name) == options.protocols.end()) continue;
    const auto progress = [&](int done, int all) {
      report::print_error("gpemu: {}: fit {} of {}\n", name, done, all);
    };
    const auto protocol = static_cast<calibrate::Protocol>(i);
    GPEMU_ASSIGN(const std::vector<PredictedStep> steps,
                 calibrate::evaluate(recorded, gpus, protocol, progress));
    set_bars(gpus, steps, protocol, stated);
    const EvaluatedSteps evaluated{
        .recorded = recorded,
        .gpus = gpus,
        .protocol = protocol,
        .steps = steps,
        .bars = calibrate::crossed_bars(recorded, gpus, steps, protocol)};
    for (const std::string& gpu : wrong_bars(evaluated)) {
      faults.push_back(fmt::format("{} of {}", name, gpu));
    }
    if (options.as_json) {
      document[name] = evaluation_json(evaluated);
    } else {
      report::print_out("{}\n{}\n", name,
                        evaluation_text(evaluated, options.group, world.terminal()));
    }
  }
  if (options.as_json) report::print_out("{}", report::json_text(document));
  GPEMU_TRY(write_bars(std::move(files), stated));
  if (options.check && !faults.empty()) {
    return fail(ErrorCode::kInternal, "bars contain too few or too many steps: {}",
                fmt::join(faults, ", "));
  }
  return {};
}

}  // namespace

void add_cost_eval_command(Command cost, const World& world) {
  Command command =
      cost.subcommand("eval", "Compare the operation cost model with measured training steps");
  auto options = std::make_shared<EvalOptions>();
  options->protocols.assign(calibrate::kProtocolNames.begin(), calibrate::kProtocolNames.end());
  command
      .option("recordings", options->folder,
              "Folder of recordings, e.g. evidence/packs/gpemu-vldb25/operations")
      .required();
  command.option("--protocol", options->protocols, "Data that a prediction may use; default: all")
      .separated_by(',')
      .one_of(calibrate::kProtocolNames);
  command.option("--by", options->group, "Rows of the table: gpu, family, model or batch")
      .one_of(kEvaluationGroups);
  command.flag("--json", options->as_json, "Print each step as JSON");
  command
      .option("--write", options->gpus_folder,
              "Folder of the GPU files in which to write the bars, e.g. catalog/gpus")
      .placeholder("FOLDER")
      .excludes("--protocol");
  command.flag("--check", options->check,
               "Fail if a bar of 90 % contains less than 85 % or more than 95 % of a GPU's steps");
  command.flag("--memory", options->memory, "Compare peak memory, not times")
      .excludes("--protocol")
      .excludes("--by")
      .excludes("--write")
      .excludes("--check");
  command
      .flag("--published", options->published,
            "Compare the steps of a folder such as evidence/published, without a fit")
      .excludes("--protocol")
      .excludes("--by")
      .excludes("--write")
      .excludes("--check")
      .excludes("--memory");
  command
      .flag("--gpu-out", options->gpu_out,
            "With --published: predict each GPU with the parameters of another one")
      .needs("--published");
  command.notes(
      "in-sample: the fit uses the same steps. family-out: the fit leaves out each family of\n"
      "models in turn. gpu-out: the fit leaves out each GPU in turn; only the parameters of the\n"
      "GPU's host come from the GPU's own steps at batch 1 and 2. one-batch: the fit leaves out a\n"
      "twelfth of the models at a time; their steps at batch 32 then correct the predictions for\n"
      "their other batches.\n"
      "The error of a step is predicted / measured - 1. A bar contains 90 % of the steps of the\n"
      "other families or, in gpu-out, of the other GPUs; there, GPUs before Maxwell have no bar.\n"
      "Each fit takes about 15 s on one core.\n"
      "--memory: compares the memory of the recorded tensors with the measured peak at the same\n"
      "batches, without a fit.\n"
      "--published: compares steps that others published, with the parameters in the GPUs' files,\n"
      "by source, GPU, arithmetic and family. Families that are held out take no part in fits.\n"
      "Examples:\n"
      "  gpemu cost eval evidence/packs/gpemu-vldb25/operations --protocol in-sample\n"
      "  gpemu cost eval evidence/packs/gpemu-vldb25/operations --protocol family-out --by family\n"
      "  gpemu cost eval evidence/published --published\n"
      "  gpemu cost eval evidence/ours/h200 --published --gpu-out");
  command.on_run([options, &world] { return evaluate(*options, world); });
}

}  // namespace gpemu::tools
