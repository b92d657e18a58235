// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "gpemu/device/device.hpp"

namespace gpemu::device {
namespace {

/// A device on the real clock, as a program that trains has it.
struct Bed {
  sim::RealClock clock;
  std::shared_ptr<Node> node =
      Node::create_private(
          {.name = "bench", .devices = {{.gpu = "BENCH", .memory_bytes = 16 * kGiB}}})
          .value();
  std::unique_ptr<Device> device = Device::open(node, 0, clock).value();
  std::unique_ptr<Stream> stream = device->create_stream();
};

void BM_EnqueueKernel(benchmark::State& state) {
  Bed bed;
  for (auto _ : state) benchmark::DoNotOptimize(bed.stream->launch(Duration(1)));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_EnqueueKernel);

void BM_EnqueueCopy(benchmark::State& state) {
  Bed bed;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bed.stream->copy(Engine::kCopyHostToDevice, 4096, Duration(1)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_EnqueueCopy);

void BM_RecordEvent(benchmark::State& state) {
  Bed bed;
  Event event;
  for (auto _ : state) {
    bed.stream->record(event);
    benchmark::DoNotOptimize(event);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_RecordEvent);

void BM_AllocateAndFree(benchmark::State& state) {
  Bed bed;
  for (auto _ : state) {
    const auto address = bed.device->allocate(kMiB);
    benchmark::DoNotOptimize(bed.device->free(*address));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_AllocateAndFree);

}  // namespace
}  // namespace gpemu::device
