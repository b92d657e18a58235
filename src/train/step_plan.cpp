// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/fabric.hpp"
#include "gpemu/train/trainer.hpp"

namespace gpemu::train {
namespace {

/// Bytes of one element of the input and of one gradient: FP32.
constexpr Bytes kFloatBytes = 4;

cost::Estimate all_reduce_time(const profile::GpuSpec& gpu, Bytes bytes, int gpus) {
  if (gpus == 1) return {.evidence = cost::Evidence::kAnalytic};
  const topology::CollectiveTime cost =
      topology::time_of(topology::fabric_of(gpu, gpus), topology::Collective::kAllReduce, bytes);
  return {cost.time, cost::Evidence::kTransferred, cost.relative_bar};
}

}  // namespace

Result<StepPlan> plan_step(const cost::StepCostModel& model, int batch, int gpus) {
  if (batch < 1 || gpus < 1) {
    return fail(ErrorCode::kInvalidArgument, "batch ({}) and GPUs ({}) must be at least 1", batch,
                gpus);
  }
  if (batch % gpus != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "a batch of {} cannot be divided equally over {} GPUs: use {} or {}", batch, gpus,
                std::max(batch / gpus, 1) * gpus, (batch / gpus + 1) * gpus);
  }
  StepPlan plan;
  plan.gpus = gpus;
  GPEMU_ASSIGN(plan.cost, model.step(batch / gpus));
  const profile::ModelInfo& info = model.model();
  plan.all_reduce = all_reduce_time(model.gpu(), info.parameters * kFloatBytes, gpus);
  plan.input_bytes = static_cast<Bytes>(batch / gpus) * kFloatBytes;
  for (const int extent : info.input_shape) plan.input_bytes *= static_cast<Bytes>(extent);
  return plan;
}

}  // namespace gpemu::train
