// SPDX-License-Identifier: Apache-2.0
#include "profile/curve_selection.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/ranges.h>

namespace gpemu::tools {
namespace {

// Names the GPUs on which the model was measured, if it was not measured on the requested one.
Result<std::string> measured_gpus(const profile::Database& database, const std::string& model) {
  GPEMU_ASSIGN(const std::vector<profile::CurveKey> keys, database.curve_keys(model));
  std::set<std::string> gpus;
  for (const profile::CurveKey& key : keys) gpus.insert(key.gpu);
  return fmt::format("{}", fmt::join(gpus, ", "));
}

Result<std::string> choose_precision(const profile::Database& database, const std::string& model,
                                     const std::string& gpu, const std::string& wanted) {
  GPEMU_ASSIGN(const std::vector<std::string> measured, database.precisions(model, gpu));
  if (measured.empty()) {
    GPEMU_ASSIGN(const std::string gpus, measured_gpus(database, model));
    return fail(ErrorCode::kNotFound, "{} was not measured on {}, but on {}", model, gpu,
                gpus.empty() ? "no GPU" : gpus);
  }
  if (wanted.empty() && measured.size() == 1) return measured.front();
  if (std::ranges::find(measured, wanted) != measured.end()) return wanted;
  const auto code = wanted.empty() ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound;
  return fail(code, "{} was measured on {} at {}; choose one with --precision", model, gpu,
              fmt::join(measured, ", "));
}

}  // namespace

void add_selection_options(Command command, CurveSelection& selection) {
  command.option("--gpu", selection.gpu, "GPU, by name or as the path of its TOML file");
  command.option("--model", selection.model, "Model");
  command.option("--precision", selection.precision,
                 "Precision, where several were measured, e.g. fp32");
  command.option("--quantity", selection.quantities, "Quantity; repeatable. Default: all")
      .one_of(profile::kQuantityNames);
}

Result<std::vector<profile::Curve>> select_curves(const profile::Database& database,
                                                  const CurveSelection& selection) {
  GPEMU_ASSIGN(const profile::GpuSpec gpu, database.gpu(selection.gpu));
  GPEMU_ASSIGN(const profile::ModelInfo model, database.model(selection.model));
  GPEMU_ASSIGN(const std::string precision,
               choose_precision(database, model.name, gpu.name, selection.precision));
  std::vector<profile::Curve> curves;
  for (std::size_t i = 0; i < profile::kQuantityNames.size(); ++i) {
    const auto& names = selection.quantities;
    const bool asked = std::ranges::find(names, profile::kQuantityNames.at(i)) != names.end();
    if (!names.empty() && !asked) continue;
    const profile::CurveKey key{model.name, gpu.name, precision, static_cast<profile::Quantity>(i)};
    GPEMU_ASSIGN(std::optional<profile::Curve> curve, database.curve(key));
    if (!curve && asked) {
      return fail(ErrorCode::kNotFound, "{} of {} was not measured on {} at {}",
                  profile::kQuantityNames.at(i), model.name, gpu.name, precision);
    }
    if (curve) curves.push_back(*std::move(curve));
  }
  return curves;
}

}  // namespace gpemu::tools
