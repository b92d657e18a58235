// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/transformer_step.hpp"

#include <gtest/gtest.h>

#include "gpemu/step/rank_slowdown.hpp"
#include "gpemu/topology/fabric.hpp"

namespace gpemu::train {
namespace {

/// A GPU of Ampere with NVLink to seven others.
profile::GpuSpec ampere_gpu() {
  profile::GpuSpec gpu;
  gpu.name = "TOY";
  gpu.generation = profile::generation_facts(8, 0).value();
  gpu.multiprocessors = 108;
  gpu.cuda_cores = 6912;
  gpu.boost_clock_mhz = 1410;
  gpu.fp32_flops = 19.5e12;
  gpu.fp16_tensor_flops = 312e12;
  gpu.bf16_tensor_flops = 312e12;
  gpu.memory_bandwidth_bytes_per_s = 2e12;
  gpu.pinned_copy_bytes_per_s = 24e9;
  gpu.nvlink_bytes_per_s = 300e9;
  gpu.nvlink_gpus = 8;
  return gpu;
}

/// Nearly all of the time is that of the layers.
constexpr Transformer kModel = {
    .layers = 16, .hidden = 4096, .heads = 32, .sequence = 2048, .vocabulary = 8};

TransformerStep step_of(const ParallelLayout& layout, const Transformer& model = kModel) {
  const auto step = transformer_step(model, layout, ampere_gpu(), nullptr);
  EXPECT_TRUE(step) << step.error().message;
  return step ? *step : TransformerStep{};
}

double ms(Duration time) {
  return to_milliseconds(time);
}

TEST(TransformerStep, IsTheSumOfItsParts) {
  for (const ParallelLayout& layout :
       {ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .micro_batches = 4},
        ParallelLayout{.data = 8, .fully_shard = true, .recompute = true}}) {
    const TransformerStep step = step_of(layout);
    EXPECT_NEAR(
        ms(step.compute + step.tensor + step.bubble + step.data + step.optimizer + step.slowest),
        ms(step.total), 1e-5);
  }
}

TEST(TransformerStep, OfOneGpuHasNoExchanges) {
  const TransformerStep step = step_of({});
  EXPECT_EQ(step.tensor, Duration{});
  EXPECT_EQ(step.bubble, Duration{});
  EXPECT_EQ(step.data, Duration{});
  EXPECT_EQ(step.slowest, Duration{});
  // Products take three times the forward pass's, at no more than 86.9 % of the peak.
  const double products = 3 * 2 * 12.0 * kModel.layers * kModel.hidden * kModel.hidden *
                          kModel.sequence / (0.869 * 312e12);
  EXPECT_GT(ms(step.compute), 1e3 * products);
  EXPECT_LT(ms(step.compute), 2.5e3 * products);
}

TEST(TransformerStep, RunsTheForwardPassTwiceToRecompute) {
  const ParallelLayout once{.micro_batch = 4}, twice{.micro_batch = 4, .recompute = true};
  EXPECT_NEAR(ms(step_of(twice).compute) / ms(step_of(once).compute), 4.0 / 3, 0.06);
}

TEST(TransformerStep, WaitsForStagesAtTheBeginningAndTheEnd) {
  for (const int rounds : {4, 16}) {
    const TransformerStep step = step_of({.pipeline = 4, .micro_batches = rounds});
    EXPECT_NEAR(ms(step.bubble) / ms(step.compute), 3.0 / rounds, 0.15 * 3 / rounds) << rounds;
  }
}

TEST(TransformerStep, ExchangesFourTimesALayerIfGpusShareProducts) {
  const ParallelLayout layout{.tensor = 4, .micro_batches = 3};
  const auto time = topology::time_of(topology::fabric_of(ampere_gpu(), 4),
                                      topology::Collective::kAllReduce, 2 * 2048 * 4096);
  // And once for the output.
  EXPECT_NEAR(ms(step_of(layout).tensor), 3 * (4 * kModel.layers + 1) * ms(time.time), 0.01);
  EXPECT_LT(step_of(layout).compute, step_of({.micro_batches = 3}).compute);
}

TEST(TransformerStep, ExchangesGradientsOnceAnIteration) {
  const TransformerStep few = step_of({.data = 8}), many = step_of({.data = 8, .micro_batches = 8});
  EXPECT_EQ(few.data, many.data);
  const auto bytes = static_cast<Bytes>(2 * (12.0 * 16 * 4096 * 4096 + 8 * 4096));
  const auto time = topology::time_of(topology::fabric_of(ampere_gpu(), 8),
                                      topology::Collective::kAllReduce, bytes);
  EXPECT_EQ(few.data, time.time);
  EXPECT_NEAR(ms(few.slowest), step::slowest_of(8) * ms(few.compute + few.optimizer), 1e-3);
}

TEST(TransformerStep, HidesTheExchangesOfShards) {
  const ParallelLayout whole{.data = 8, .micro_batch = 4};
  ParallelLayout shards = whole;
  shards.fully_shard = true;
  EXPECT_LT(step_of(shards).data, step_of(whole).data / 2);
  EXPECT_NEAR(ms(step_of(whole).optimizer) / ms(step_of(shards).optimizer), 8, 0.2);
  // With little to compute, links are the limit.
  Transformer small = kModel;
  small.sequence = 16;
  shards.micro_batch = 1;
  EXPECT_GT(step_of(shards, small).data, step_of(shards).data);
}

TEST(TransformerStep, KeepsNoScoresInFlashAttention) {
  Transformer model = kModel;
  model.sequence = 8192;
  ParallelLayout layout;
  const Duration separate = step_of(layout, model).compute;
  layout.attention = Attention::kFlash;
  const Duration flash = step_of(layout, model).compute;
  layout.attention = Attention::kFlash2;
  EXPECT_LT(flash, separate);
  EXPECT_LT(step_of(layout, model).compute, flash);
}

TEST(TransformerStep, RefusesWhatCannotBeDivided) {
  const auto error_of = [](const ParallelLayout& layout) {
    const auto step = transformer_step(kModel, layout, ampere_gpu(), nullptr);
    return step ? std::string("none") : step.error().message;
  };
  EXPECT_EQ(error_of({.pipeline = 3}),
            "16 layers cannot be divided equally by --pipeline-parallel 3");
  EXPECT_EQ(error_of({.tensor = 3}), "32 heads cannot be divided equally by --tensor-parallel 3");
  EXPECT_TRUE(error_of({.micro_batches = 1'000'000}).contains("more than an hour"));
  EXPECT_TRUE(error_of({.micro_batch = 0}).contains("begin at 1"));
  EXPECT_TRUE(error_of({.pipeline = 2, .data = 2, .fully_shard = true}).contains("--fully-shard"));
}

}  // namespace
}  // namespace gpemu::train
