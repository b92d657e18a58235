// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

using Stream = gpemu_cuda_stream_handle;
using Event = gpemu_cuda_event_handle;

/// A host function that returns when it is told to.
struct Gate {
  std::latch open{1};
  std::atomic<bool> returned{false};
  static void pass(void* data) {
    auto* const gate = static_cast<Gate*>(data);
    gate->open.wait();
    gate->returned = true;
  }
};

class HostFunctionsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  void SetUp() override {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      ASSERT_EQ(gpemu_cuda_stream_create(i < 2 ? 1 : 0, 0, &streams_[i]), GPEMU_CUDA_SUCCESS);
    }
    for (Event& event : events_) {
      ASSERT_EQ(gpemu_cuda_event_create(0, &event), GPEMU_CUDA_SUCCESS);
    }
  }
  void TearDown() override {
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    for (Stream each : streams_) EXPECT_EQ(gpemu_cuda_stream_destroy(each), GPEMU_CUDA_SUCCESS);
    for (Event each : events_) EXPECT_EQ(gpemu_cuda_event_destroy(each), GPEMU_CUDA_SUCCESS);
  }
  static void add(Stream stream, Gate& gate) {
    ASSERT_EQ(gpemu_cuda_launch_host_function(stream, Gate::pass, &gate), GPEMU_CUDA_SUCCESS);
  }
  static void submit(Stream stream) {
    const gpemu_operation operation{.struct_size = sizeof(operation),
                                    .kind = GPEMU_OPERATION_ELEMENTWISE,
                                    .type = GPEMU_TYPE_FP32,
                                    .shape = {1 << 20, 1 << 20, 1},
                                    .name = "operation"};
    ASSERT_EQ(gpemu_cuda_submit(&operation, stream), GPEMU_CUDA_SUCCESS);
  }
  static void record(Event event, Stream stream) {
    ASSERT_EQ(gpemu_cuda_event_record(event, stream, 0), GPEMU_CUDA_SUCCESS);
  }
  /// Returns whether a stream is ready once the time of all queued work has passed.
  static bool ready(Stream stream) {
    process::clock().wait_until(process::clock().now() + std::chrono::seconds(1));
    return gpemu_cuda_stream_query(stream) == GPEMU_CUDA_SUCCESS;
  }
  static bool ready(Event event) {
    process::clock().wait_until(process::clock().now() + std::chrono::seconds(1));
    return gpemu_cuda_event_query(event) == GPEMU_CUDA_SUCCESS;
  }

  /// The first two do not wait for the legacy default stream.
  std::array<Stream, 4> streams_{};
  std::array<Event, 2> events_{};
};

TEST_F(HostFunctionsTest, HoldUpWhatDependsOnThemAndNothingElse) {
  Gate gate;
  record(events_[0], streams_[0]);
  add(streams_[0], gate);
  record(events_[1], streams_[0]);
  submit(streams_[1]);
  EXPECT_EQ(gpemu_cuda_stream_synchronize(streams_[1]), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_synchronize(events_[0]), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(ready(streams_[1]));
  EXPECT_TRUE(ready(events_[0])) << "recorded before";
  EXPECT_FALSE(ready(streams_[0]));
  EXPECT_FALSE(ready(events_[1]));
  EXPECT_EQ(gpemu_cuda_stream_wait_event(streams_[1], events_[1], 0), GPEMU_CUDA_SUCCESS);
  EXPECT_FALSE(ready(streams_[1]));
  gate.open.count_down();
  EXPECT_EQ(gpemu_cuda_event_synchronize(events_[1]), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(gate.returned);
  for (Stream each : streams_) EXPECT_TRUE(ready(each));
  EXPECT_TRUE(ready(events_[1]));
}

TEST_F(HostFunctionsTest, LegacyStreamAndBlockingStreamsDependOnEachOther) {
  Gate gate;
  add(streams_[2], gate);
  EXPECT_TRUE(ready(streams_[3]));
  EXPECT_FALSE(ready(Stream{}));
  submit(streams_[3]);
  EXPECT_TRUE(ready(streams_[3]));
  submit(nullptr);
  submit(streams_[3]);
  record(events_[0], streams_[3]);
  record(events_[1], streams_[0]);
  EXPECT_FALSE(ready(streams_[3])) << "it is behind the legacy stream's";
  EXPECT_FALSE(ready(events_[0]));
  EXPECT_TRUE(ready(events_[1]));
  gate.open.count_down();
  EXPECT_EQ(gpemu_cuda_stream_synchronize(nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(gate.returned);
  EXPECT_TRUE(ready(streams_[3]));
}

TEST_F(HostFunctionsTest, GraphsDependOnThoseOfTheirNodes) {
  Gate gate;
  ASSERT_EQ(gpemu_cuda_begin_capture(streams_[0], 0, nullptr), GPEMU_CUDA_SUCCESS);
  add(streams_[0], gate);
  EXPECT_EQ(gpemu_cuda_event_record(events_[0], streams_[0], 1), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_graph_handle graph = nullptr;
  ASSERT_EQ(gpemu_cuda_end_capture(streams_[0], &graph), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_exec_handle exec = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(ready(streams_[0]));
  ASSERT_EQ(gpemu_cuda_graph_launch(exec, streams_[0]), GPEMU_CUDA_SUCCESS);
  EXPECT_FALSE(ready(streams_[0]));
  EXPECT_FALSE(ready(events_[0]));
  EXPECT_TRUE(ready(streams_[1]));
  gate.open.count_down();
  EXPECT_EQ(gpemu_cuda_stream_synchronize(streams_[0]), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(gate.returned);
  EXPECT_TRUE(ready(events_[0]));
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(HostFunctionsTest, HoldUpNoNodeBesideThem) {
  Gate gate;
  ASSERT_EQ(gpemu_cuda_begin_capture(streams_[0], 0, nullptr), GPEMU_CUDA_SUCCESS);
  submit(streams_[0]);
  record(events_[0], streams_[0]);
  add(streams_[0], gate);
  EXPECT_EQ(gpemu_cuda_stream_wait_event(streams_[1], events_[0], 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_record(events_[1], streams_[1], 1), GPEMU_CUDA_SUCCESS);
  record(events_[0], streams_[1]);
  EXPECT_EQ(gpemu_cuda_stream_wait_event(streams_[0], events_[0], 0), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_graph_handle graph = nullptr;
  ASSERT_EQ(gpemu_cuda_end_capture(streams_[0], &graph), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_exec_handle exec = nullptr;
  ASSERT_EQ(gpemu_cuda_graph_instantiate(graph, &exec), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_graph_launch(exec, streams_[0]), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(ready(events_[1]));
  EXPECT_FALSE(ready(streams_[0]));
  gate.open.count_down();
  EXPECT_EQ(gpemu_cuda_stream_synchronize(streams_[0]), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(gate.returned);
  EXPECT_EQ(gpemu_cuda_exec_destroy(exec), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
}

TEST_F(HostFunctionsTest, DevicesAndBlockingCopiesWaitForThem) {
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(64, &memory), GPEMU_CUDA_SUCCESS);
  std::array<std::uint8_t, 64> host{};
  const auto address = reinterpret_cast<std::uint64_t>(host.data());
  const auto copy = [](std::uint64_t to, std::uint64_t from, Stream stream) {
    return gpemu_cuda_memcpy(to, from, 64, GPEMU_CUDA_COPY_DEFAULT, stream, 1);
  };
  for (const int wait : {0, 1, 2}) {
    Gate gate;
    add(streams_[0], gate);
    std::thread opener([&gate] { gate.open.count_down(); });
    const auto status = wait == 0   ? gpemu_cuda_device_synchronize()
                        : wait == 1 ? copy(address, memory, streams_[0])
                                    : copy(memory, address, streams_[0]);
    EXPECT_EQ(status, GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(gate.returned) << wait;
    EXPECT_EQ(gpemu_cuda_stream_synchronize(streams_[0]), GPEMU_CUDA_SUCCESS);
    opener.join();
  }
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
