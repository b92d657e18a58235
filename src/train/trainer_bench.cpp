// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "gpemu/sim/clock.hpp"
#include "gpemu/train/trainer.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// What the training loop itself costs per step of `gpus` GPUs that exchange ten buckets, on the
/// virtual clock, with a number of devices.
void train_steps(benchmark::State& state, int gpus, int device_count) {
  constexpr std::int64_t kSteps = 1000;
  sim::VirtualClock clock;
  device::NodeConfig config{.name = "bench"};
  config.devices.resize(static_cast<std::size_t>(device_count),
                        {.gpu = "GPU", .memory_bytes = kGiB});
  const auto node = device::Node::create_private(config).value();
  std::vector<std::unique_ptr<device::Device>> devices;
  std::vector<device::Device*> pointers;
  for (int i = 0; i < device_count; ++i) {
    devices.push_back(device::Device::open(node, i, clock).value());
    pointers.push_back(devices.back().get());
  }
  StepPlan plan{.input_bytes = kMiB, .gpus = gpus};
  plan.parts = {{.name = "forward", .cost = {.time = 3ms}},
                {.name = "backward", .cost = {.time = 6ms}}};
  for (int i = 10; gpus > 1 && i > 0; --i) {
    plan.parts.push_back(
        {.name = "all-reduce", .exchange = true, .cost = {.time = 500us}, .before_end = i * 500us});
  }
  plan.parts.push_back({.name = "optimizer", .cost = {.time = 1ms}});
  plan.cost.copy_pinned.time = 1ms;
  plan.cost.memory.peak = kMiB;
  auto trainer = Trainer::create(plan, {}, pointers).value();
  const std::atomic<bool> stop{false};
  for (auto _ : state) {
    SyntheticSource source(8, kSteps, SyntheticSource::Place::kHostMemory);
    benchmark::DoNotOptimize(trainer.run(source, stop));
  }
  state.SetItemsProcessed(state.iterations() * kSteps);
}

/// Each GPU has a device, as on a node that others can use: range is the GPUs.
void BM_TrainStep(benchmark::State& state) {
  train_steps(state, static_cast<int>(state.range(0)), static_cast<int>(state.range(0)));
}
BENCHMARK(BM_TrainStep)->Arg(1)->Arg(8)->Arg(64)->Arg(1024);

/// One device stands for all, as with --clock virtual: range is the GPUs.
void BM_TrainStepOfGpusThatAreAlike(benchmark::State& state) {
  train_steps(state, static_cast<int>(state.range(0)), 1);
}
BENCHMARK(BM_TrainStepOfGpusThatAreAlike)->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace gpemu::train
