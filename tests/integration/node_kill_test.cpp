// SPDX-License-Identifier: Apache-2.0
//
// Kills processes at random moments of their work on a node, and checks what they leave behind.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr int kKills = 200;
constexpr Bytes kMemory = kGiB;

class NodeKillTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  /// Runs `work` in a child process and kills it after a random time of up to 3 ms.
  void kill_while(const std::function<void()>& work) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work();
      ::_exit(0);
    }
    clock_.wait_until(clock_.now() + Duration(static_cast<Duration::rep>(rng_.below(3'000'000))));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  [[nodiscard]] NodeConfig config(bool temporary) const {
    return {
        .name = "n",
        .devices = {{.gpu = "A", .memory_bytes = kMemory}, {.gpu = "A", .memory_bytes = kMemory}},
        .temporary = temporary};
  }

  /// Attaches, allocates, queues hours of work and detaches, for ever.
  void churn() const {
    sim::RealClock clock;
    sim::Rng rng(static_cast<std::uint64_t>(::getpid()));
    while (true) {
      const auto node = Node::open("n", directory_);
      if (!node) continue;
      const auto device = Device::open(*node, 1, clock);
      const auto stream = (*device)->create_stream();
      for (std::uint64_t i = rng.below(50); i > 0; --i) {
        const auto address = (*device)->allocate(rng.below(kMemory / 8) + 1);
        stream->launch(1h);
        stream->copy(Engine::kCopyHostToDevice, kMiB, 1h);
        if (address && rng.below(2) == 0) static_cast<void>((*device)->free(*address));
      }
    }
  }

  sim::RealClock clock_;
  sim::Rng rng_{1};
  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_kill_test_{}", ::getpid());
};

TEST_F(NodeKillTest, ANextProcessSeesNothingOfTheKilled) {
  {
    ASSERT_TRUE(Node::create(config(false), directory_));
  }
  for (int i = 0; i < kKills; ++i) {
    kill_while([this] { churn(); });
    const auto node = Node::open("n", directory_);
    ASSERT_TRUE(node) << node.error().message;
    const DeviceSnapshot snapshot = (*node)->device_snapshot(1, clock_.now());
    ASSERT_EQ(snapshot.memory_used, 0U) << "after kill " << i;
    ASSERT_TRUE(snapshot.processes.empty()) << "after kill " << i;
    for (const EngineSnapshot& engine : snapshot.engines) {
      ASSERT_LE(engine.idle_from, clock_.now()) << "work of the dead, after kill " << i;
    }
    const auto device = Device::open(*node, 1, clock_);
    ASSERT_TRUE((*device)->allocate(kMemory)) << "after kill " << i;
  }
}

TEST_F(NodeKillTest, ASurvivorGoesOnAndGetsTheMemoryOfTheKilled) {
  const auto node = Node::create(config(false), directory_).value();
  const auto device = Device::open(node, 1, clock_).value();
  ASSERT_TRUE(device->allocate(kMemory / 4));
  for (int i = 0; i < kKills; ++i) {
    kill_while([this] { churn(); });
    // A survivor looks for dead processes at most once per millisecond.
    clock_.wait_until(clock_.now() + 1ms);
    const QueuedWork next = device->default_stream().launch(1us);
    ASSERT_LE(next.expected.end, clock_.now() + 1us)
        << "the dead's work is waited for, after kill " << i;
    const auto address = device->allocate(kMemory / 4 * 3);
    ASSERT_TRUE(address) << "after kill " << i << ": " << address.error().message;
    ASSERT_TRUE(device->free(*address));
  }
}

TEST_F(NodeKillTest, TemporaryNodesOfTheKilledAreGone) {
  for (int i = 0; i < kKills; ++i) {
    kill_while([this] {
      while (true) static_cast<void>(Node::create(config(true), directory_));
    });
    ASSERT_TRUE(Node::create(config(true), directory_)) << "its name is free, after kill " << i;
    ASSERT_TRUE(list_nodes(directory_)->empty()) << "after kill " << i;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

/// Profiles of a GPU with two halves and four quarters.
std::vector<profile::MigProfile> halves_and_quarters() {
  profile::MigProfile quarter{.name = "1g.1gb", .id = 14, .nvml_profile = 0};
  quarter.compute_slices = quarter.memory_slices = 1;
  quarter.starts = {0, 1, 2, 3};
  quarter.multiprocessors = 10;
  quarter.memory_bytes = kMemory / 4;
  profile::MigProfile half{.name = "2g.2gb", .id = 5, .nvml_profile = 1};
  half.compute_slices = half.memory_slices = 2;
  half.starts = {0, 2};
  half.multiprocessors = 20;
  half.memory_bytes = kMemory / 2;
  profile::MigProfile whole{.name = "4g.4gb", .id = 0, .nvml_profile = 3};
  whole.compute_slices = whole.memory_slices = 4;
  whole.starts = {0};
  whole.multiprocessors = 40;
  whole.memory_bytes = kMemory;
  return {quarter, half, whole};
}

TEST_F(NodeKillTest, InstancesOfAGpuStayWholeAndUsable) {
  const std::vector<profile::MigProfile> profiles = halves_and_quarters();
  NodeConfig mig = config(false);
  mig.policy = SharingPolicy::kMig;
  const auto node = Node::create(mig, directory_).value();
  const auto make_all = [&profiles](MigLayout& layout) -> Result<void> {
    while (layout.free_count(profiles[0]) > 0) {
      GPEMU_ASSIGN(const int id, layout.create(14));
      GPEMU_TRY(layout.create_compute(id, 0));
    }
    return {};
  };
  const auto destroy_all = [](MigLayout& layout) -> Result<void> {
    while (!layout.instances().empty()) {
      const MigInstance instance = layout.instances().front();
      for (const MigComputeInstance& compute : instance.compute) {
        GPEMU_TRY(layout.destroy_compute(instance.id, compute.id));
      }
      GPEMU_TRY(layout.destroy(instance.id));
    }
    return {};
  };
  for (int i = 0; i < kKills; ++i) {
    kill_while([&] {
      const auto own = Node::open("n", directory_).value();
      while (true) {
        static_cast<void>(own->mig(0).change(profiles, make_all));
        for (const MigDevice& mig_device : own->mig(0).layout(profiles).devices(0, "GPU-1")) {
          const auto device = Device::open(own, mig_device, clock_);
          if (device) static_cast<void>((*device)->allocate(kMemory / 8));
        }
        static_cast<void>(own->mig(0).change(profiles, destroy_all));
      }
    });
    // The survivor makes, uses and destroys what it likes.
    const Result<void> made = node->mig(0).change(profiles, make_all);
    ASSERT_TRUE(made) << "after kill " << i << ": " << made.error().message;
    const auto devices = node->mig(0).layout(profiles).devices(0, "GPU-1");
    ASSERT_EQ(devices.size(), 4U) << "after kill " << i;
    {
      const auto device = Device::open(node, devices[static_cast<std::size_t>(i) % 4], clock_);
      ASSERT_TRUE(device) << "after kill " << i << ": " << device.error().message;
      ASSERT_TRUE((*device)->allocate(kMemory / 4)) << "after kill " << i;
      ASSERT_FALSE(node->mig(0).change(profiles, destroy_all)) << "after kill " << i;
    }
    const Result<void> destroyed = node->mig(0).change(profiles, destroy_all);
    ASSERT_TRUE(destroyed) << "after kill " << i << ": " << destroyed.error().message;
    ASSERT_TRUE(node->mig(0).layout(profiles).instances().empty()) << "after kill " << i;
  }
}

/// Makes four instances of a GPU.
Result<void> make_quarters(MigLayout& layout) {
  for (int i = 0; i < 4; ++i) {
    GPEMU_ASSIGN(const int id, layout.create(14));
    GPEMU_TRY(layout.create_compute(id, 0));
  }
  return {};
}

/// Processes that share a GPU, by time slices, as clients of MPS or each in a MIG instance of its
/// own, and always have work.
class SharersKillTest : public NodeKillTest {
 protected:
  void kill_sharers(SharingPolicy policy);

  /// More than a process has in its life.
  static constexpr std::size_t kMostTurns = 4096;
  static constexpr Duration kAhead = 500ms;
  static constexpr Duration kLongestWork = 2ms;
  static constexpr TimeSliceRules kRules{};

  /// The turns that a process knows to be over, in memory that it shares with the test.
  struct Log {
    std::atomic<std::size_t> count;
    Turn turns[kMostTurns];
  };

  static std::unique_ptr<Device> open_device(const std::shared_ptr<Node>& node,
                                             std::size_t instance, sim::Clock& clock) {
    if (node->policy() != SharingPolicy::kMig) return Device::open(node, 0, clock).value();
    const int gpu = static_cast<int>(instance / 4);
    const auto devices = node->mig(gpu).layout(halves_and_quarters()).devices(gpu, "GPU-1");
    return Device::open(node, devices.at(instance % 4), clock).value();
  }

  /// Keeps the device busy, for ever.
  void compute(Log& log, std::size_t instance) const {
    sim::RealClock clock;
    sim::Rng rng(static_cast<std::uint64_t>(::getpid()));
    const auto node = Node::open("n", directory_).value();
    const auto device = open_device(node, instance, clock);
    device->observe([&log](const StartedWork& work) {
      const Turn whole{.start = work.start, .end = work.end};
      for (const Turn& turn : work.turns.empty() ? std::span(&whole, 1) : work.turns) {
        log.turns[log.count] = turn;
        ++log.count;
      }
    });
    const auto stream = device->create_stream();
    std::deque<std::pair<Event, Duration>> queued;
    Duration ahead{};
    while (log.count + 100 < kMostTurns) {
      const Duration cost(static_cast<Duration::rep>(rng.below(kLongestWork.count())) + 1);
      stream->launch(cost);
      queued.emplace_back(Event(), cost);
      stream->record(queued.back().first);
      ahead += cost;
      for (; ahead > kAhead; queued.pop_front()) {
        queued.front().first.moment().wait(clock);
        ahead -= queued.front().second;
      }
    }
  }

  /// Returns how much work the turns of a log do in a time.
  static Duration overlap(const Log& log, const Turn& time) {
    Duration sum{};
    for (std::size_t i = 0; i < log.count; ++i) {
      const Turn part{.start = std::max(log.turns[i].start, time.start),
                      .end = std::min(log.turns[i].end, time.end),
                      .pace = log.turns[i].pace};
      if (part.start < part.end) sum += part.done_by(part.end);
    }
    return sum;
  }
};

void SharersKillTest::kill_sharers(SharingPolicy policy) {
  const char* const wanted = std::getenv("GPEMU_TEST_KILLS");
  // Strict, if asked, because a busy machine runs the survivors late. Otherwise there are two, and
  // a survivor must get much more than the half that it has beside a process that lives.
  const bool strict = wanted != nullptr;
  const std::size_t kills = strict ? std::stoul(wanted) : 4;
  const std::size_t sharers = strict ? 8 : 2;
  const bool mig = policy == SharingPolicy::kMig;
  const Duration window = strict ? 60ms : 300ms;
  // Clients of MPS run side by side: no time goes to switches.
  const Duration turn =
      kRules.quantum +
      (policy == SharingPolicy::kMps ? Duration() : Duration(kRules.context_switch));
  NodeConfig shared = config(false);
  shared.policy = policy;
  const auto node = Node::create(shared, directory_).value();
  for (int gpu = 0; mig && gpu < 2; ++gpu) {
    ASSERT_TRUE(node->mig(gpu).change(halves_and_quarters(), make_quarters));
  }
  const std::size_t lives = kills + sharers;
  auto* const logs = static_cast<Log*>(::mmap(nullptr, lives * sizeof(Log), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(logs), MAP_FAILED);
  struct Life {
    pid_t pid = 0;
    std::size_t instance = 0;
    TimePoint begin{}, end = TimePoint::max();
  };
  std::vector<Life> all;
  const auto begin = [&](std::size_t instance) {
    Log& log = logs[all.size()];
    all.push_back({.pid = ::fork(), .instance = instance, .begin = clock_.now()});
    if (all.back().pid != 0) return;
    compute(log, instance);
    ::_exit(0);
  };
  while (all.size() < sharers) begin(mig ? all.size() : 0);
  clock_.wait_until(clock_.now() + 300ms);
  // From two slices after a kill on, until another process begins; and where one was killed.
  std::vector<std::pair<Turn, std::size_t>> windows;
  for (std::size_t i = 0; i < kills; ++i) {
    clock_.wait_until(clock_.now() + window +
                      Duration(static_cast<Duration::rep>(rng_.below(5'000'000))));
    std::size_t victim = rng_.below(all.size());
    while (all[victim].end != TimePoint::max()) victim = (victim + 1) % all.size();
    ::kill(all[victim].pid, SIGKILL);
    all[victim].end = clock_.now();
    ::waitpid(all[victim].pid, nullptr, 0);
    clock_.wait_until(all[victim].end + window);
    windows.emplace_back(Turn{.start = all[victim].end + 2 * turn, .end = all[victim].end + window},
                         all[victim].instance);
    begin(all[victim].instance);
  }
  clock_.wait_until(clock_.now() + 100ms);
  for (const Life& life : all) {
    if (life.end == TimePoint::max()) ::kill(life.pid, SIGKILL);
  }
  while (::wait(nullptr) > 0) {
  }

  for (std::size_t i = 0; i < kills * (mig ? sharers : 1); ++i) {
    const std::size_t instance = mig ? i % sharers : 0;
    const std::size_t kill = mig ? i / sharers : i;
    const auto& [time, killed_in] = windows[kill];
    if (mig && instance == killed_in) continue;  // Nobody is in it.
    Duration busy{};
    Duration least = Duration::max();
    Duration most{};
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all[k].instance != instance) continue;
      const Duration had = overlap(logs[k], time);
      busy += had;
      const bool lived_throughout = all[k].begin < time.start - 50ms && all[k].end > time.end;
      if (!lived_throughout) continue;
      least = std::min(least, had);
      most = std::max(most, had);
    }
    const Duration served =
        mig ? time.end - time.start : (time.end - time.start) / turn * kRules.quantum;
    const Duration whole = served - kRules.quantum;
    const Duration expected = strict ? whole : whole * 3 / 4;
    ASSERT_GE(busy, expected) << "after kill " << kill << " of " << kills << ", in "
                              << (time.end - time.start).count() << " ns of instance " << instance;
    if (strict) {
      ASSERT_LE(most - least, 2 * kRules.quantum) << "after kill " << kill << " of " << kills;
    }
  }
  // Nothing is left in anybody's way.
  const auto device = open_device(node, 0, clock_);
  clock_.wait_until(clock_.now() + 2ms);
  const TimePoint asked = clock_.now();
  device->default_stream().launch(1ms);
  EXPECT_LE(device->default_stream().tail().time(), asked + 1ms + 10 * turn);
  device->synchronize();
  ::munmap(logs, lives * sizeof(Log));
}

TEST_F(SharersKillTest, SurvivorsGetTheTimeOfTheKilledWithinTwoSlices) {
  kill_sharers(SharingPolicy::kTimeSlices);
}

TEST_F(SharersKillTest, ClientsOfMpsGetThePartsOfTheKilled) {
  kill_sharers(SharingPolicy::kMps);
}

TEST_F(SharersKillTest, ProcessesInOtherInstancesNoticeNothing) {
  kill_sharers(SharingPolicy::kMig);
}

}  // namespace
}  // namespace gpemu::device
