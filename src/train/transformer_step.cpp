// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/transformer_step.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <vector>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cost/operation_time.hpp"
#include "gpemu/step/host_times.hpp"
#include "gpemu/step/rank_slowdown.hpp"
#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/fabric.hpp"

namespace gpemu::train {
namespace {

using topology::Collective;

/// The width between a layer's two products, as a multiple of the hidden size.
constexpr std::int64_t kInnerWidth = 4;
/// Elements of FP32 that an optimizer step reads and writes for each parameter: Adam's two averages
/// and the parameter in FP32, the gradient and the parameter in 16 bits, and the gradient once more
/// for its norm.
constexpr double kOptimizerRead = 4, kOptimizerWritten = 3.5;

/// The most that products in 16 bits reach of the datasheet's rate, by generation, because power is
/// limited. Source: A100, H100 and B200 SXM in Stas Bekman's Machine Learning Engineering, "Maximum
/// Achievable Matmul FLOPS". Volta was not measured; it is taken to be like Ampere.
constexpr std::array<double, 4> kMostOfPeak = {0.869, 0.869, 0.803, 0.776};
/// The share of that rate that FlashAttention and FlashAttention-2 reach, on average over forward
/// and backward pass. Sources, as ranges of which this is the middle: Dao, "FlashAttention-2",
/// 2023: 25 to 40 % and 50 to 73 % on A100; Shah et al., "FlashAttention-3", 2024: the second
/// reaches 35 % on H100, which is taken as the same loss for the first, and for Blackwell.
constexpr std::array<double, 4> kFlashOfPeak = {0.325, 0.325, 0.185, 0.185};
constexpr std::array<double, 4> kFlash2OfPeak = {0.615, 0.615, 0.35, 0.35};
/// Products of the backward pass of attention, for each of the forward pass: it computes the scores
/// once more. Source: the same.
constexpr double kAttentionBackward = 2.5;

/// Work of the GPU and of the host that launches it, in seconds.
struct Work {
  double device = 0, host = 0;
  double slack = 0;      ///< of the device: the sum of bar times time.
  double exchanged = 0;  ///< of the device: in collectives.

  Work& operator+=(const Work& other) {
    device += other.device;
    host += other.host;
    slack += other.slack;
    exchanged += other.exchanged;
    return *this;
  }
  Work operator*(double times) const {
    return {device * times, host * times, slack * times, exchanged * times};
  }
  /// The host and the device run beside each other.
  [[nodiscard]] double seconds() const { return std::max(device, host); }
};

/// Joins the GPUs of a layout.
struct Groups {
  topology::Fabric tensor, data, stages;
};

Result<Groups> groups_of(const ParallelLayout& layout, const profile::GpuSpec& gpu,
                         const profile::TopologySpec* machine) {
  const auto alone = [&gpu](int ranks) { return topology::fabric_of(gpu, std::max(ranks, 1)); };
  Groups groups{.tensor = alone(layout.tensor), .data = alone(layout.data), .stages = alone(2)};
  if (machine == nullptr) {
    groups.stages = topology::fabric_of(gpu, std::max(layout.gpus(), 2));
    groups.stages.ranks = 2;
    return groups;
  }
  const int most = static_cast<int>(machine->gpus.size());
  if (layout.gpus() > most && (layout.gpus() % most != 0 || most % layout.tensor != 0)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} GPUs, of which {} share products, do not fill machines of {}: choose other "
                "--tensor-parallel, --pipeline-parallel or --data-parallel",
                layout.gpus(), layout.tensor, most);
  }
  constexpr auto kNetwork = topology::LinkClass::kRdma;
  if (layout.tensor > 1) {
    GPEMU_ASSIGN(groups.tensor, topology::fabric_of(*machine, gpu, layout.tensor));
  }
  const int sharing = layout.tensor * layout.data;
  if (layout.data > 1 && sharing <= most) {
    std::vector<int> ranks;
    for (int i = 0; i < layout.data; ++i) ranks.push_back(i * layout.tensor);
    GPEMU_ASSIGN(groups.data, topology::fabric_of(*machine, gpu, ranks));
  } else if (layout.data > 1) {
    GPEMU_ASSIGN(groups.data, topology::fabric_of_nodes(*machine, gpu, layout.data,
                                                        (sharing + most - 1) / most, kNetwork));
  }
  if (layout.pipeline > 1 && layout.gpus() <= most) {
    const std::vector<int> ranks = {0, sharing};
    GPEMU_ASSIGN(groups.stages, topology::fabric_of(*machine, gpu, ranks));
  } else if (layout.pipeline > 1) {
    GPEMU_ASSIGN(groups.stages, topology::fabric_of_nodes(*machine, gpu, 2, 2, kNetwork));
  }
  return groups;
}

/// Prices parts of a transformer on one of the GPUs that share it.
class Parts {
 public:
  Parts(const Transformer& model, const ParallelLayout& layout, const profile::GpuSpec& gpu,
        const Groups& groups)
      : model_(model),
        layout_(layout),
        groups_(groups),
        costs_(gpu),
        host_(gpu),
        peak_((model.type == GPEMU_TYPE_FP16 ? gpu.fp16_tensor_flops : gpu.bf16_tensor_flops)
                  .value_or(gpu.fp32_flops)),
        generation_(static_cast<std::size_t>(groups.data.generation)),
        bytes_(static_cast<std::uint64_t>(gpemu_data_type_bytes(model.type))),
        tokens_(std::int64_t{layout.micro_batch} * model.sequence),
        hidden_(model.hidden) {}

  /// A layer's forward pass on one micro-batch.
  Work layer_forward() {
    Work work = normalization(true);
    work += product(tokens_, 3 * hidden_ / layout_.tensor, hidden_, true);
    work += attention(true);
    work += product(tokens_, hidden_, hidden_ / layout_.tensor, true);
    work += all_reduce();
    work += elementwise(2 * width(), width(), true);  // Bias, dropout and the sum.
    work += normalization(true);
    work += product(tokens_, inner(), hidden_, true);
    work += elementwise(tokens_ * inner(), tokens_ * inner(), true);  // Bias and GELU.
    work += product(tokens_, hidden_, inner(), true);
    work += all_reduce();
    work += elementwise(2 * width(), width(), true);
    return work;
  }

  /// And its backward pass: a product for the inputs and one for the weights.
  Work layer_backward() {
    Work work = elementwise(2 * width(), width(), false);
    work += gradients(tokens_, hidden_, inner());
    work += elementwise(2 * tokens_ * inner(), tokens_ * inner(), false);
    work += elementwise(tokens_ * inner(), inner(), false);  // The bias's gradient.
    work += gradients(tokens_, inner(), hidden_);
    work += all_reduce();
    work += normalization(false);
    work += elementwise(2 * width(), width(), false);
    work += gradients(tokens_, hidden_, hidden_ / layout_.tensor);
    work += attention(false);
    work += gradients(tokens_, 3 * hidden_ / layout_.tensor, hidden_);
    work += all_reduce();
    work += normalization(false);
    return work;
  }

  /// The embedding at the beginning, forward and backward.
  Work embedding() {
    Work work = elementwise(2 * width(), width(), true);
    work += elementwise(2 * width(), width(), false);
    return work;
  }

  /// The output and its loss, in FP32, forward and backward.
  Work output() {
    const std::int64_t words = model_.vocabulary / layout_.tensor;
    Work work = normalization(true);
    work += product(tokens_, words, hidden_, true);
    // To FP32; the maximum, differences, exponentials, and their sum; the same backward.
    constexpr int kLossPasses = 4;
    work += elementwise(tokens_ * words, tokens_ * words, true, GPEMU_TYPE_FP32) * kLossPasses;
    work += elementwise(tokens_ * words, tokens_ * words, false, GPEMU_TYPE_FP32);
    work += gradients(tokens_, words, hidden_);
    work += all_reduce();
    work += normalization(false);
    return work;
  }

  /// The optimizer's step for so many parameters.
  Work optimizer(double parameters) {
    return elementwise(static_cast<std::int64_t>(kOptimizerRead * parameters),
                       static_cast<std::int64_t>(kOptimizerWritten * parameters), false,
                       GPEMU_TYPE_FP32);
  }

  /// A stage sends a micro-batch's activations, or their gradients, and gets others.
  [[nodiscard]] double send() const {
    const Bytes bytes = bytes_ * static_cast<Bytes>(width() / layout_.tensor);
    return exchange_seconds(groups_.stages, Collective::kSendReceive, bytes);
  }

  /// An exchange of so many parameters or gradients between the data-parallel groups.
  [[nodiscard]] double exchange(Collective collective, double parameters) const {
    return exchange_seconds(groups_.data, collective,
                            bytes_ * static_cast<Bytes>(std::max(parameters, 0.0)));
  }

 private:
  [[nodiscard]] std::int64_t width() const { return tokens_ * hidden_; }
  [[nodiscard]] std::int64_t inner() const { return kInnerWidth * hidden_ / layout_.tensor; }

  [[nodiscard]] static double exchange_seconds(const topology::Fabric& fabric,
                                               Collective collective, Bytes bytes) {
    return to_seconds(topology::time_of(fabric, collective, bytes).time);
  }

  Work priced(gpemu_operation_kind kind, std::initializer_list<std::int64_t> shape, bool forward,
              gpemu_data_type type) {
    gpemu_operation operation{
        .struct_size = sizeof(gpemu_operation), .kind = kind, .type = type, .name = "transformer"};
    std::ranges::copy(shape, operation.shape);
    const cost::Estimate estimate = costs_.price(operation).estimate;
    // As step::host_cost() has it.
    const bool is_product = kind == GPEMU_OPERATION_MATMUL;
    const auto launch = forward || is_product ? cost::kHostOperation : cost::kHostSmall;
    const double device = to_seconds(estimate.time);
    return {
        .device = device, .host = host_.launch(launch), .slack = device * estimate.relative_error};
  }

  Work product(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool forward,
               std::int64_t batch = 1) {
    Work work = priced(GPEMU_OPERATION_MATMUL, {batch, rows, columns, depth}, forward, model_.type);
    const double flops = 2.0 * static_cast<double>(batch * rows) * static_cast<double>(columns) *
                         static_cast<double>(depth);
    set_least(work, flops / (kMostOfPeak.at(generation_) * peak_));
    return work;
  }
  /// Makes the device's time at least so long.
  static void set_least(Work& work, double seconds) {
    if (work.device >= seconds) return;
    work.slack *= seconds / work.device;
    work.device = seconds;
  }
  Work gradients(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    Work work = product(rows, depth, columns, false);
    work += product(depth, columns, rows, false);
    // Later micro-batches add to the gradient.
    if (layout_.micro_batches > 1) work += elementwise(2 * depth * columns, depth * columns, false);
    return work;
  }
  Work elementwise(std::int64_t read, std::int64_t written, bool forward) {
    return elementwise(read, written, forward, model_.type);
  }
  Work elementwise(std::int64_t read, std::int64_t written, bool forward, gpemu_data_type type) {
    return priced(GPEMU_OPERATION_ELEMENTWISE, {read, written, 1}, forward, type);
  }
  Work normalization(bool forward) {
    return priced(
        forward ? GPEMU_OPERATION_NORMALIZATION_FORWARD : GPEMU_OPERATION_NORMALIZATION_BACKWARD,
        {width(), 0, 0}, forward, model_.type);
  }

  Work attention(bool forward) {
    const std::int64_t heads = model_.heads / layout_.tensor, length = model_.sequence;
    const std::int64_t size = hidden_ / model_.heads, batch = layout_.micro_batch;
    if (layout_.attention != Attention::kSeparate) {
      Work work =
          priced(forward ? GPEMU_OPERATION_ATTENTION_FORWARD : GPEMU_OPERATION_ATTENTION_BACKWARD,
                 {batch, heads, heads, length, length, size, 1}, forward, model_.type);
      const auto& shares = layout_.attention == Attention::kFlash ? kFlashOfPeak : kFlash2OfPeak;
      // Two products, of which half of the scores are masked.
      const double flops = 2.0 * static_cast<double>(batch * heads * length) *
                           static_cast<double>(length * size) * (forward ? 1 : kAttentionBackward);
      set_least(work, flops / (shares.at(generation_) * peak_));
      return work;
    }
    const std::int64_t products = batch * heads, scores = products * length * length;
    const std::int64_t values = products * length * size;
    // Softmax and dropout of the scores, and a copy of the values to other places.
    Work work = elementwise(values, values, forward);
    for (int i = 0; i < (forward ? 1 : 2); ++i) {
      work += product(length, length, size, forward, products);
      work += product(length, size, length, forward, products);
    }
    work += elementwise(forward ? scores : 2 * scores, scores, forward);
    work += elementwise(scores, scores, forward);
    return work;
  }

  Work all_reduce() const {
    if (layout_.tensor == 1) return {};
    const topology::CollectiveTime time = topology::time_of(groups_.tensor, Collective::kAllReduce,
                                                            bytes_ * static_cast<Bytes>(width()));
    const double seconds = to_seconds(time.time);
    return {.device = seconds,
            .host = host_.launch(cost::kHostOperation),
            .slack = seconds * time.relative_bar,
            .exchanged = seconds};
  }

  const Transformer& model_;
  const ParallelLayout& layout_;
  const Groups& groups_;
  cost::OperationCostModel costs_;
  step::HostTimes host_;
  double peak_;  ///< of products, per second.
  std::size_t generation_;
  Bytes bytes_;
  std::int64_t tokens_, hidden_;
};

Result<void> check(const Transformer& model, const ParallelLayout& layout) {
  const auto least = std::min({model.layers, model.hidden, model.heads, model.sequence,
                               model.vocabulary, layout.tensor, layout.pipeline, layout.data,
                               layout.micro_batch, layout.micro_batches});
  if (least < 1) {
    return fail(ErrorCode::kInvalidArgument, "sizes of a transformer and its layout begin at 1");
  }
  const auto divides = [](std::string_view what, int whole, std::string_view by,
                          int parts) -> Result<void> {
    if (whole % parts == 0) return {};
    return fail(ErrorCode::kInvalidArgument, "{} {} cannot be divided equally by {} {}", whole,
                what, by, parts);
  };
  GPEMU_TRY(divides("layers", model.layers, "--pipeline-parallel", layout.pipeline));
  GPEMU_TRY(divides("heads", model.heads, "--tensor-parallel", layout.tensor));
  GPEMU_TRY(divides("hidden", model.hidden, "--heads", model.heads));
  if (layout.fully_shard && layout.pipeline > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "--fully-shard with --pipeline-parallel is not modelled: use one of them");
  }
  return {};
}

/// What exchanges add to the computation beside them: in one of `count` equal rounds, each takes
/// the longer of both, and the first exchange has nothing beside it.
double exposed_beside(double compute, double exchange, int count) {
  return exchange + (count - 1) * std::max(exchange - compute, 0.0);
}

}  // namespace

double Transformer::parameters() const {
  const double width = hidden;
  return 12.0 * layers * width * width + (1.0 * vocabulary + sequence) * width;
}

Result<TransformerStep> transformer_step(const Transformer& model, const ParallelLayout& layout,
                                         const profile::GpuSpec& gpu,
                                         const profile::TopologySpec* machine) {
  GPEMU_TRY(check(model, layout));
  GPEMU_ASSIGN(const Groups groups, groups_of(layout, gpu, machine));
  Parts parts(model, layout, gpu, groups);
  const int layers = model.layers / layout.pipeline, rounds = layout.micro_batches;
  const Work forward = parts.layer_forward();
  Work backward = parts.layer_backward();
  if (layout.recompute) backward += forward;

  // Stages: one micro-batch forward and backward in each.
  std::vector<Work> stages(static_cast<std::size_t>(layout.pipeline));
  for (Work& stage : stages) {
    stage += forward * layers;
    stage += backward * layers;
  }
  stages.front() += parts.embedding();
  stages.back() += parts.output();
  double compute = 0, once = 0, sent = 0;
  if (layout.pipeline > 1) sent = 2 * parts.send();
  Work slowest;
  for (const Work& stage : stages) {
    once += stage.seconds() + sent;
    if (stage.seconds() >= slowest.seconds()) slowest = stage;
  }
  compute = rounds * slowest.seconds();
  const double bubble = (rounds - 1) * (slowest.seconds() + sent) + once - compute;

  // Gradients and parameters.
  const double of_layer = 12.0 * model.hidden * model.hidden / layout.tensor;
  const double of_stage = layers * of_layer + 1.0 * model.vocabulary * model.hidden / layout.tensor;
  double data = 0, hidden = 0;
  if (layout.fully_shard) {
    const double gather = parts.exchange(Collective::kAllGather, of_layer);
    const double scatter = parts.exchange(Collective::kReduceScatter, of_layer);
    data = exposed_beside(forward.seconds(), gather, layers) +
           exposed_beside(backward.seconds(), gather + scatter, layers);
    data *= rounds;
    hidden = rounds * layers * (2 * gather + scatter) - data;
  } else {
    data = parts.exchange(Collective::kAllReduce, of_stage);
  }
  const double own = layout.fully_shard ? of_stage / layout.data : of_stage;
  const double optimizer = parts.optimizer(own).seconds();

  const double exchanged = rounds * slowest.exchanged;
  const double slower =
      step::slowest_of(layout.gpus()) * (compute + optimizer) + step::kSlowedBeside * hidden;
  const double total = compute + bubble + data + optimizer + slower;
  // The cost model has no longer operations.
  constexpr double kLongestSeconds = 3600;
  if (total > kLongestSeconds) {
    return fail(ErrorCode::kInvalidArgument,
                "an iteration would take more than an hour: use more GPUs or a smaller batch");
  }
  return TransformerStep{.total = from_seconds(total),
                         .compute = from_seconds(compute - exchanged),
                         .tensor = from_seconds(exchanged),
                         .bubble = from_seconds(bubble),
                         .data = from_seconds(data),
                         .optimizer = from_seconds(optimizer),
                         .slowest = from_seconds(slower),
                         .relative_bar = slowest.slack / slowest.device};
}

}  // namespace gpemu::train
