// SPDX-License-Identifier: Apache-2.0
//
// How many emulated GPUs one host can stand in for: 1,000 of them in real time, each with a thread
// of its own as a training process has, and 1,000 over an hour of virtual time.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "gpemu/device/device.hpp"

namespace gpemu {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr int kGpus = 1000;
constexpr Duration kStep = 100ms;

std::vector<std::unique_ptr<device::Device>> open_devices(sim::Clock& clock) {
  const device::NodeConfig config{
      .name = "scale",
      .devices = std::vector<device::DeviceConfig>(kGpus, {.gpu = "SCALE", .memory_bytes = kGiB})};
  const auto node = device::Node::create_private(config).value();
  std::vector<std::unique_ptr<device::Device>> devices;
  for (int i = 0; i < kGpus; ++i) {
    devices.push_back(device::Device::open(node, i, clock).value());
  }
  return devices;
}

/// What one emulated GPU did in a real-time run.
struct Outcome {
  int steps = 0;
  Duration max_lateness{};  ///< of the host's wake-up after the end of a step.
};

/// Trains for `span`: one step runs, the next is queued, the host waits for the first. Returns the
/// steps that were seen to end within the span, give or take half a step.
Outcome train(device::Device& device, Duration span) {
  sim::Clock& clock = device.clock();
  const auto stream = device.create_stream();
  TimePoint end = stream->launch(kStep).expected.end;
  const TimePoint last_end = end - kStep + span + kStep / 2;
  Outcome outcome;
  while (true) {
    const TimePoint next_end = stream->launch(kStep).expected.end;
    clock.wait_until(end);
    const TimePoint now = clock.now();
    if (now > last_end) return outcome;
    outcome.max_lateness = std::max(outcome.max_lateness, now - end);
    ++outcome.steps;
    end = next_end;
  }
}

void BM_ThousandGpusRealTime(benchmark::State& state) {
  constexpr Duration kSpan = 10s;
  // Without spinning: a thousand waiting threads share few cores.
  sim::RealClock clock(Duration::zero());
  for (auto _ : state) {
    const auto devices = open_devices(clock);
    std::vector<Outcome> outcomes(kGpus);
    std::vector<std::thread> threads;
    threads.reserve(kGpus);
    for (std::size_t i = 0; i < kGpus; ++i) {
      threads.emplace_back([&, i] { outcomes[i] = train(*devices[i], kSpan); });
    }
    for (std::thread& thread : threads) thread.join();
    const auto [least, most] = std::ranges::minmax(outcomes, {}, &Outcome::steps);
    const Outcome latest = std::ranges::max(outcomes, {}, &Outcome::max_lateness);
    constexpr auto kExact = static_cast<int>(kSpan / kStep);
    state.counters["gpus"] = kGpus;
    state.counters["steps_exact"] = kExact;
    state.counters["steps_min"] = least.steps;
    state.counters["steps_max"] = most.steps;
    state.counters["max_lateness_ms"] = to_milliseconds(latest.max_lateness);
    if (least.steps * 100 < kExact * 99 || most.steps * 100 > kExact * 101) {
      state.SkipWithError("a GPU's count of steps is more than 1 % off");
    }
  }
}
BENCHMARK(BM_ThousandGpusRealTime)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

void BM_ThousandGpusVirtualHour(benchmark::State& state) {
  constexpr Duration kSpan = 1h;
  std::int64_t events = 0;
  for (auto _ : state) {
    sim::VirtualClock clock;
    const auto devices = open_devices(clock);
    // The end of each GPU's step, the earliest first.
    using StepEnd = std::pair<TimePoint, std::size_t>;
    std::priority_queue<StepEnd, std::vector<StepEnd>, std::greater<>> queue;
    for (std::size_t i = 0; i < kGpus; ++i) {
      queue.emplace(devices[i]->default_stream().launch(kStep).expected.end, i);
    }
    while (queue.top().first <= TimePoint(kSpan)) {
      const auto [end, gpu] = queue.top();
      queue.pop();
      clock.wait_until(end);
      queue.emplace(devices[gpu]->default_stream().launch(kStep).expected.end, gpu);
      ++events;
    }
    if (events % (kGpus * (kSpan / kStep)) != 0) state.SkipWithError("steps were lost");
  }
  state.SetItemsProcessed(events);
}
BENCHMARK(BM_ThousandGpusVirtualHour)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace gpemu
