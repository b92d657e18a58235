// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>

#include "gpemu/topology/peer_copy.hpp"
#include "gpemu/train/step_plan.hpp"

namespace gpemu::train {
namespace {

using topology::Collective;

/// Parameters and gradients go in pieces of this size. Source: PyTorch 2.8, torch/nn/parallel:
/// comm.broadcast_coalesced and comm.reduce_add_coalesced.
constexpr Bytes kPiece = 10 * kMiB;

/// What Python takes to replicate the modules and to start a thread per GPU, or the autograd engine
/// to start its own and to join them, per pass. Fitted: ResNet-18 on two P100 (GPEmu's study of
/// DataParallel, gpufs, branch Haoran_inter_gpu_study) takes 8.2 ms longer in the forward and 8.2
/// ms in the backward pass than on one, and the exchanges take 6 ms of each.
constexpr Duration kHostTime = std::chrono::milliseconds(2);

cost::Estimate in_pieces(const topology::Fabric& fabric, Collective collective, Bytes bytes,
                         double link_share) {
  cost::Estimate whole{.time = kHostTime, .evidence = cost::Evidence::kTransferred};
  for (; bytes > 0; bytes -= std::min(bytes, kPiece)) {
    const topology::CollectiveTime piece =
        topology::time_of(fabric, collective, std::min(bytes, kPiece), link_share);
    whole.time += piece.time;
    whole.relative_error = std::max(whole.relative_error, piece.relative_bar);
  }
  return whole;
}

/// Of one copy between the first GPU and each of the others; all of them cross its link.
cost::Estimate with_first_gpu(const profile::GpuSpec& gpu, const topology::Fabric& fabric,
                              Bytes bytes, double link_share) {
  const topology::PeerCopy copy = topology::peer_copy(gpu, topology::peer_path(gpu, fabric.inside));
  const Duration one =
      copy.latency + from_seconds(static_cast<double>(bytes) / (copy.rate * link_share));
  return {one * (fabric.ranks - 1), cost::Evidence::kAnalytic,
          topology::bars_of(fabric.inside)[topology::size_class(bytes)]};
}

cost::Estimate less(cost::Estimate estimate, Duration time) {
  estimate.time = std::max(estimate.time - time, Duration::zero());
  return estimate;
}

}  // namespace

std::vector<StepPart> data_parallel_parts(const DataParallelStep& step, Replicated replicated,
                                          const profile::GpuSpec& gpu,
                                          const topology::Fabric& fabric) {
  const bool has_head = replicated == Replicated::kConvolutions;
  const std::span<const step::Gradient> gradients =
      std::span(step.step.gradients).subspan(has_head ? step.step.head_gradients : 0);
  const Bytes parameters = std::accumulate(
      gradients.begin(), gradients.end(), Bytes{0},
      [](Bytes sum, const step::Gradient& gradient) { return sum + gradient.bytes; });
  const Bytes outputs = static_cast<Bytes>(step.cost.batch) *
                        (has_head ? step.step.head_input_bytes : step.step.output_bytes);
  const cost::Estimate backward = step.cost.backward_optimizer;
  cost::Estimate head = step.cost.forward, optimizer = backward;
  head.time = step.head_of_all.forward + step.head_of_all.backward;
  optimizer.time = step.step.optimizer;
  using CostAt = std::function<cost::Estimate(double link_share)>;
  const auto exchange = [](std::string_view name, const CostAt& cost_at) {
    return StepPart{.name = name,
                    .exchange = true,
                    .cost = cost_at(1),
                    .at_link_share = [cost_at](double share) { return cost_at(share).time; }};
  };
  const auto of_parameters = [&](Collective collective) {
    return [=](double share) { return in_pieces(fabric, collective, parameters, share); };
  };
  const CostAt of_outputs = [=](double share) {
    return with_first_gpu(gpu, fabric, outputs, share);
  };
  std::vector<StepPart> parts = {
      exchange("replicate", of_parameters(Collective::kBroadcast)),
      {.name = "forward", .cost = less(step.cost.forward, step.head_of_share.forward)},
      exchange("gather outputs", of_outputs)};
  if (has_head) parts.push_back({.name = "head", .first_gpu_only = true, .cost = head});
  parts.push_back(exchange("scatter gradients", of_outputs));
  parts.push_back({.name = "backward",
                   .cost = less(backward, step.step.optimizer + step.head_of_share.backward)});
  parts.push_back(exchange("reduce gradients", of_parameters(Collective::kReduce)));
  parts.push_back({.name = "optimizer", .first_gpu_only = true, .cost = optimizer});
  return parts;
}

}  // namespace gpemu::train
