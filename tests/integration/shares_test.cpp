// SPDX-License-Identifier: Apache-2.0
//
// The shares of a GPU that parties get: each policy, for each way to use a GPU and for one, two and
// eight parties, to the nanosecond.
//
// The ways are a training run (train::Trainer, as `gpemu train` has it), the C interface, and the
// streams of a device with their events. The last is what a program under `gpemu run` ends in: its
// calls become launches, and its waits become moments. Python calls the C interface, and so do the
// classes of GPEmu. Each party is an attachment of its own to the node, as a process has.
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/gpemu.h"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/train/trainer.hpp"

#include "handles.hpp"
#include "parties.hpp"

namespace gpemu {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
using device::ProcessPriority;
using device::SharingPolicy;

enum class Way { kTrain, kStreams, kCInterface };
constexpr std::array kWays = {Way::kTrain, Way::kStreams, Way::kCInterface};

/// Each step of each party: two kernels, of five and three time slices.
constexpr Duration kForward = 10ms, kBackward = 6ms, kStep = kForward + kBackward;
constexpr Duration kSlice = 2ms, kSwitch = 145us;
constexpr int kSteps = 40;
/// What is compared: past the start, and before the first party ends.
constexpr std::size_t kFirst = 10, kLast = 30;

/// The smallest GPU instance of an A100, of which it has room for seven. Source: its file.
constexpr int k1g5gb = 19;

/// How a party takes part.
struct Role {
  ProcessPriority priority = ProcessPriority::kNormal;
  double width = 1;  ///< of an MPS client.
  int steps = kSteps;
  Bytes limit = 0;  ///< of the memory; 0: none.
  device::ComputeShare share{};
  std::optional<std::size_t> instance{};  ///< of MIG; by default one of its own.
};

/// When the steps of a party ended, and what a training run says of itself.
struct Outcome {
  std::vector<TimePoint> ends;
  std::optional<train::TrainResult> result;
  std::vector<train::ObservedStep> steps;
};

/// A node, and parties that use its first GPU.
class Node {
 public:
  explicit Node(SharingPolicy policy, int mig_parties = 0)
      : spec_(
            profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml")
                .value()) {
    const device::DeviceConfig gpu = device::device_config(spec_);
    first_ = device::Node::create({.name = "n",
                                   .devices = {gpu, gpu},
                                   .policy = policy,
                                   .slices = {.quantum = kSlice, .context_switch = kSwitch}},
                                  folder_)
                 .value();
    const auto divide = [&](device::MigLayout& layout) -> Result<void> {
      for (int i = 0; i < mig_parties; ++i) {
        GPEMU_ASSIGN(const int instance, layout.create(k1g5gb));
        GPEMU_TRY(layout.create_compute(instance, 0));
      }
      return {};
    };
    if (mig_parties > 0) first_->mig(0).change(spec_.mig_profiles, divide).value();
  }
  ~Node() {
    first_.reset();
    std::filesystem::remove_all(folder_);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] device::Node& node() { return *first_; }
  /// Returns an attachment, as another process has it.
  [[nodiscard]] std::shared_ptr<device::Node> open() const {
    return device::Node::open("n", folder_).value();
  }

  /// Runs training on both GPUs, of so many parties: 14 ms, an all-reduce of 4 ms and 2 ms.
  std::vector<Outcome> train_on_both_gpus(std::size_t parties) {
    const auto clock = std::make_shared<Parties>();
    std::vector<Outcome> outcomes(parties);
    for (Outcome& outcome : outcomes) {
      const auto node = open();
      clock->add(node, [&outcome, node, clock] {
        const auto one = device::Device::open(node, 0, *clock).value();
        const auto other = device::Device::open(node, 1, *clock).value();
        std::array<device::Device*, 2> devices = {one.get(), other.get()};
        train::StepPlan plan{.gpus = 2};
        plan.parts = {{.name = "backward", .cost = {.time = 14ms}},
                      {.name = "all-reduce", .exchange = true, .cost = {.time = 4ms}},
                      {.name = "optimizer", .cost = {.time = 2ms}}};
        run_trainer(plan, devices, 20, outcome);
      });
    }
    clock->run();
    return outcomes;
  }

  /// Runs a party for each role, and returns what came of them.
  std::vector<Outcome> run(Way way, const std::vector<Role>& roles) {
    auto parties = std::make_shared<Parties>();
    std::vector<Outcome> outcomes(roles.size());
    std::vector<gpemu_node> nodes(roles.size());
    std::vector<gpemu_device> devices(roles.size());
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const Role& role = roles[i];
      nodes[i] = {.clock = parties, .node = open()};
      nodes[i].node->set_priority(role.priority);
      std::optional<device::MpsClient> client;
      if (role.width < 1) {
        client = {.width = static_cast<std::uint32_t>(role.width * device::kWholeWidth)};
      }
      devices[i] = {
          .clock = parties,
          .device = open(nodes[i].node, role.instance.value_or(i), *parties, client, role.share)};
      if (role.limit > 0) devices[i].device->limit_memory(role.limit);
      parties->add(nodes[i].node, [&, i] {
        switch (way) {
          case Way::kTrain:
            return train(*devices[i].device, roles[i], outcomes[i]);
          case Way::kStreams:
            return use_streams(*devices[i].device, roles[i], outcomes[i]);
          case Way::kCInterface:
            return use_c(devices[i], roles[i], outcomes[i]);
        }
      });
    }
    parties->run();
    return outcomes;
  }

 private:
  /// Opens the first GPU, or the MIG device of that number if it is divided.
  std::shared_ptr<device::Device> open(const std::shared_ptr<device::Node>& node,
                                       std::size_t number, sim::Clock& clock,
                                       const std::optional<device::MpsClient>& client,
                                       const device::ComputeShare& share) {
    if (node->policy() != SharingPolicy::kMig) {
      return device::Device::open(node, 0, clock, client, share).value();
    }
    const auto layout = node->mig(0).layout(spec_.mig_profiles);
    const auto devices = layout.devices(0, node->device_snapshot(0, TimePoint{}).uuid);
    return device::Device::open(node, devices.at(number), clock, share).value();
  }

  static void train(device::Device& device, const Role& role, Outcome& outcome) {
    train::StepPlan plan;
    plan.cost.forward.time = kForward;
    plan.cost.backward_optimizer.time = kBackward;
    plan.cost.memory = {.peak = kGiB};
    plan.parts = train::compute_parts(plan.cost);
    std::array<device::Device*, 1> devices = {&device};
    run_trainer(plan, devices, role.steps, outcome);
  }
  static void run_trainer(const train::StepPlan& plan, std::span<device::Device* const> devices,
                          int steps, Outcome& outcome) {
    auto trainer = train::Trainer::create(plan, {.queued_time = {}}, devices).value();
    train::SyntheticSource source(8, steps);
    const std::atomic<bool> stop{false};
    outcome.result = trainer
                         .run(source, stop,
                              [&](const train::ObservedStep& step) {
                                outcome.ends.push_back(step.end);
                                outcome.steps.push_back(step);
                              })
                         .value();
  }

  /// As a training loop that is two steps ahead of the GPU.
  static void use_streams(device::Device& device, const Role& role, Outcome& outcome) {
    const auto stream = device.create_stream();
    std::vector<device::Event> events(static_cast<std::size_t>(role.steps));
    std::size_t ended = 0;
    for (std::size_t i = 0; ended < events.size();) {
      if (i < events.size() && i < ended + 2) {
        stream->launch(kForward);
        stream->launch(kBackward);
        stream->record(events[i++]);
        continue;
      }
      const device::Moment& moment = events[ended++].moment();
      moment.wait(device.clock());
      outcome.ends.push_back(moment.time());
    }
  }

  static void use_c(gpemu_device& device, const Role& role, Outcome& outcome) {
    gpemu_stream* stream = nullptr;
    ASSERT_EQ(gpemu_stream_create(&device, GPEMU_STREAM_BLOCKING, &stream), GPEMU_OK);
    std::vector<gpemu_event*> events(static_cast<std::size_t>(role.steps));
    for (gpemu_event*& event : events) ASSERT_EQ(gpemu_event_create(&event), GPEMU_OK);
    std::size_t ended = 0;
    for (std::size_t i = 0; ended < events.size();) {
      if (i < events.size() && i < ended + 2) {
        EXPECT_EQ(gpemu_stream_launch(stream, kForward.count(), nullptr), GPEMU_OK);
        EXPECT_EQ(gpemu_stream_launch(stream, kBackward.count(), nullptr), GPEMU_OK);
        EXPECT_EQ(gpemu_event_record(events[i++], stream), GPEMU_OK);
        continue;
      }
      EXPECT_EQ(gpemu_event_synchronize(events[ended]), GPEMU_OK);
      int64_t time_ns = 0;
      EXPECT_EQ(gpemu_event_time(events[ended++], &time_ns), GPEMU_OK);
      outcome.ends.push_back(at_ns(time_ns));
    }
    for (gpemu_event* event : events) gpemu_event_destroy(event);
    gpemu_stream_destroy(stream);
  }

  profile::GpuSpec spec_;
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_shares_{}", ::getpid());
  std::shared_ptr<device::Node> first_;
};

/// Returns how long a step of a party takes, as a mean past its start.
double step_ms(const Outcome& outcome) {
  return to_milliseconds(outcome.ends.at(kLast) - outcome.ends.at(kFirst)) /
         static_cast<double>(kLast - kFirst);
}

/// All ends of all parties, to compare ways.
std::vector<std::vector<TimePoint>> ends_of(const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<TimePoint>> ends;
  for (const Outcome& outcome : outcomes) ends.push_back(outcome.ends);
  return ends;
}

/// Runs the parties in each way, and expects the same ends of all, and that a training run accounts
/// for each nanosecond of them. Returns these.
std::vector<Outcome> run_in_each_way(SharingPolicy policy, const std::vector<Role>& roles,
                                     double power_limit_w = 0) {
  std::vector<Outcome> first;
  for (const Way way : kWays) {
    Node node(policy, policy == SharingPolicy::kMig ? static_cast<int>(roles.size()) : 0);
    if (power_limit_w > 0) {
      EXPECT_TRUE(node.node().settings(0).set_power_limit(power_limit_w, TimePoint{}));
    }
    std::vector<Outcome> outcomes = node.run(way, roles);
    if (way == kWays.front()) {
      first = std::move(outcomes);
      continue;
    }
    EXPECT_EQ(ends_of(outcomes), ends_of(first)) << "way " << static_cast<int>(way);
  }
  for (const Outcome& outcome : first) {
    const train::TrainResult& result = *outcome.result;
    EXPECT_EQ(result.elapsed, outcome.ends.back() - result.start);
    EXPECT_EQ(result.gpus.front().total(), result.elapsed);
    EXPECT_EQ(result.gpus.front().compute + result.gpus.front().other, result.elapsed);
    for (const train::ObservedStep& step : outcome.steps) {
      EXPECT_EQ(step.gpus.front().compute.back().end, step.end) << "as a trace shows it";
    }
  }
  return first;
}

/// A policy, and how long a step takes when so many parties always have work.
struct Expected {
  const char* name;
  SharingPolicy policy;
  double one_ms, two_ms, eight_ms;
};

// 16 ms are eight time slices, each with a switch if another party has work.
constexpr double kSlicedMs = 8 * 2.145;
constexpr std::array kExpected = {
    Expected{"Fifo", SharingPolicy::kFifo, 16, 32, 128},
    Expected{"TimeSlices", SharingPolicy::kTimeSlices, 16, 2 * kSlicedMs, 8 * kSlicedMs},
    Expected{"Mps", SharingPolicy::kMps, 16, 32, 128},
    // Without a party that is held back, these share as the two above.
    Expected{"AntMan", SharingPolicy::kAntMan, 16, 2 * kSlicedMs, 8 * kSlicedMs},
    Expected{"Tgs", SharingPolicy::kTgs, 16, 2 * kSlicedMs, 8 * kSlicedMs},
    Expected{"Orion", SharingPolicy::kOrion, 16, 32, 128}};

class Shares : public testing::TestWithParam<Expected> {
 protected:
  /// A step must take that long for each party, in each way.
  static void expect(int parties, double time_ms) {
    const auto outcomes =
        run_in_each_way(GetParam().policy, std::vector<Role>(static_cast<std::size_t>(parties)));
    for (const Outcome& outcome : outcomes) EXPECT_NEAR(step_ms(outcome), time_ms, 1e-4);
  }
};

TEST_P(Shares, OnePartyHasAll) {
  expect(1, GetParam().one_ms);
}
TEST_P(Shares, TwoPartiesHaveHalf) {
  expect(2, GetParam().two_ms);
}
TEST_P(Shares, EightPartiesHaveAnEighth) {
  expect(8, GetParam().eight_ms);
}

INSTANTIATE_TEST_SUITE_P(Policies, Shares, testing::ValuesIn(kExpected),
                         [](const auto& policy) { return policy.param.name; });

TEST(SharesOfMig, EachInstanceIsAGpuOfItsOwn) {
  for (const std::size_t parties : {1U, 2U, 7U}) {
    const auto outcomes = run_in_each_way(SharingPolicy::kMig, std::vector<Role>(parties));
    for (const Outcome& outcome : outcomes) EXPECT_EQ(step_ms(outcome), 16);
  }
}

TEST(SharesOfPriorities, AnUrgentPartyThatAlwaysHasWorkStarvesTheOthers) {
  for (const SharingPolicy policy : {SharingPolicy::kTimeSlices, SharingPolicy::kMps}) {
    for (const std::size_t others : {1U, 7U}) {
      std::vector<Role> roles(others + 1, {.priority = ProcessPriority::kLow, .steps = 2});
      roles.front() = {.priority = ProcessPriority::kHigh};
      const auto outcomes = run_in_each_way(policy, roles);
      EXPECT_EQ(step_ms(outcomes.front()), 16);
      for (std::size_t i = 1; i < roles.size(); ++i) {
        EXPECT_GT(outcomes[i].ends.front(), outcomes.front().ends.back());
      }
    }
  }
}

TEST(SharesOfPriorities, PartiesThatAreHeldBackGetWhatIsLeft) {
  for (const SharingPolicy policy : {SharingPolicy::kAntMan, SharingPolicy::kOrion}) {
    std::vector<Role> roles(2);
    roles.back() = {.priority = ProcessPriority::kLow, .steps = 2};
    const auto outcomes = run_in_each_way(policy, roles);
    EXPECT_EQ(step_ms(outcomes.front()), 16) << "it always has work";
    EXPECT_GT(outcomes.back().ends.front(), outcomes.front().ends.back());
  }
  // TGS lets one kernel pass in each window of 50 ms, however long it takes.
  std::vector<Role> roles = {{.steps = 100}, {.priority = ProcessPriority::kLow, .steps = 10}};
  const auto outcomes = run_in_each_way(SharingPolicy::kTgs, roles);
  const auto& low = outcomes.back().ends;
  EXPECT_NEAR(to_milliseconds(low[8] - low[2]) / 6, 100, 1) << "a step is two kernels";
}

device::ComputeShare share_of(double part, bool capped = false) {
  return {.part = static_cast<std::uint32_t>(part * device::kWholeWidth), .capped = capped};
}

/// Returns the speed of a party until it ends, relative to that alone on a GPU.
double speed_of(const Outcome& outcome) {
  return static_cast<double>(outcome.ends.size()) * to_milliseconds(kStep) /
         to_milliseconds(outcome.ends.back() - TimePoint());
}

TEST(SharesOfTime, EachPartyHasItsPart) {
  for (const SharingPolicy policy : {SharingPolicy::kTimeSlices, SharingPolicy::kMig}) {
    for (const bool capped : {false, true}) {
      const auto halves =
          run_in_each_way(policy, {{.steps = 400, .share = share_of(0.5, capped), .instance = 0},
                                   {.steps = 400, .share = share_of(0.5, capped), .instance = 0}});
      for (const Outcome& outcome : halves) EXPECT_NEAR(speed_of(outcome), 0.5, 0.005);
      // Both end at the same time.
      const auto parts = run_in_each_way(
          policy, {{.steps = 400, .share = share_of(0.25, capped), .instance = 0},
                   {.steps = 1200, .share = share_of(0.75, capped), .instance = 0}});
      EXPECT_NEAR(speed_of(parts[0]), 0.25, 0.0025);
      EXPECT_NEAR(speed_of(parts[1]), 0.75, 0.0075);
    }
  }
}

TEST(SharesOfTime, OnlyACapHoldsAlone) {
  for (const SharingPolicy policy : {SharingPolicy::kTimeSlices, SharingPolicy::kMig}) {
    const auto soft = run_in_each_way(policy, {{.share = share_of(0.25)}});
    EXPECT_EQ(step_ms(soft[0]), 16);
    const auto capped = run_in_each_way(policy, {{.steps = 400, .share = share_of(0.25, true)}});
    EXPECT_NEAR(speed_of(capped[0]), 0.25, 0.0025);
  }
}

TEST(SharesOfTime, ACapIsKeptForWorkThatIsQueuedForLong) {
  const Node node(SharingPolicy::kTimeSlices);
  auto parties = std::make_shared<Parties>();
  const auto opened = node.open();
  const auto device = device::Device::open(opened, 0, *parties, {}, share_of(0.25, true)).value();
  TimePoint end{};
  parties->add(opened, [&] {
    const auto stream = device->create_stream();
    for (int i = 0; i < 200; ++i) stream->launch(kForward);
    device::Event event;
    stream->record(event);
    event.moment().wait(device->clock());
    end = event.moment().time();
  });
  parties->run();
  EXPECT_EQ(end, TimePoint(8s - 75ms)) << "80 periods of 25 ms";
}

TEST(SharesOfTime, OthersHaveWhatACapLeaves) {
  const auto outcomes = run_in_each_way(
      SharingPolicy::kTimeSlices, {{.steps = 100, .share = share_of(0.25, true)}, {.steps = 280}});
  EXPECT_NEAR(speed_of(outcomes[0]), 0.25, 0.005);
  EXPECT_GT(speed_of(outcomes[1]), 0.7);
}

TEST(SharesOfTime, AreOfTimeSlicesAlone) {
  for (const SharingPolicy policy :
       {SharingPolicy::kFifo, SharingPolicy::kMps, SharingPolicy::kOrion}) {
    const Node node(policy);
    Parties clock;
    const auto opened = device::Device::open(node.open(), 0, clock, {}, share_of(0.5));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(opened.error().message.starts_with(
        "this process has a share of the compute time (50 % of a GPU), which only GPUs have "))
        << opened.error().message;
  }
}

TEST(SharesOfThreadPercentages, WhatFitsBesideOthersIsNotSlower) {
  const auto halves = run_in_each_way(SharingPolicy::kMps, {{.width = 0.5}, {.width = 0.5}});
  for (const Outcome& outcome : halves) EXPECT_NEAR(step_ms(outcome), 16, 1e-4);
  const auto quarters = run_in_each_way(SharingPolicy::kMps, std::vector<Role>(8, {.width = 0.25}));
  for (const Outcome& outcome : quarters) EXPECT_NEAR(step_ms(outcome), 32, 1e-4);
}

TEST(SharesOfPower, ALimitedGpuIsSlowerForAll) {
  // An eighth of the dynamic power is half of the clock (docs/design/power.md).
  for (const Expected& expected : kExpected) {
    const auto full = run_in_each_way(expected.policy, std::vector<Role>(2));
    const auto one = run_in_each_way(expected.policy, std::vector<Role>(1), 200);
    const auto two = run_in_each_way(expected.policy, std::vector<Role>(2), 200);
    const double slower = step_ms(one.front()) / 16;
    EXPECT_GT(slower, 1.1);
    for (const Outcome& outcome : two) {
      EXPECT_NEAR(step_ms(outcome), slower * step_ms(full.front()), 0.2) << expected.name;
    }
  }
}

TEST(SharesOfMemory, EachPartyHasItsLimitAndNoMore) {
  Node node(SharingPolicy::kTimeSlices);
  const auto outcomes = node.run(Way::kTrain, {{.limit = 2 * kGiB}, {.limit = 3 * kGiB}});
  EXPECT_EQ(outcomes[0].result->memory_capacity, 2 * kGiB);
  EXPECT_EQ(outcomes[1].result->memory_capacity, 3 * kGiB);
  EXPECT_EQ(outcomes[0].result->memory_peak, kGiB);
}

TEST(SharesOfTrain, ATraceShowsWhenOthersHadTheGpu) {
  const auto outcomes = run_in_each_way(SharingPolicy::kTimeSlices, std::vector<Role>(2));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.result->gpus.front().compute, kSteps * kStep);
    for (const train::ObservedStep& step : outcome.steps) {
      Duration worked{};
      for (const device::Interval& turn : step.gpus.front().turns) worked += turn.end - turn.start;
      EXPECT_EQ(worked, kStep);
    }
  }
  const auto beside = run_in_each_way(SharingPolicy::kMps, std::vector<Role>(2));
  EXPECT_EQ(beside.front().result->gpus.front().other, 0ms) << "it computes all the time";
}

TEST(SharesOfTrain, ExchangesStartWhenTheLastGpuReallyHasTheData) {
  for (const SharingPolicy policy : {SharingPolicy::kTimeSlices, SharingPolicy::kMps}) {
    Node node(policy);
    const auto outcomes = node.train_on_both_gpus(2);
    for (const Outcome& outcome : outcomes) {
      ASSERT_EQ(outcome.steps.size(), 20U);
      for (const train::ObservedStep& step : outcome.steps) {
        const device::Interval exchange = step.exchanges.front();
        EXPECT_EQ(exchange.start,
                  std::max(step.gpus[0].compute[0].end, step.gpus[1].compute[0].end));
        EXPECT_EQ(exchange.end - exchange.start, 4ms);
        for (const train::GpuStep& gpu : step.gpus) EXPECT_GE(gpu.compute[1].start, exchange.end);
      }
      // Alone, a step takes 20 ms; with the whole of both parties' work one after the other, 38.
      EXPECT_GT(outcome.result->elapsed, 20 * 30ms);
      EXPECT_EQ(outcome.result->gpus[1].total(), outcome.result->elapsed);
    }
  }
}

TEST(SharesOfEnds, WhoEndsLeavesItsShareToTheOthers) {
  const auto outcomes = run_in_each_way(SharingPolicy::kTimeSlices, {{.steps = 4}, {}});
  EXPECT_EQ(step_ms(outcomes.back()), 16);
  EXPECT_NEAR(to_milliseconds(outcomes.back().ends[3] - outcomes.back().ends[0]) / 3, 2 * kSlicedMs,
              0.001);
}

}  // namespace
}  // namespace gpemu
