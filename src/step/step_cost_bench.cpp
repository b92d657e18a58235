// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "test_evidence.hpp"

namespace gpemu::step {
namespace {

/// Records with 40 points per curve, about as many as the largest curves of a pack.
StepEvidence long_records() {
  StepEvidence known = evidence_for_test();
  known.gpu.memory_bytes = 16 * kGiB;
  for (profile::Curve& curve : known.curves) {
    const double slope = curve.points.back().value / curve.points.back().batch;
    for (int i = 1; i <= 36; ++i) {
      const int batch = 32 + 6 * i;
      curve.points.push_back({batch, slope * batch});
    }
  }
  return known;
}

/// The whole cost of one step at batches that are measured, interpolated and extrapolated in turn.
void BM_StepCostLookup(benchmark::State& state) {
  const Result<StepCostModel> model = StepCostModel::from_evidence(long_records());
  GPEMU_CHECK(model.has_value(), "the records are complete");
  int batch = 0;
  for ([[maybe_unused]] auto _ : state) {
    batch = batch % 320 + 1;
    benchmark::DoNotOptimize(model->step(batch));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_StepCostLookup);

}  // namespace
}  // namespace gpemu::step
