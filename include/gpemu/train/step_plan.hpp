// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/profile/fault_plan.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/step/step_cost.hpp"
#include "gpemu/topology/collective.hpp"

namespace gpemu::train {

/// How several GPUs train on one batch; the names are PyTorch's.
enum class Parallel : std::uint8_t {
  kDdp,           ///< DistributedDataParallel: a process per GPU, gradients in buckets.
  kDataParallel,  ///< DataParallel: one process, whose first GPU has the model and the optimizer.
};
inline constexpr std::array<std::string_view, 2> kParallelNames = {"ddp", "data-parallel"};

/// A part of a step. A GPU computes one part after the other, in the order of the plan, each after
/// the exchanges before it. All GPUs take part in an exchange: it starts when the last of them has
/// the data, and the exchange before it has ended.
struct StepPart {
  std::string_view name;  ///< a literal.
  bool exchange = false;  ///< data goes between the GPUs; else they compute.
  bool first_gpu_only = false;
  cost::Estimate cost;
  /// Of an exchange: how long before the end of the computation before it a GPU has the data.
  Duration before_end{};
  /// Of an exchange: its time if the links within a machine have only that share of their rate;
  /// nothing: the same.
  std::function<Duration(double link_share)> at_link_share{};
};

/// The costs of each step of a run on each of its GPUs, which are all of one kind.
struct StepPlan {
  step::StepCost cost;    ///< of one GPU's share of the batch, without the other GPUs.
  Bytes input_bytes = 0;  ///< of one GPU's share of the batch.
  int gpus = 1;
  profile::GpuLink link = profile::GpuLink::kPcie;  ///< that joins the GPUs of a machine.
  int gpus_per_node = 1;                            ///< in a machine.
  std::vector<StepPart> parts;

  /// Returns how many of the GPUs differ in what they do: only the first can. The others are like
  /// the last of these.
  [[nodiscard]] int distinct_gpus() const;
};

/// How long a step takes on the first GPU if nothing is late, without copies.
struct StepTime {
  Duration total{};
  Duration
      exposed{};      ///< of it, the GPU neither computes nor waits for a slower one: it exchanges.
  Duration hidden{};  ///< exchanges beside computation.
};
[[nodiscard]] StepTime time_of(const StepPlan& plan);

/// How the GPUs of a run share its steps.
struct Sharing {
  int gpus = 1;
  Parallel parallel = Parallel::kDdp;
  /// What joins the GPUs; nothing: what fabric_of(gpu, gpus) says. Its ranks are `gpus`.
  std::optional<topology::Fabric> fabric = std::nullopt;
};

/// Returns the plan of data-parallel steps of `batch` samples over all GPUs.
///
/// Errors: kInvalidArgument if the batch cannot be divided equally; kUnsupported for DataParallel
/// with a model without recorded operations; those of StepCostModel::step.
[[nodiscard]] Result<StepPlan> plan_step(const step::StepCostModel& model, int batch,
                                         const Sharing& sharing);

/// Returns the parts of a step of one GPU.
[[nodiscard]] std::vector<StepPart> compute_parts(const step::StepCost& cost);

/// Gradients that are exchanged together.
struct Bucket {
  Bytes bytes = 0;
  Duration ready{};  ///< as Gradient::ready, of the last gradient.
};

/// Divides gradients into buckets, as DDP does after its first step. Source: PyTorch 2.8,
/// torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size: gradients in the
/// order in which they come; a bucket is full once it has its size or more, 1 MiB for the first and
/// 25 MiB for the others (kDefaultFirstBucketBytes, kDefaultBucketBytesCap).
[[nodiscard]] std::vector<Bucket> ddp_buckets(std::span<const step::Gradient> gradients);

/// Returns the parts of a step under DDP: the all-reduces of the buckets run one after the other
/// beside the backward pass. Gradients are copied to the buckets during the backward pass, and back
/// before the optimizer. Source: the same file, mark_variable_ready_dense and
/// finalize_bucket_dense, with gradient_as_bucket_view=False, the default.
[[nodiscard]] std::vector<StepPart> ddp_parts(const step::StepCost& cost,
                                              const step::StepParts& step,
                                              const profile::GpuSpec& gpu,
                                              const topology::Fabric& fabric);

/// Returns the parts of a step whose ranks are not equally fast: computation takes as long as on
/// the slowest of them, and the one during which exchanges run takes a share of their time longer
/// (gpemu/step/rank_slowdown.hpp).
[[nodiscard]] std::vector<StepPart> with_slow_ranks(std::vector<StepPart> parts, int ranks);

/// The part of a network that DataParallel replicates.
enum class Replicated : std::uint8_t {
  kNetwork,
  kConvolutions,  ///< without the fully connected layers at its end, which the first GPU computes.
};

/// The costs of a step under DataParallel. `step`: of one GPU's share of the batch.
struct DataParallelStep {
  const step::StepCost& cost;
  const step::StepParts& step;
  /// The fully connected layers, of the share and of the whole batch; only for
  /// Replicated::kConvolutions.
  step::HeadTime head_of_share{};
  step::HeadTime head_of_all{};
};

/// Returns the parts of a step under DataParallel: all GPUs get the parameters, compute, and give
/// outputs and gradients to the first one. Requires: the fabric is within one node.
[[nodiscard]] std::vector<StepPart> data_parallel_parts(const DataParallelStep& step,
                                                        Replicated replicated,
                                                        const profile::GpuSpec& gpu,
                                                        const topology::Fabric& fabric);

}  // namespace gpemu::train
