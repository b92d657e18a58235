// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "gpemu/pipeline/input_pipeline.hpp"

namespace gpemu::pipeline {
namespace {

/// Two epochs of the largest experiment's data set: 87,473 files, 24 workers and a page cache on
/// each node. Range: nodes, which divide as many files each.
void BM_Simulate(benchmark::State& state) {
  PipelineSetup setup;
  setup.cpu = {.model = "", .cores = 24, .threads = 48};
  setup.loader = {.name = "", .image_s = 0.006, .batch_s = 0.04, .start_s = 0.03};
  setup.storage = {.name = "", .access_s = 0.004, .bytes_per_s = 1e8};
  setup.nodes = static_cast<int>(state.range(0));
  setup.file_bytes.assign(std::size_t{87'473} * state.range(0), 122'700);
  setup.workers = 24;
  setup.step_s = 0.05;
  setup.cache.capacity = Bytes{87'473} * 122'880 / 2;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(simulate(setup));
  state.SetItemsProcessed(state.iterations() * 2 * state.range(0) * 87'473);
}
BENCHMARK(BM_Simulate)->RangeMultiplier(2)->Range(1, 128)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpemu::pipeline
