// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

TEST_F(CApi, DescribesTheDevice) {
  gpemu_device_info info{.struct_size = sizeof info};
  ASSERT_EQ(gpemu_device_get_info(device_, &info), GPEMU_OK);
  EXPECT_STREQ(info.gpu, "V100-PCIE-32GB");
  EXPECT_EQ(info.memory_bytes, 32510ULL << 20);
  EXPECT_EQ(std::string(info.uuid).substr(0, 4), "GPU-");
  EXPECT_EQ(info.struct_size, sizeof info);
  int32_t count = 0;
  ASSERT_EQ(gpemu_node_device_count(node_, &count), GPEMU_OK);
  EXPECT_EQ(count, 2);
}

TEST_F(CApi, FillsNoMoreOfAnOlderStructureThanItHas) {
  gpemu_device_info info{.struct_size = offsetof(gpemu_device_info, uuid)};
  std::memset(info.uuid, 'x', sizeof info.uuid);
  ASSERT_EQ(gpemu_device_get_info(device_, &info), GPEMU_OK);
  EXPECT_STREQ(info.gpu, "V100-PCIE-32GB");
  EXPECT_EQ(info.uuid[0], 'x');
  info.struct_size = 0;
  EXPECT_EQ(gpemu_device_get_info(device_, &info), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApi, AForkedChildCannotUseTheDeviceOfItsParent) {
  gpemu_event* event = nullptr;
  ASSERT_EQ(gpemu_event_create(&event), GPEMU_OK);
  ASSERT_EQ(gpemu_event_record(event, stream_), GPEMU_OK);
  const pid_t child = ::fork();
  if (child == 0) {
    uint64_t bytes = 0;
    int64_t time = 0;
    gpemu_stream* stream = nullptr;
    const gpemu_status answers[] = {
        gpemu_stream_launch(stream_, kMillisecond, nullptr),
        gpemu_stream_copy(stream_, GPEMU_COPY_HOST_TO_DEVICE, 1, kMillisecond, nullptr),
        gpemu_stream_query(stream_),
        gpemu_stream_synchronize(stream_),
        gpemu_stream_wait_event(stream_, event),
        gpemu_event_record(event, stream_),
        gpemu_event_query(event),
        gpemu_event_synchronize(event),
        gpemu_event_elapsed(event, event, &time),
        gpemu_event_time(event, &time),
        gpemu_stream_create(device_, GPEMU_STREAM_BLOCKING, &stream),
        gpemu_device_synchronize(device_),
        gpemu_device_memory(device_, &bytes, &bytes)};
    const bool refused = std::ranges::all_of(
        answers, [](gpemu_status answer) { return answer == GPEMU_ERROR_UNAVAILABLE; });
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gpemu_expected_interval kernel{};
  ASSERT_EQ(gpemu_stream_launch(stream_, kMillisecond, &kernel), GPEMU_OK);
  EXPECT_EQ(kernel.start_ns, 0) << "the child's work is on the timeline";
  gpemu_event_destroy(event);
}

}  // namespace
