// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "gpemu/step/rank_slowdown.hpp"
#include "gpemu/train/step_plan.hpp"

namespace gpemu::train {

std::vector<Bucket> ddp_buckets(std::span<const step::Gradient> gradients) {
  constexpr Bytes kFirstBucket = kMiB;
  constexpr Bytes kOtherBuckets = 25 * kMiB;
  std::vector<Bucket> buckets;
  bool is_full = true;
  for (const step::Gradient& gradient : gradients) {
    if (is_full) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.bytes += gradient.bytes;
    bucket.ready = gradient.ready;
    is_full = bucket.bytes >= (buckets.size() == 1 ? kFirstBucket : kOtherBuckets);
  }
  return buckets;
}

std::vector<StepPart> ddp_parts(const step::StepCost& cost, const step::StepParts& step,
                                const profile::GpuSpec& gpu, const topology::Fabric& fabric) {
  // A copy reads and writes each byte.
  const auto copy_time = [&gpu](Bytes bytes) {
    return from_seconds(2 * static_cast<double>(bytes) / gpu.memory_bandwidth_bytes_per_s);
  };
  std::vector<step::Gradient> gradients = step.gradients;
  Bytes copied = 0;
  for (step::Gradient& gradient : gradients) {
    copied += gradient.bytes;
    gradient.ready += copy_time(copied);
  }
  const cost::Estimate copies{.time = copy_time(copied), .evidence = cost::Evidence::kAnalytic};
  cost::Estimate backward = cost.backward_optimizer, optimizer = cost.backward_optimizer;
  backward.time += copies.time - step.optimizer;
  optimizer.time = step.optimizer;
  std::vector<StepPart> parts = {{.name = "forward", .cost = cost.forward},
                                 {.name = "backward", .cost = backward}};
  for (const Bucket& bucket : ddp_buckets(gradients)) {
    const topology::CollectiveTime all_reduce =
        topology::time_of(fabric, topology::Collective::kAllReduce, bucket.bytes);
    parts.push_back(
        {.name = "all-reduce",
         .exchange = true,
         .cost = {all_reduce.time, cost::Evidence::kTransferred, all_reduce.relative_bar},
         .before_end = backward.time - bucket.ready,
         .at_link_share = [fabric, bytes = bucket.bytes](double share) {
           return topology::time_of(fabric, topology::Collective::kAllReduce, bytes, share).time;
         }});
  }
  parts.push_back({.name = "unpack buckets", .cost = copies});
  parts.push_back({.name = "optimizer", .cost = optimizer});
  return parts;
}

std::vector<StepPart> with_slow_ranks(std::vector<StepPart> parts, int ranks) {
  const double factor = 1 + step::slowest_of(ranks);
  for (StepPart& part : parts) {
    Duration& scaled = part.exchange ? part.before_end : part.cost.time;
    scaled = from_seconds(to_seconds(scaled) * factor);
  }
  const auto exchange = std::ranges::find_if(parts, &StepPart::exchange);
  if (exchange == parts.begin() || exchange == parts.end()) return parts;
  const Duration hidden = time_of({.parts = parts}).hidden;
  std::prev(exchange)->cost.time += from_seconds(step::kSlowedBeside * to_seconds(hidden));
  return parts;
}

}  // namespace gpemu::train
