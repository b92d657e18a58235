// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "gpemu/profile/database.hpp"

namespace gpemu::profile {
namespace {

// The database that the build made, without a user's own.
Database::Paths built_database() {
  return {Database::default_paths().installed, {}};
}

void BM_OpenDatabase(benchmark::State& state) {
  const Database::Paths paths = built_database();
  for (auto _ : state) {
    Result<Database> database = Database::open(paths);
    if (!database) {
      state.SkipWithError(database.error().message.c_str());
      break;
    }
    benchmark::DoNotOptimize(database);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_OpenDatabase);

void BM_ReadCurve(benchmark::State& state) {
  Result<Database> database = Database::open(built_database());
  if (!database) {
    state.SkipWithError(database.error().message.c_str());
    return;
  }
  for (auto _ : state) {
    Result<std::optional<Curve>> curve =
        database->curve({"resnet50", "V100-PCIE-32GB", "fp32", Quantity::kForward});
    if (!curve || !*curve) {
      state.SkipWithError("no resnet50 on V100-PCIE-32GB in the built database");
      break;
    }
    benchmark::DoNotOptimize(curve);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ReadCurve);

}  // namespace
}  // namespace gpemu::profile
