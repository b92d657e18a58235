// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>

#include "gpemu/data/image.hpp"

#include "synthetic_image.hpp"

namespace gpemu::data {
namespace {

// The median file size of the default data set.
constexpr Bytes kFileBytes = 108'000;
constexpr std::size_t kImages = 32;

const std::vector<std::vector<std::byte>>& images() {
  static const auto made = [] {
    ImageSynthesizer synthesizer;
    std::vector<std::vector<std::byte>> jpegs;
    for (std::size_t i = 0; i < kImages; ++i) {
      sim::Rng rng(1, i);
      const auto jpeg = synthesizer.make(kFileBytes, rng);
      jpegs.emplace_back(jpeg.begin(), jpeg.end());
    }
    return jpegs;
  }();
  return made;
}

void BM_DecodeOnly(benchmark::State& state) {
  ImageTransform transform;
  std::size_t next = 0;
  for (auto _ : state) {
    if (!transform.decode_only(images()[next++ % kImages])) state.SkipWithError("corrupt");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_DecodeOnly);

void BM_Transform(benchmark::State& state) {
  ImageTransform transform;
  std::vector<float> sample(std::size_t{3} * 224 * 224);
  std::size_t next = 0;
  for (auto _ : state) {
    sim::Rng rng(1, next);
    if (!transform.apply(images()[next++ % kImages], rng, sample)) state.SkipWithError("corrupt");
    benchmark::DoNotOptimize(sample.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Transform);

void BM_MakeImage(benchmark::State& state) {
  ImageSynthesizer synthesizer;
  std::uint64_t next = 0;
  for (auto _ : state) {
    sim::Rng rng(1, next++);
    benchmark::DoNotOptimize(synthesizer.make(kFileBytes, rng).data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_MakeImage);

}  // namespace
}  // namespace gpemu::data
