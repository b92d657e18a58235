// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node_view.hpp"

#include "layout.hpp"

namespace gpemu::device {
namespace {

class NodeTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static NodeConfig config(std::string name, bool temporary = false) {
    return {.name = std::move(name),
            .devices = {{.gpu = "A", .memory_bytes = kMiB}, {.gpu = "B", .memory_bytes = kMiB}},
            .temporary = temporary};
  }

  void set_version(const std::string& name, std::uint32_t version) const {
    std::fstream file(directory_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8);
    file.write(reinterpret_cast<const char*>(&version), sizeof(version));
  }

  std::vector<NodeEntry> entries() { return list_nodes(directory_).value(); }

  /// Returns the names of the nodes that can be opened.
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const NodeEntry& node : entries()) {
      if (!node.problem) names.push_back(node.name);
    }
    return names;
  }

  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_node_test_{}", ::getpid());
};

using Names = std::vector<std::string>;

TEST_F(NodeTest, WorkOfAnotherAttachmentBreaksWhatFollows) {
  using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
  sim::VirtualClock clock;
  const auto first = Node::create(config("n1"), directory_).value();
  const auto second = Node::open("n1", directory_).value();
  const auto own = Device::open(first, 0, clock).value();
  const auto other = Device::open(second, 0, clock).value();
  std::vector<std::pair<TimePoint, TimePoint>> told;
  own->observe([&told](const StartedWork& work) { told.emplace_back(work.start, work.end); });
  own->default_stream().launch(1ms);
  own->default_stream().launch(2ms);
  other->default_stream().launch(1ms);
  own->default_stream().launch(3ms);
  own->synchronize();
  own->default_stream().synchronize();
  own->default_stream().launch(1ms);
  const auto at = [](Duration time) { return TimePoint(time); };
  EXPECT_EQ(told, (std::vector{std::pair(at(0ms), at(1ms)), std::pair(at(1ms), at(3ms)),
                               std::pair(at(4ms), at(7ms)), std::pair(at(7ms), at(8ms))}));
}

TEST_F(NodeTest, TellsTheWorkThatAnEngineHasAhead) {
  using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
  sim::VirtualClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  const auto watching = Node::open("n1", directory_).value();
  const auto device = Device::open(node, 1, clock).value();
  const auto ahead = [&](TimePoint from, Duration most) {
    return watching->work_after(1, Engine::kCopyHostToDevice, from, most);
  };
  EXPECT_EQ(ahead(TimePoint(), 1h), 0ms);
  device->default_stream().launch(2ms);
  device->default_stream().copy(Engine::kCopyHostToDevice, kMiB, 5ms);
  EXPECT_EQ(ahead(TimePoint(), 1h), 5ms) << "not the time before it";
  EXPECT_EQ(ahead(TimePoint(4ms), 1h), 3ms);
  EXPECT_EQ(ahead(TimePoint(4ms), 1ms), 1ms);
  EXPECT_EQ(ahead(TimePoint(9ms), 1h), 0ms);
  EXPECT_EQ(watching->work_after(1, Engine::kCopyDeviceToHost, TimePoint(), 1h), 0ms);
  EXPECT_EQ(watching->work_after(0, Engine::kCopyHostToDevice, TimePoint(), 1h), 0ms);
}

TEST_F(NodeTest, AfterAWaitTheObserverKnowsAllWorkThatHasStarted) {
  using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
  sim::VirtualClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  const auto device = Device::open(node, 0, clock).value();
  Duration ran{};
  device->observe([&ran](const StartedWork& work) { ran += work.end - work.start; });
  for (int i = 0; i < 3; ++i) device->default_stream().launch(2ms);
  EXPECT_EQ(ran, 2ms) << "the others have not started";
  device->synchronize();
  EXPECT_EQ(ran, 6ms);
}

TEST_F(NodeTest, IsFoundByNameUntilRemoved) {
  {
    ASSERT_TRUE(Node::create(config("n1"), directory_));
  }
  EXPECT_EQ(names(), Names{"n1"});
  EXPECT_EQ(Node::open("n1", directory_).value()->device_count(), 2);
  ASSERT_TRUE(remove_node("n1", false, directory_));
  EXPECT_EQ(names(), Names{});
  EXPECT_EQ(Node::open("n1", directory_).error().code, ErrorCode::kNotFound);
}

TEST_F(NodeTest, RefusesANameThatIsTaken) {
  ASSERT_TRUE(Node::create(config("n1"), directory_));
  const auto again = Node::create(config("n1"), directory_);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(again.error().message.find("n1"), std::string::npos);
}

TEST_F(NodeTest, TakesTheNextNameThatIsFree) {
  // Two containers with /dev/shm in common: each has a process of the pid.
  const auto first = Node::create_under_free_name(config("run-2", true), directory_);
  const auto second = Node::create_under_free_name(config("run-2", true), directory_);
  const auto third = Node::create_under_free_name(config("run-2", true), directory_);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ((*first)->name(), "run-2");
  EXPECT_EQ((*second)->name(), "run-2-2");
  EXPECT_EQ((*third)->name(), "run-2-3");
  EXPECT_EQ(Node::create_under_free_name(config("a b"), directory_).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(NodeTest, RefusesNamesThatAreNoFileNames) {
  for (const char* name : {"", ".", "..", "root/../b", "x y", ".hidden"}) {
    EXPECT_EQ(Node::create(config(name), directory_).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(Node::open(name, directory_).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_F(NodeTest, RemovesATemporaryNodeWithItsLastUser) {
  auto first = Node::create(config("t", true), directory_).value();
  auto second = Node::open("t", directory_).value();
  first.reset();
  EXPECT_EQ(names(), Names{"t"});
  second.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "t"));
}

TEST_F(NodeTest, RefusesToRemoveANodeInUse) {
  const auto node = Node::create(config("busy"), directory_).value();
  EXPECT_EQ(remove_node("busy", false, directory_).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(names(), Names{"busy"});
  EXPECT_TRUE(remove_node("busy", true, directory_));
  EXPECT_EQ(names(), Names{});
}

TEST_F(NodeTest, RefusesFilesThatAreNoSegments) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ / "short") << "hello";
  std::ofstream(directory_ / "long") << std::string(100'000, 'x');
  for (const char* name : {"short", "long"}) {
    const auto opened = Node::open(name, directory_);
    EXPECT_EQ(opened.error().code, ErrorCode::kIncompatible) << name;
    EXPECT_EQ(remove_node(name, false, directory_).error().code, ErrorCode::kIncompatible);
    EXPECT_TRUE(std::filesystem::exists(directory_ / name)) << "it may be somebody's file";
  }
  EXPECT_EQ(names(), Names{});
  EXPECT_EQ(entries().size(), 2U) << "they are listed with what is wrong";
  EXPECT_TRUE(remove_node("long", true, directory_));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "long"));
}

TEST_F(NodeTest, ListsAndRemovesFilesOfAnyKindAndName) {
  ASSERT_TRUE(Node::create(config("good"), directory_));
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("good", (directory_ / "link").c_str()), 0);
  std::ofstream(directory_ / "x\x1b[31m") << "hello";
  std::filesystem::create_directory(directory_ / "folder");
  EXPECT_EQ(names(), Names{"good"});
  EXPECT_EQ(entries().size(), 5U);
  for (const NodeEntry& node : entries()) {
    if (!node.problem) continue;
    EXPECT_EQ(node.problem->code, ErrorCode::kIncompatible) << node.name;
    EXPECT_EQ(node.problem->message.find('\x1b'), std::string::npos) << "nothing raw";
  }
  EXPECT_EQ(Node::open("pipe", directory_).error().code, ErrorCode::kIncompatible);
  EXPECT_EQ(Node::open("link", directory_).error().code, ErrorCode::kIncompatible);
  for (const char* name : {"pipe", "link", "x\x1b[31m"}) {
    EXPECT_FALSE(remove_node(name, false, directory_)) << name;
    EXPECT_TRUE(remove_node(name, true, directory_)) << name;
  }
  EXPECT_FALSE(remove_node("folder", true, directory_));
  EXPECT_FALSE(remove_node("..", true, directory_));
}

TEST_F(NodeTest, OpensTheOnlyNodeOrTheNamedOne) {
  EXPECT_EQ(default_node_name("", directory_).error().code, ErrorCode::kNotFound);
  const auto first = Node::create(config("first"), directory_).value();
  EXPECT_EQ(default_node_name("", directory_).value(), "first");
  const auto second = Node::create(config("second"), directory_).value();
  EXPECT_EQ(default_node_name("", directory_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(default_node_name("second", directory_).value(), "second");
  EXPECT_EQ(Node::open("gone", directory_).error().code, ErrorCode::kNotFound);
}

TEST_F(NodeTest, RefusesASegmentOfAnotherVersionButRemovesIt) {
  {
    ASSERT_TRUE(Node::create(config("old"), directory_));
  }
  set_version("old", 99);
  const auto opened = Node::open("old", directory_);
  EXPECT_EQ(opened.error().code, ErrorCode::kIncompatible);
  EXPECT_NE(opened.error().message.find("version 63 instead"), std::string::npos);
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(std::filesystem::exists(directory_ / "old")) << "only temporary ones are swept";
  EXPECT_TRUE(remove_node("old", false, directory_));
  EXPECT_TRUE(Node::create(config("old"), directory_));
}

TEST_F(NodeTest, LeavesSegmentsOfAnotherVersionToTheirUsers) {
  auto user = Node::create(config("old", true), directory_).value();
  set_version("old", 99);
  EXPECT_EQ(remove_node("old", false, directory_).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(std::filesystem::exists(directory_ / "old"));
  // As if its user were killed.
  const auto copy = directory_ / "copy";
  std::filesystem::copy_file(directory_ / "old", copy);
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(std::filesystem::exists(copy)) << "listing only reads";
  ASSERT_TRUE(Node::create(config("next"), directory_));
  EXPECT_FALSE(std::filesystem::exists(copy)) << "a node of a run without a user";
  EXPECT_TRUE(std::filesystem::exists(directory_ / "old"));
}

TEST_F(NodeTest, RefusesATruncatedSegment) {
  {
    ASSERT_TRUE(Node::create(config("cut"), directory_));
  }
  std::filesystem::resize_file(directory_ / "cut", 4096);
  EXPECT_EQ(Node::open("cut", directory_).error().code, ErrorCode::kCorruptData);
  EXPECT_TRUE(remove_node("cut", false, directory_));
}

TEST_F(NodeTest, GivesDevicesAStableIdentity) {
  const auto node = Node::create_private(config("n1")).value();
  const auto same = Node::create_private(config("n1")).value();
  const auto other = Node::create_private(config("n2")).value();
  const DeviceSnapshot first = node->device_snapshot(0, TimePoint{});
  EXPECT_EQ(first.uuid, same->device_snapshot(0, TimePoint{}).uuid);
  EXPECT_NE(first.uuid, node->device_snapshot(1, TimePoint{}).uuid);
  EXPECT_NE(first.uuid, other->device_snapshot(0, TimePoint{}).uuid);
  EXPECT_EQ(first.uuid.size(), std::string("GPU-00000000-0000-8000-8000-000000000000").size());
  EXPECT_EQ(first.pci_bus_id, "00000000:01:00.0");
  EXPECT_EQ(node->device_snapshot(1, TimePoint{}).gpu, "B");
}

TEST_F(NodeTest, SharesMemoryAndTheTimelineFirstInFirstOut) {
  sim::VirtualClock clock;
  const auto node_a = Node::create(config("shared"), directory_).value();
  const auto node_b = Node::open("shared", directory_).value();
  const auto a = Device::open(node_a, 0, clock).value();
  const auto b = Device::open(node_b, 0, clock).value();
  ASSERT_TRUE(a->allocate(768 * kKiB));
  EXPECT_EQ(b->allocate(512 * kKiB).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(b->memory_info().free, 256 * kKiB);

  a->default_stream().launch(Duration(30));
  EXPECT_EQ(b->default_stream().launch(Duration(10)).expected.start, at_ns(30));
  EXPECT_EQ(a->default_stream().launch(Duration(5)).expected.start, at_ns(40));
}

/// While this lives, no file can be opened.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(NodeTest, AProcessThatCanOpenNoMoreFilesKeepsItsPlace) {
#if defined(GPEMU_SANITIZE_ADDRESS)
  GTEST_SKIP() << "the sanitizer looks at memory through pipes";
#endif
  sim::VirtualClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  const auto device = Device::open(node, 0, clock).value();
  const auto other = Device::open(Node::open("n1", directory_).value(), 0, clock).value();
  ASSERT_TRUE(device->allocate(768 * kKiB));
  const NoMoreFiles limit;
  EXPECT_EQ(other->memory_info().free, 256 * kKiB);
  EXPECT_EQ(other->allocate(512 * kKiB).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(node->device_snapshot(0, clock.now()).processes.size(), 2U);
}

/// Starts a function in a child process. noexcept: an exception must end the child, which would
/// otherwise go on with the tests.
template <typename Function>
pid_t start_child(Function function) noexcept {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function() ? 0 : 1);
  return child;
}

/// Runs a function in a child process and returns whether that returned true.
template <typename Function>
bool in_child(Function function) {
  const pid_t child = start_child(function);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(NodeTest, DropsTheWorkOfTheDeadAndNotTheTimeTheyWaited) {
  sim::RealClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  const auto device = Device::open(node, 0, clock).value();
  device->default_stream().launch(Duration(1000));
  device->default_stream().copy(Engine::kCopyDeviceToHost, 1, Duration(1000));
  ASSERT_TRUE(in_child([&] {
    auto own = Device::open(Node::open("n1", directory_).value(), 0, clock).value();
    own->default_stream().launch(std::chrono::hours(1));
    own->default_stream().copy(Engine::kCopyDeviceToHost, 1, std::chrono::hours(1));
    static_cast<void>(own.release());  // As if it were killed.
    return true;
  }));
  // Seen so by those who look, and then by who queues.
  for (const char* who : {"looks", "queues"}) {
    const TimePoint now = clock.now();
    const DeviceSnapshot seen = node->device_snapshot(0, now);
    // Of the kernel a part has run; the copy would have begun an hour later.
    EXPECT_EQ(seen.engines[2].busy, Duration(1000)) << who;
    EXPECT_GE(seen.engines[0].busy, Duration(1000)) << who;
    EXPECT_LT(seen.engines[0].busy, std::chrono::minutes(30)) << who;
    EXPECT_LE(seen.engines[0].idle_from, now) << who;
    EXPECT_LT(device->default_stream().launch(Duration(0)).expected.end,
              now + std::chrono::minutes(30))
        << who;
  }
}

TEST_F(NodeTest, ADeadParentIsDeadThoughItsChildLives) {
  ASSERT_TRUE(Node::create(config("n1"), directory_));
  int pipe[2];
  int forked[2];
  ASSERT_EQ(::pipe(pipe) + ::pipe(forked), 0);
  // The child makes a child, as a loader's worker, and ends once that one is there and lives on.
  ASSERT_TRUE(in_child([&] {
    sim::RealClock clock;
    auto device = Device::open(Node::open("n1", directory_).value(), 0, clock).value();
    if (!device->allocate(768 * kKiB)) return false;
    if (::fork() == 0) {
      char byte = 0;
      ::close(pipe[1]);
      if (::write(forked[1], &byte, 1) != 1) ::_exit(1);
      ::_exit(static_cast<int>(::read(pipe[0], &byte, 1)));  // Until the test ends.
    }
    static_cast<void>(device.release());
    char byte = 0;
    return ::read(forked[0], &byte, 1) == 1;
  }));
  const auto node = Node::open("n1", directory_).value();
  EXPECT_EQ(node->device_snapshot(0, TimePoint()).memory_used, 0U);
  EXPECT_TRUE(remove_node("n1", true, directory_));
  for (const int end : {pipe[0], pipe[1], forked[0], forked[1]}) ::close(end);
}

/// Returns how many descriptors of this process are of files in a folder.
int descriptors_in(const std::filesystem::path& folder) {
  int count = 0;
  for (int descriptor = 3; descriptor < 64; ++descriptor) {
    std::error_code error;
    const auto target =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
    if (!error && target.parent_path() == folder) ++count;
  }
  return count;
}

TEST_F(NodeTest, NoChildGetsASegmentThatAnotherThreadOpensMeanwhile) {
  ASSERT_TRUE(Node::create(config("n1"), directory_));
  std::atomic<bool> ends{false};
  std::thread opens([&] {
    while (!ends) static_cast<void>(Node::open("n1", directory_));
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(in_child([&] { return descriptors_in(directory_) == 0; })) << i;
  }
  ends = true;
  opens.join();
}

TEST_F(NodeTest, NothingThatIsWrittenMakesAHolderDead) {
  NodeConfig exclusive = config("n1");
  exclusive.compute_mode = ComputeMode::kExclusiveProcess;
  const auto node = Node::create(exclusive, directory_).value();
  sim::RealClock clock;
  const auto device = Device::open(node, 0, clock).value();
  ASSERT_TRUE(device->allocate(768 * kKiB));
  const int file = ::open((directory_ / "n1").c_str(), O_RDWR | O_CLOEXEC);
  const layout::Offsets offsets(exclusive.devices.size());
  const std::vector<std::byte> zeros(offsets.holdings - offsets.processes);
  ASSERT_EQ(::pwrite(file, zeros.data(), zeros.size(), static_cast<off_t>(offsets.processes)),
            static_cast<ssize_t>(zeros.size()));
  ::close(file);
  EXPECT_EQ(NodeView::open("n1", directory_).value()->device_snapshot(0, TimePoint())->memory_used,
            768 * kKiB);
  EXPECT_TRUE(in_child([&] {
    const auto other = Node::open("n1", directory_).value();
    return Device::open(other, 0, clock).error().code == ErrorCode::kUnavailable;
  }));
}

TEST_F(NodeTest, ItsSettingsBelongToEachDevice) {
  NodeConfig two = config("n1");
  two.devices.push_back(two.devices[0]);
  const auto node = Node::create(two, directory_).value();
  ASSERT_TRUE(node->settings(1).set_compute_mode(ComputeMode::kProhibited));
  const auto view = NodeView::open("n1", directory_).value();
  EXPECT_EQ(view->device_snapshot(0, {})->compute_mode, ComputeMode::kDefault);
  EXPECT_EQ(view->device_snapshot(1, {})->compute_mode, ComputeMode::kProhibited);
  sim::RealClock clock;
  EXPECT_TRUE(Device::open(node, 0, clock));
  EXPECT_EQ(Device::open(node, 1, clock).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(node->settings(0).set_time_slice(TimeSliceLength::kLong).error().code,
            ErrorCode::kUnsupported)
      << "first in, first out";
}

TEST_F(NodeTest, AGpuIsNamedByNoPath) {
  for (const char* const name : {"/dev/pts/0", "folder/V100", "V100.toml", ""}) {
    NodeConfig named = config("n1");
    named.devices[0].gpu = name;
    EXPECT_EQ(Node::create(named, directory_).error().code, ErrorCode::kInvalidArgument) << name;
  }
}

TEST_F(NodeTest, AChildDoesNotCloseAFileThatTookTheDescriptorsNumber) {
  const auto node = Node::create(config("n1"), directory_).value();
  // A program that closes what it did not open, and opens a file of its own in its place.
  int segment = -1;
  for (int descriptor = 3; descriptor < 256 && segment < 0; ++descriptor) {
    std::error_code error;
    const auto target =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
    if (!error && target.string().find("gpemu_node_test") != std::string::npos) {
      segment = descriptor;
    }
  }
  ASSERT_GE(segment, 0);
  const int kept = ::dup(segment);
  const int own = ::open("/dev/null", O_RDONLY);
  ASSERT_EQ(::dup2(own, segment), segment);
  EXPECT_TRUE(in_child([&] { return ::fcntl(segment, F_GETFD) >= 0; }));
  ASSERT_EQ(::dup2(kept, segment), segment);
  ::close(kept);
  ::close(own);
}

TEST_F(NodeTest, MemoryIsNeverGivenTwiceNorLostAmongMany) {
  constexpr int kProcesses = 4;
  constexpr Bytes kPart = 64 * kKiB;
  ASSERT_TRUE(Node::create(config("n1"), directory_));
  int start[2];
  int done[2];
  ASSERT_EQ(::pipe(start), 0);
  ASSERT_EQ(::pipe(done), 0);
  const auto take_all = [&] {
    sim::RealClock clock;
    auto device = Device::open(Node::open("n1", directory_).value(), 0, clock).value();
    char byte = 0;
    ::close(start[1]);
    static_cast<void>(!::read(start[0], &byte, 1));
    // Takes and gives back, and at the end takes all that there is.
    for (int round = 0; round < 200; ++round) {
      const auto part = device->allocate(kPart);
      if (part) static_cast<void>(device->free(*part));
    }
    char parts = 0;
    while (device->allocate(kPart)) ++parts;
    return ::write(done[1], &parts, 1) == 1 && ::pause() == 0;
  };
  for (int i = 0; i < kProcesses; ++i) ASSERT_GT(start_child(take_all), 0);
  ::close(start[0]);
  ::close(start[1]);
  int parts = 0;
  for (int i = 0; i < kProcesses; ++i) {
    char own = 0;
    ASSERT_EQ(::read(done[0], &own, 1), 1);
    parts += own;
  }
  EXPECT_EQ(parts, kMiB / kPart);
  const auto node = Node::open("n1", directory_).value();
  const DeviceSnapshot seen = node->device_snapshot(0, TimePoint());
  EXPECT_EQ(seen.memory_used, kMiB);
  ASSERT_EQ(seen.processes.size(), kProcesses);
  for (const ProcessSnapshot& process : seen.processes) {
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
  }
  EXPECT_EQ(node->device_snapshot(0, TimePoint()).memory_used, 0U);
  ::close(done[0]);
  ::close(done[1]);
}

TEST_F(NodeTest, NamesTheStoppedProcessThatHoldsWhatIsMissing) {
  NodeConfig exclusive = config("n1");
  exclusive.compute_mode = ComputeMode::kExclusiveProcess;
  const auto node = Node::create(exclusive, directory_).value();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_child([&] {
    sim::RealClock clock;
    auto device = Device::open(Node::open("n1", directory_).value(), 0, clock).value();
    return ::write(ready[1], "", 1) == 1 && ::pause() == 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  sim::RealClock clock;
  const auto refused = Device::open(node, 0, clock);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find(fmt::format("process {} ", child)), std::string::npos);
  EXPECT_NE(refused.error().message.find(fmt::format("stopped: `kill -CONT {}`", child)),
            std::string::npos)
      << refused.error().message;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(Device::open(node, 0, clock)) << "who died holds nothing";
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(NodeTest, HasRoomForAllProcessesAndSaysWhenThereIsNone) {
  const auto node = Node::create(config("n1"), directory_).value();
  std::vector<std::shared_ptr<Node>> others;
  for (int i = 1; i < 256; ++i) others.push_back(Node::open("n1", directory_).value());
  EXPECT_EQ(Node::open("n1", directory_).error().code, ErrorCode::kResourceLimit);
  EXPECT_TRUE(NodeView::open("n1", directory_)) << "watching needs no place";
  others.pop_back();
  EXPECT_TRUE(Node::open("n1", directory_));
}

TEST_F(NodeTest, RefusesNodesOfAnotherUserUnlessThatIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  constexpr uid_t kOther = 4'000'001;
  ASSERT_TRUE(Node::create(config("n1"), directory_));
  ASSERT_EQ(::chown((directory_ / "n1").c_str(), kOther, kOther), 0);
  const auto refused = Node::open("n1", directory_);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_NE(refused.error().message.find("4000001/n1"), std::string::npos);
  EXPECT_TRUE(entries().empty());
  EXPECT_EQ(default_node_name("", directory_).error().code, ErrorCode::kNotFound);
  const auto named = Node::open("4000001/n1", directory_);
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ((*named)->name(), "4000001/n1");
  EXPECT_EQ(Node::open("4000002/n1", directory_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Node::open("no-such-user/n1", directory_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Node::create(config("4000001/n2"), directory_).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(NodeTest, AForkedChildTakesNothingFromItsParent) {
  sim::VirtualClock clock;
  const auto node = Node::create(config("n1"), directory_).value();
  auto device = Device::open(node, 0, clock).value();
  const DeviceAddress address = device->allocate(600 * kKiB).value();
  EXPECT_TRUE(in_child([&] {
    const auto refuses = [](const auto& result) {
      return !result && result.error().code == ErrorCode::kUnavailable;
    };
    const bool refused = refuses(device->allocate(kKiB)) && refuses(device->free(address)) &&
                         refuses(Device::open(node, 0, clock));
    device.reset();
    return refused;
  })) << "the child is refused";
  EXPECT_EQ(device->memory_info().held, 600 * kKiB);
  EXPECT_EQ(node->device_snapshot(0, clock.now()).processes.size(), 1U);
  EXPECT_TRUE(device->free(address));
}

TEST_F(NodeTest, RejectsBadConfigurations) {
  NodeConfig no_devices{.name = "x"};
  EXPECT_EQ(Node::create_private(no_devices).error().code, ErrorCode::kInvalidArgument);
  NodeConfig no_memory{.name = "x", .devices = {{.gpu = "A"}}};
  EXPECT_EQ(Node::create_private(no_memory).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::device
