// SPDX-License-Identifier: Apache-2.0
//
// Changes bytes of segments as their owner could, under those who watch and those who take part.
#include <atomic>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/time.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/sim/random.hpp"

#include "layout.hpp"
#include "mapping.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr int kDamages = 300;
constexpr layout::Offsets kOffsets(1);

class SegmentDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    node_ = Node::create({.name = "n", .devices = {{.gpu = "A", .memory_bytes = kMiB}}}, directory_)
                .value();
  }
  void TearDown() override {
    node_.reset();
    std::filesystem::remove_all(directory_);
  }

  void write(std::uint64_t offset, const std::string& bytes) const {
    std::fstream file(directory_ / "n", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.flush());
  }
  void write_number(std::uint64_t offset, std::int64_t number) const {
    write(offset, {reinterpret_cast<const char*>(&number), sizeof number});
  }

  /// Returns a byte to a page of random, zero or set bits.
  std::string random_bytes() {
    std::string bytes(rng_.below(2) == 0 ? 1 + rng_.below(16) : 1 + rng_.below(4096), '\0');
    const auto kind = rng_.below(3);
    for (char& byte : bytes) {
      byte = kind == 0 ? static_cast<char>(rng_.below(256)) : kind == 1 ? '\0' : '\xff';
    }
    return bytes;
  }

  sim::RealClock clock_;
  sim::Rng rng_{13};
  std::shared_ptr<Node> node_;
  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_damage_test_{}", ::getpid());
};

TEST_F(SegmentDamageTest, AChangeOfWhatNeverChangesIsNoticed) {
  for (std::uint64_t offset = 0; offset < kOffsets.engines; ++offset) {
    std::ifstream file(directory_ / "n", std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char before = static_cast<char>(file.get());
    write(offset, std::string(1, static_cast<char>(before ^ 0x10)));
    const auto view = NodeView::open("n", directory_);
    const auto opened = Node::open("n", directory_);
    ASSERT_FALSE(view) << "byte " << offset;
    ASSERT_FALSE(opened) << "byte " << offset;
    const bool known = opened.error().code == ErrorCode::kIncompatible ||
                       opened.error().code == ErrorCode::kCorruptData;
    EXPECT_TRUE(known) << opened.error().message;
    const bool advises = opened.error().message.contains("gpemu node remove n") ||
                         opened.error().message.contains("gpemu node remove --force n");
    EXPECT_TRUE(advises) << opened.error().message;
    write(offset, std::string(1, before));
  }
  EXPECT_TRUE(Node::open("n", directory_));
}

TEST_F(SegmentDamageTest, NobodyWaitsForWorkThatNobodyQueued) {
  const auto device = Device::open(node_, 0, clock_).value();
  for (const std::int64_t tail : {std::int64_t{INT64_MAX}, std::int64_t{INT64_MIN},
                                  std::int64_t{1} << 62, std::int64_t{-1}}) {
    // Each engine begins with its tail.
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      write_number(kOffsets.engines + i * sizeof(layout::EngineRecord), tail);
    }
    EXPECT_LT(device->default_stream().launch(1us).expected.end, clock_.now() + 1s) << tail;
    const auto seen = node_->device_snapshot(0, clock_.now());
    EXPECT_LT(seen.engines[1].idle_from, clock_.now() + 1s) << tail;
  }
}

TEST_F(SegmentDamageTest, NobodyWaitsForYearsThatALivingProcessPublished) {
  const auto other = Device::open(Node::open("n", directory_).value(), 0, clock_).value();
  other->default_stream().launch(Duration::max());
  const auto device = Device::open(node_, 0, clock_).value();
  EXPECT_LT(device->default_stream().launch(1us).expected.end, clock_.now() + 1s);
}

std::atomic<std::int64_t>* attacked_tail = nullptr;
std::atomic<int> attacks = 0;

TEST_F(SegmentDamageTest, NobodyWaitsForATailThatChangesWhileTheyLookAtIt) {
  const auto device = Device::open(node_, 0, clock_).value();
  const FileDescriptor file(::open((directory_ / "n").c_str(), O_RDWR | O_CLOEXEC));
  const Mapping mapping = Mapping::of_file(file.get(), kOffsets.end).value();
  attacked_tail =
      &reinterpret_cast<layout::EngineRecord*>(mapping.data() + kOffsets.engines)->tail_ns;
  // Signals come between any two steps, on a busy host too, where another thread seldom does.
  ::signal(SIGALRM, [](int) {
    *attacked_tail = INT64_MAX;
    ++attacks;
  });
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 20}, .it_value = {0, 20}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  for (int i = 0; i < 1'000'000 && attacks < 2'000 && !HasFailure(); ++i) {
    EXPECT_LT(device->default_stream().launch(1ns).expected.end, clock_.now() + 1s);
  }
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::signal(SIGALRM, SIG_IGN);
}

TEST_F(SegmentDamageTest, DamageOfWhatChangesStopsNobody) {
  const auto device = Device::open(node_, 0, clock_).value();
  const auto view = NodeView::open("n", directory_).value();
  const auto monitor = Monitor::create(view, clock_, 1ns).value();
  for (int i = 0; i < kDamages; ++i) {
    const std::string bytes = random_bytes();
    const std::uint64_t room = kOffsets.end - kOffsets.engines - bytes.size();
    write(kOffsets.engines + rng_.below(room), bytes);
    const auto seen = view->device_snapshot(0, clock_.now());
    ASSERT_TRUE(seen) << seen.error().message;
    EXPECT_LE(seen->memory_used, kMiB);
    for (const EngineSnapshot& engine : seen->engines) EXPECT_GE(engine.busy, 0ns);
    for (const ProcessSnapshot& process : seen->processes) {
      for (const char c : process.name)
        EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
    }
    const auto load = monitor->load(0);
    ASSERT_TRUE(load);
    EXPECT_TRUE(load->compute >= 0 && load->compute <= 1);
    EXPECT_TRUE(std::isfinite(load->h2d_bytes_per_s) && load->h2d_bytes_per_s >= 0);
    EXPECT_TRUE(std::isfinite(monitor->energy_j(0).value()));
    // Whoever takes part goes on, with what it knows itself.
    device->default_stream().launch(1us);
    device->default_stream().copy(Engine::kCopyHostToDevice, 4096, 1us);
    const auto address = device->allocate(1000);
    EXPECT_TRUE(!address || device->free(*address));
    EXPECT_EQ(device->memory_info().held, 0U);
    const auto other = Node::open("n", directory_);
    if (other) static_cast<void>((*other)->device_snapshot(0, clock_.now()));
  }
}

}  // namespace
}  // namespace gpemu::device
