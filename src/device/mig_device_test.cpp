// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// A node with one A100, divided into two 3g.20gb: the first as one compute instance, the second as
/// one of two slices and one of one slice.
class MigDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    spec_ = profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml")
                .value();
    const NodeConfig config{
        .name = "n", .devices = {device_config(spec_)}, .policy = SharingPolicy::kMig};
    std::filesystem::remove_all(folder_);
    node_ = Node::create(config, folder_).value();
    ASSERT_TRUE(change([](MigLayout& layout) -> Result<void> {
      GPEMU_TRY(layout.create(9, 0));
      GPEMU_TRY(layout.create(9, 4));
      GPEMU_TRY(layout.create_compute(1, 2));
      GPEMU_TRY(layout.create_compute(2, 1));
      GPEMU_TRY(layout.create_compute(2, 0));
      return {};
    }));
  }
  void TearDown() override {
    node_.reset();
    std::filesystem::remove_all(folder_);
  }

  Result<void> change(const std::function<Result<void>(MigLayout&)>& change) {
    return node_->mig(0).change(spec_.mig_profiles, change);
  }
  [[nodiscard]] std::vector<MigDevice> devices() const {
    return node_->mig(0)
        .layout(spec_.mig_profiles)
        .devices(0, node_->device_snapshot(0, clock_.now()).uuid);
  }
  [[nodiscard]] std::unique_ptr<Device> open(std::size_t index) {
    return Device::open(node_, devices().at(index), clock_).value();
  }

  profile::GpuSpec spec_;
  sim::VirtualClock clock_;
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_mig_test_{}", ::getpid());
  std::shared_ptr<Node> node_;
};

TEST_F(MigDeviceTest, DevicesAreNamedAndSizedByTheirProfiles) {
  const std::vector<MigDevice> all = devices();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "3g.20gb");
  EXPECT_EQ(all[1].name, "2c.3g.20gb");
  EXPECT_EQ(all[2].name, "1c.3g.20gb");
  EXPECT_EQ(all[0].multiprocessors, 42);
  EXPECT_EQ(all[1].multiprocessors, 28);
  EXPECT_EQ(all[2].multiprocessors, 14);
  EXPECT_EQ(all[2].memory_bytes, 19968 * kMiB);
  EXPECT_NE(all[1].uuid, all[2].uuid);
  EXPECT_TRUE(all[0].uuid.starts_with("MIG-"));
}

TEST_F(MigDeviceTest, MemoryIsLimitedToTheMebibyte) {
  const auto device = open(0);
  EXPECT_EQ(device->memory_info().total, 19968 * kMiB);
  ASSERT_TRUE(device->allocate(19967 * kMiB));
  EXPECT_FALSE(device->allocate(kMiB + 1));
  ASSERT_TRUE(device->allocate(kMiB));
  const auto refused = device->allocate(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(open(1)->memory_info().free, 19968 * kMiB) << "the other GPU instance has its own";
}

TEST_F(MigDeviceTest, ComputeInstancesOfAGpuInstanceShareItsMemory) {
  const auto two = open(1);
  const auto one = open(2);
  ASSERT_TRUE(two->allocate(19000 * kMiB));
  EXPECT_EQ(one->memory_info().free, 968 * kMiB);
  EXPECT_FALSE(one->allocate(969 * kMiB));
  EXPECT_TRUE(one->allocate(968 * kMiB));
}

// The times of an instance are the same to the nanosecond beside a busy neighbour.
TEST_F(MigDeviceTest, ABusyNeighbourDoesNotDelayWork) {
  const auto device = open(0);
  const auto other_gpu_instance = open(1);
  const auto stream = other_gpu_instance->create_stream();
  for (int i = 0; i < 100; ++i) {
    stream->launch(1s);
    stream->copy(Engine::kCopyHostToDevice, 1, 1s);
  }
  Stream& own = device->default_stream();
  EXPECT_EQ(own.copy(Engine::kCopyHostToDevice, 1, 3ms).expected.end, TimePoint(3ms));
  EXPECT_EQ(own.launch(5ms).expected.end, TimePoint(8ms));
  EXPECT_EQ(own.copy(Engine::kCopyDeviceToHost, 1, 2ms).expected.end, TimePoint(10ms));
}

TEST_F(MigDeviceTest, ComputeInstancesOfAGpuInstanceShareItsCopyEnginesOnly) {
  const auto two = open(1);
  const auto one = open(2);
  EXPECT_EQ(two->default_stream().launch(5ms).expected.end, TimePoint(5ms));
  EXPECT_EQ(one->default_stream().launch(5ms).expected.end, TimePoint(5ms));
  EXPECT_EQ(two->create_stream(StreamKind::kNonBlocking)
                ->copy(Engine::kCopyHostToDevice, 1, 4ms)
                .expected.end,
            TimePoint(4ms));
  EXPECT_EQ(one->create_stream(StreamKind::kNonBlocking)
                ->copy(Engine::kCopyHostToDevice, 1, 4ms)
                .expected.end,
            TimePoint(8ms));
}

TEST_F(MigDeviceTest, ACopyWaitsForTheKernelBeforeIt) {
  const auto one = open(2);
  one->default_stream().launch(5ms);
  EXPECT_EQ(one->default_stream().copy(Engine::kCopyDeviceToHost, 1, 1ms).expected.start,
            TimePoint(5ms));
  EXPECT_EQ(one->default_stream().launch(1ms).expected.start, TimePoint(6ms));
  one->synchronize();
  EXPECT_EQ(clock_.now(), TimePoint(7ms));
}

TEST_F(MigDeviceTest, AnInstanceInUseCannotBeDestroyed) {
  auto device = open(0);
  const auto destroy = [](MigLayout& layout) -> Result<void> {
    GPEMU_TRY(layout.destroy_compute(1, 0));
    return layout.destroy(1);
  };
  const Result<void> refused = change(destroy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(refused.error().message.contains(fmt::format("process {}", ::getpid())));
  device.reset();
  const MigDevice gone = devices().front();
  EXPECT_TRUE(change(destroy));
  EXPECT_EQ(Device::open(node_, gone, clock_).error().code, ErrorCode::kNotFound);
}

TEST_F(MigDeviceTest, ANewInstanceAtAPlaceHasItsOwnMemory) {
  open(0).reset();
  ASSERT_TRUE(change([](MigLayout& layout) -> Result<void> {
    GPEMU_TRY(layout.destroy_compute(1, 0));
    GPEMU_TRY(layout.destroy(1));
    GPEMU_TRY(layout.create(19, 0));
    GPEMU_TRY(layout.create_compute(7, 0));
    return {};
  }));
  const MigDevice small = devices().back();
  ASSERT_EQ(small.name, "1g.5gb");
  EXPECT_EQ(Device::open(node_, small, clock_).value()->memory_info().total, 4864 * kMiB);
}

TEST_F(MigDeviceTest, TheGpuItselfIsNoDevice) {
  const auto refused = Device::open(node_, 0, clock_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST_F(MigDeviceTest, TheGpuShowsWhatItsInstancesDo) {
  const auto device = open(0);
  const auto part = open(2);
  ASSERT_TRUE(device->allocate(100 * kMiB));
  ASSERT_TRUE(part->allocate(10 * kMiB));
  device->default_stream().launch(7ms);
  part->default_stream().launch(7ms);
  const auto view = NodeView::open("n", folder_).value();
  for (const DeviceSnapshot& gpu : {node_->device_snapshot(0, TimePoint(10ms)),
                                    view->device_snapshot(0, TimePoint(10ms)).value()}) {
    EXPECT_EQ(gpu.memory_used, 110 * kMiB);
    EXPECT_EQ(gpu.memory_total, spec_.memory_bytes);
    ASSERT_EQ(gpu.processes.size(), 1U);
    EXPECT_EQ(gpu.processes[0].memory_held, 110 * kMiB);
    EXPECT_EQ(gpu.engines[0].busy, 4ms) << "three and one of seven slices, 7 ms each";
    EXPECT_EQ(gpu.engines[0].operations, 2U);
  }
  EXPECT_EQ(view->mig_layout(0, spec_.mig_profiles).value(),
            node_->mig(0).layout(spec_.mig_profiles));
}

TEST_F(MigDeviceTest, ItsModeIsPendingWhileSomebodyUsesTheGpu) {
  constexpr MigMode kOn = {.divided = true, .pending = true};
  constexpr MigMode kOff = {.divided = false, .pending = false};
  constexpr MigMode kEnds = {.divided = true, .pending = false};
  constexpr MigMode kBegins = {.divided = false, .pending = true};
  const auto set = [&](bool divided) {
    return node_->mig(0).set_mode(spec_.mig_profiles, divided).value();
  };
  const auto view = NodeView::open("n", folder_).value();
  const auto seen = [&] { return view->device_snapshot(0, {})->mig; };
  EXPECT_EQ(seen(), kOn);
  auto part = open(2);
  EXPECT_EQ(set(false), kEnds);
  EXPECT_EQ(seen(), kEnds);
  EXPECT_EQ(set(true), kOn) << "taken back";
  part.reset();
  EXPECT_EQ(set(false), kOff);
  EXPECT_EQ(seen(), kOff);
  EXPECT_TRUE(node_->mig(0).layout(spec_.mig_profiles).instances().empty());
  EXPECT_TRUE(view->mig_layout(0, spec_.mig_profiles)->instances().empty());
  const Result<void> refused =
      node_->mig(0).change(spec_.mig_profiles, [](MigLayout&) { return Result<void>(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);

  auto whole = Device::open(node_, 0, clock_).value();
  EXPECT_TRUE(whole->allocate(spec_.memory_bytes - kMiB));
  EXPECT_EQ(node_->device_snapshot(0, {}).memory_used, spec_.memory_bytes - kMiB);
  EXPECT_EQ(set(true), kBegins);
  whole.reset();
  EXPECT_EQ(seen(), kBegins) << "until somebody switches it again";
  EXPECT_EQ(set(true), kOn);
  EXPECT_TRUE(node_->mig(0).layout(spec_.mig_profiles).instances().empty());
}

TEST_F(MigDeviceTest, OtherNodesHaveNoInstances) {
  const auto plain = Node::create_private({.name = "p", .devices = {device_config(spec_)}}).value();
  const Result<void> refused =
      plain->mig(0).change(spec_.mig_profiles, [](MigLayout&) { return Result<void>(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(plain->mig(0).layout(spec_.mig_profiles).instances().empty());
  const auto unchanged = plain->mig(0).set_mode(spec_.mig_profiles, true);
  ASSERT_FALSE(unchanged);
  EXPECT_EQ(unchanged.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(node_->mig(0).set_mode({}, false).error().code, ErrorCode::kUnsupported)
      << "the GPU has no MIG";
}

}  // namespace
}  // namespace gpemu::device
