// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/step_plan.hpp"

#include <algorithm>

#include "gpemu/topology/fabric.hpp"

namespace gpemu::train {
namespace {

/// Bytes of one element of the input and of one gradient: FP32.
constexpr Bytes kFloatBytes = 4;

/// Returns whether PyTorch's example for ImageNet replicates a model's convolutions only. Source:
/// github.com/pytorch/examples, imagenet/main.py: AlexNet and VGG have most of their parameters in
/// the fully connected layers.
Replicated replicated_of(std::string_view model) {
  return model.starts_with("alexnet") || model.starts_with("vgg") ? Replicated::kConvolutions
                                                                  : Replicated::kNetwork;
}

Result<std::vector<StepPart>> plan_ddp(const step::StepCostModel& model, const step::StepCost& cost,
                                       const topology::Fabric& fabric) {
  Result<step::StepParts> step = model.parts(cost.batch);
  if (!step && step.error().code != ErrorCode::kUnsupported) return std::unexpected(step.error());
  if (!step) {
    // When the gradients exist is not known: in the worst case, at the end.
    step = step::StepParts{};
    step->gradients = {
        {.bytes = model.model().parameters * kFloatBytes, .ready = cost.backward_optimizer.time}};
  }
  return with_slow_ranks(ddp_parts(cost, *step, model.gpu(), fabric), fabric.ranks);
}

Result<std::vector<StepPart>> plan_data_parallel(const step::StepCostModel& model,
                                                 const step::StepCost& cost,
                                                 const topology::Fabric& fabric) {
  GPEMU_ASSIGN(const step::StepParts step, model.parts(cost.batch));
  DataParallelStep costs{.cost = cost, .step = step};
  const Replicated replicated = replicated_of(model.model().name);
  if (replicated == Replicated::kConvolutions) {
    GPEMU_ASSIGN(costs.head_of_share, model.head(cost.batch));
    GPEMU_ASSIGN(costs.head_of_all, model.head(cost.batch * fabric.ranks));
  }
  return data_parallel_parts(costs, replicated, model.gpu(), fabric);
}

Result<void> check(int batch, const Sharing& sharing) {
  const int gpus = sharing.gpus;
  if (batch < 1 || gpus < 1) {
    return fail(ErrorCode::kInvalidArgument, "batch ({}) and GPUs ({}) must be at least 1", batch,
                gpus);
  }
  if (batch % gpus != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "a batch of {} cannot be divided equally over {} GPUs: use {} or {}", batch, gpus,
                std::max(batch / gpus, 1) * gpus, (batch / gpus + 1) * gpus);
  }
  if (sharing.parallel == Parallel::kDataParallel && sharing.fabric && sharing.fabric->nodes > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "DataParallel is one process on one node, so it cannot use {} nodes: use ddp",
                sharing.fabric->nodes);
  }
  return {};
}

}  // namespace

int StepPlan::distinct_gpus() const {
  return gpus > 1 && std::ranges::any_of(parts, &StepPart::first_gpu_only) ? 2 : 1;
}

StepTime time_of(const StepPlan& plan) {
  StepTime time;
  Duration computed{}, exchanged{}, exchanging{};
  for (const StepPart& part : plan.parts) {
    if (part.exchange) {
      exchanged = std::max(exchanged, computed - part.before_end) + part.cost.time;
      exchanging += part.cost.time;
      continue;
    }
    time.exposed += std::max(exchanged - computed, Duration::zero());
    computed = std::max(computed, exchanged) + part.cost.time;
  }
  time.exposed += std::max(exchanged - computed, Duration::zero());
  time.total = std::max(computed, exchanged);
  time.hidden = exchanging - time.exposed;
  return time;
}

std::vector<StepPart> compute_parts(const step::StepCost& cost) {
  return {{.name = "forward", .cost = cost.forward},
          {.name = "backward, optimizer", .cost = cost.backward_optimizer}};
}

Result<StepPlan> plan_step(const step::StepCostModel& model, int batch, const Sharing& sharing) {
  GPEMU_TRY(check(batch, sharing));
  const int gpus = sharing.gpus;
  StepPlan plan;
  plan.gpus = gpus;
  GPEMU_ASSIGN(plan.cost, model.step(batch / gpus));
  plan.input_bytes = static_cast<Bytes>(batch / gpus) * kFloatBytes;
  for (const int extent : model.model().input_shape) {
    plan.input_bytes *= static_cast<Bytes>(extent);
  }
  if (gpus == 1) {
    plan.parts = compute_parts(plan.cost);
    return plan;
  }
  const topology::Fabric fabric =
      sharing.fabric ? *sharing.fabric : topology::fabric_of(model.gpu(), gpus);
  plan.gpus_per_node = fabric.ranks_per_node();
  if (fabric.inside == topology::LinkClass::kNvlink) plan.link = profile::GpuLink::kNvlink;
  if (sharing.parallel == Parallel::kDdp) {
    GPEMU_ASSIGN(plan.parts, plan_ddp(model, plan.cost, fabric));
  } else {
    GPEMU_ASSIGN(plan.parts, plan_data_parallel(model, plan.cost, fabric));
  }
  return plan;
}

}  // namespace gpemu::train
