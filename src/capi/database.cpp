// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

gpemu_gpu_info to_c(const profile::GpuSpec& spec) {
  gpemu_gpu_info info{};
  copy_text(info.name, spec.name);
  copy_text(info.product_name, spec.product_name);
  copy_text(info.architecture, spec.architecture);
  info.compute_capability_major = spec.compute_capability_major;
  info.compute_capability_minor = spec.compute_capability_minor;
  info.multiprocessors = spec.multiprocessors;
  info.memory_bytes = spec.memory_bytes;
  info.memory_bandwidth_bytes_per_s = spec.memory_bandwidth_bytes_per_s;
  info.fp32_flops = spec.fp32_flops;
  info.pinned_copy_bytes_per_s = spec.pinned_copy_bytes_per_s;
  return info;
}

gpemu_model_info to_c(const profile::ModelInfo& model) {
  gpemu_model_info info{};
  copy_text(info.name, model.name);
  info.parameters = model.parameters;
  std::ranges::copy(model.input_shape, info.input_shape);
  return info;
}

Result<std::string> name_at(const std::vector<std::string>& names, std::int32_t index) {
  if (index >= 0 && static_cast<std::size_t>(index) < names.size()) {
    return names[static_cast<std::size_t>(index)];
  }
  return fail(ErrorCode::kNotFound, "there is no entry {}: the database has {}", index,
              names.size());
}

}  // namespace
}  // namespace gpemu

using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_database_open(const char* file, gpemu_database** database) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_open", database));
    gpemu::profile::Database::Paths paths = gpemu::profile::Database::default_paths();
    if (file != nullptr) paths = {.installed = file, .user = {}};
    GPEMU_ASSIGN(auto opened, gpemu::profile::Database::open(paths));
    *database = new gpemu_database{.mutex = {}, .database = std::move(opened)};
    return {};
  });
}

void gpemu_database_close(gpemu_database* database) {
  delete database;
}

gpemu_status gpemu_database_gpu_count(gpemu_database* database, int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_gpu_count", database, count));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.gpu_names());
    *count = static_cast<int32_t>(names.size());
    return {};
  });
}

gpemu_status gpemu_database_gpu(gpemu_database* database, int32_t index, gpemu_gpu_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_gpu", database, info));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.gpu_names());
    GPEMU_ASSIGN(const std::string name, gpemu::name_at(names, index));
    GPEMU_ASSIGN(const auto spec, database->database.gpu(name));
    return gpemu::fill(info, gpemu::to_c(spec), "gpemu_database_gpu");
  });
}

gpemu_status gpemu_database_find_gpu(gpemu_database* database, const char* name,
                                     gpemu_gpu_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_find_gpu", database, name, info));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(const auto spec, database->database.gpu(name));
    return gpemu::fill(info, gpemu::to_c(spec), "gpemu_database_find_gpu");
  });
}

gpemu_status gpemu_database_model_count(gpemu_database* database, int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_model_count", database, count));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.model_names());
    *count = static_cast<int32_t>(names.size());
    return {};
  });
}

gpemu_status gpemu_database_model(gpemu_database* database, int32_t index, gpemu_model_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_model", database, info));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.model_names());
    GPEMU_ASSIGN(const std::string name, gpemu::name_at(names, index));
    GPEMU_ASSIGN(const auto model, database->database.model(name));
    return gpemu::fill(info, gpemu::to_c(model), "gpemu_database_model");
  });
}

gpemu_status gpemu_database_find_model(gpemu_database* database, const char* name,
                                       gpemu_model_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_find_model", database, name, info));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(const auto model, database->database.model(name));
    return gpemu::fill(info, gpemu::to_c(model), "gpemu_database_find_model");
  });
}

gpemu_status gpemu_database_cost_model(gpemu_database* database, const char* model, const char* gpu,
                                       const char* precision, gpemu_cost_model** cost_model) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_cost_model", database, model, gpu, cost_model));
    const gpemu::Lock lock(database->mutex);
    GPEMU_ASSIGN(auto created,
                 gpemu::step::StepCostModel::create(database->database, model, gpu,
                                                    precision != nullptr ? precision : ""));
    *cost_model = new gpemu_cost_model{std::move(created)};
    return {};
  });
}
