// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "gpemu/gpemu.h"
#include "gpemu/profile/database.hpp"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

gpemu_estimate to_c(const cost::Estimate& estimate) {
  return {.time_ns = estimate.time.count(),
          .relative_error = estimate.relative_error,
          .evidence = static_cast<gpemu_evidence>(estimate.evidence)};
}
static_assert(static_cast<int>(cost::Evidence::kAnalytic) == GPEMU_EVIDENCE_ANALYTIC);
static_assert(static_cast<int>(cost::Evidence::kPublished) == GPEMU_EVIDENCE_PUBLISHED);

}  // namespace
}  // namespace gpemu

using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_cost_model_create(const char* model, const char* gpu, const char* precision,
                                     gpemu_cost_model** cost_model) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_cost_model_create", model, gpu, cost_model));
    GPEMU_ASSIGN(const gpemu::profile::Database database,
                 gpemu::profile::Database::open(gpemu::profile::Database::default_paths()));
    GPEMU_ASSIGN(auto created, gpemu::step::StepCostModel::create(
                                   database, model, gpu, precision != nullptr ? precision : ""));
    *cost_model = new gpemu_cost_model{std::move(created)};
    return {};
  });
}

void gpemu_cost_model_destroy(gpemu_cost_model* cost_model) {
  delete cost_model;
}

gpemu_status gpemu_cost_model_step(const gpemu_cost_model* cost_model, int32_t batch,
                                   gpemu_step_cost* cost) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_cost_model_step", cost_model, cost));
    GPEMU_ASSIGN(const gpemu::step::StepCost step, cost_model->model.step(batch));
    const gpemu_step_cost filled{.struct_size = 0,
                                 .forward = gpemu::to_c(step.forward),
                                 .backward_optimizer = gpemu::to_c(step.backward_optimizer),
                                 .copy_pageable = gpemu::to_c(step.copy_pageable),
                                 .copy_pinned = gpemu::to_c(step.copy_pinned),
                                 .persistent_bytes = step.memory.persistent,
                                 .peak_bytes = step.memory.peak,
                                 .reserved_bytes = step.memory.reserved};
    return gpemu::fill(cost, filled, "gpemu_cost_model_step");
  });
}

gpemu_status gpemu_cost_model_largest_batch(const gpemu_cost_model* cost_model, int32_t* batch) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_cost_model_largest_batch", cost_model, batch));
    *batch = cost_model->model.largest_batch();
    return {};
  });
}
