// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "gpemu/sim/clock.hpp"
#include "gpemu/train/trainer.hpp"

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// What the training loop itself costs per step, on the virtual clock: range is the GPUs.
void BM_TrainStep(benchmark::State& state) {
  constexpr std::int64_t kSteps = 1000;
  const auto gpus = static_cast<int>(state.range(0));
  sim::VirtualClock clock;
  device::NodeConfig config{.name = "bench"};
  config.devices.resize(static_cast<std::size_t>(gpus), {.gpu = "GPU", .memory_bytes = kGiB});
  const auto node = device::Node::create_private(config).value();
  std::vector<std::unique_ptr<device::Device>> devices;
  std::vector<device::Device*> pointers;
  for (int i = 0; i < gpus; ++i) {
    devices.push_back(device::Device::open(node, i, clock).value());
    pointers.push_back(devices.back().get());
  }
  StepPlan plan{.input_bytes = kMiB, .gpus = gpus};
  plan.cost.forward.time = 3ms;
  plan.cost.backward_optimizer.time = 7ms;
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
BENCHMARK(BM_TrainStep)->Arg(1)->Arg(8)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace gpemu::train
